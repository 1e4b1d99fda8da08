//! Simulates how a run meets a cause of failures, and what its agent does with or without a memory of it.

use serde_json::Value;

use super::{PlayedCall, PlayedItem, RunSimulator};
use crate::closed_loop::truth::{match_claim, needs_of, planned_remedy};
use crate::closed_loop::words::states_value;
use crate::closed_loop::world::{AfterFix, Cause, CauseRemedy, Otherwise, UsualPlace};

/// What an agent does because of a memory of the cause.
#[derive(Debug, Clone)]
enum Followed {
    /// It makes the calls of the remedy with this index.
    Exactly(usize),
    /// It tries to, but was not told a value that it cannot guess. The arguments are those of its call, or
    /// `None` for the failing call.
    Guessing(Option<Value>),
    /// It uses the value that this memory states, which is another than the right one, in these arguments.
    Misled(String, Value),
}

impl RunSimulator<'_> {
    pub(super) fn simulate_cause(&mut self, item: PlayedItem, cause: &Cause) {
        let number = self.run.number;
        let drawn = self.draw_bool(&cause.id, "met", cause.chance);
        let follows = self.followed_remedy(item, cause);
        if cause.is_fixed_at(number) {
            return self.simulate_fixed_cause(item, cause, follows, drawn);
        }
        let in_rhythm = cause.rhythm.is_none_or(|rhythm| {
            let place = (number - 1) % rhythm.every + 1;
            (rhythm.runs[0]..=rhythm.runs[1]).contains(&place)
        });
        let met = number >= cause.from && in_rhythm && drawn;
        if !met && cause.otherwise == Otherwise::Skips {
            return;
        }
        if let (true, PlayedItem::Cause(at)) = (met, item) {
            self.result.causes_met.push(at);
        }
        let remedies = cause.remedies();
        let current = cause.remedy_at(number);
        match follows {
            Some(Followed::Exactly(old)) if old != current => self.follow_replaced(item, cause, old, met),
            Some(Followed::Exactly(_)) if met => {
                self.apply_remedy(cause, &remedies[current], remedies[current].minds);
            }
            Some(Followed::Exactly(_)) => self.call_unneeded_remedy(cause, &remedies[current]),
            Some(Followed::Guessing(Some(arguments))) if met => {
                self.guess(item, cause, &remedies[current], &arguments);
            }
            Some(Followed::Misled(id, arguments)) if met => {
                self.result.misled_by.push(id);
                self.guess(item, cause, &remedies[current], &arguments);
            }
            Some(Followed::Guessing(None)) | None if met => {
                self.fail_first(item, cause, &remedies[current]);
            }
            Some(_) | None => self.call_plainly(cause),
        }
    }

    /// Returns what the agent follows: the first memory in its prompt that states a remedy with what the agent
    /// has to be told, in its line or, if the agent opens it, in its content. Without such a memory, one that
    /// leaves that out, and then one that states another value.
    fn followed_remedy(&self, played: PlayedItem, cause: &Cause) -> Option<Followed> {
        let workflow = self.run.workflow;
        let (mut exact, mut guesses, mut misled) = (None, None, None);
        let remedies = cause.remedies();
        let works = cause.remedy_at(self.run.number);
        let current = planned_remedy(&workflow.values, cause, &remedies[works]);
        for (id, lesson) in &self.handed.get(&cause.step)?.memories {
            let claim = match_claim(workflow, &cause.step, lesson);
            if claim.is_empty() && misled.is_none() {
                let arguments = current.with_stated_value(lesson);
                misled = arguments.map(|arguments| Followed::Misled(id.clone(), arguments));
            }
            // A memory that states several remedies is followed in the one that works.
            let mut numbers: Vec<usize> = (0..remedies.len()).collect();
            numbers.sort_by_key(|number| *number != works);
            for number in numbers {
                let item = played.with_remedy(number);
                let told = |needed: &String| {
                    states_value(&lesson.line, needed)
                        || self.opens_memory(id) && states_value(&lesson.content, needed)
                };
                if claim.is_about(item) && needs_of(workflow, item).iter().all(told) {
                    exact = exact.or(Some(Followed::Exactly(number)));
                } else if claim.is_about(item) || claim.inexact.contains(&item) {
                    guesses = Some(Followed::Guessing(cause.guess.clone()));
                }
            }
        }
        let stated = exact.or(guesses).or(misled)?;
        // Every draw has its own key, so skipping one does not shift the others.
        self.draw_bool(&cause.id, "follow", self.run.agents.follow).then_some(stated)
    }

    /// Makes the call of a follower that was not told the right value: it fails, and the agent is no further than one
    /// without a memory.
    fn guess(&mut self, item: PlayedItem, cause: &Cause, remedy: &CauseRemedy<'_>, arguments: &Value) {
        let error = self.choose_error(cause);
        let error = cause.guess_error.as_ref().unwrap_or(&error);
        self.record_call(&cause.step, PlayedCall::new(remedy.tool, arguments, error), cause.exit);
        self.recover_from_failure(item, cause, remedy);
    }

    fn choose_error(&self, cause: &Cause) -> String {
        self.rng_for(&cause.id, "error").choose(&cause.errors).cloned().unwrap_or_default()
    }

    /// Makes the call that fails, as often as the agent tries it, and the remedy if the agent finds it.
    fn fail_first(&mut self, item: PlayedItem, cause: &Cause, remedy: &CauseRemedy<'_>) {
        let error = self.choose_error(cause);
        let exit = if cause.silent { 0 } else { cause.exit };
        for _ in 0..self.rng_for(&cause.id, "tries").choose(&cause.tries).copied().unwrap_or(1) {
            self.record_call(&cause.step, PlayedCall::new(&cause.tool, &cause.arguments, &error), exit);
        }
        self.recover_from_failure(item, cause, remedy);
    }

    /// Applies the remedy if the agent finds it; otherwise the run ends badly.
    fn recover_from_failure(&mut self, item: PlayedItem, cause: &Cause, remedy: &CauseRemedy<'_>) {
        if self.finds_remedy(&cause.id, cause.finds_out) {
            self.apply_remedy(cause, remedy, "");
            if self.draw_bool(&cause.id, "costs", cause.costs) {
                self.record_failure(item);
            }
            return;
        }
        self.make_usual_calls(cause);
        if self.draw_bool(&cause.id, "bad_end", cause.bad_end.unwrap_or(1.0)) {
            self.record_failure(item);
        }
    }

    fn apply_remedy(&mut self, cause: &Cause, remedy: &CauseRemedy<'_>, words: &str) {
        let mut words = words;
        for call in remedy.earlier_calls() {
            let played = PlayedCall::new(&call.tool, &call.arguments, &call.answer).saying(words);
            self.record_call(&cause.step, played, 0);
            words = "";
        }
        self.result.trace.pass_time(remedy.wait.unwrap_or_default());
        let played = PlayedCall::new(remedy.tool, remedy.right, remedy.answer).saying(words);
        self.record_call(&cause.step, played, 0);
    }

    /// Follows a memory in a run that does not meet its cause: the call of the remedy succeeds as well.
    fn call_unneeded_remedy(&mut self, cause: &Cause, remedy: &CauseRemedy<'_>) {
        for call in remedy.earlier_calls().filter(|call| call.usual == UsualPlace::After) {
            let played = PlayedCall::new(&call.tool, &call.arguments, &call.answer);
            self.record_call(&cause.step, played, 0);
        }
        self.record_call(&cause.step, PlayedCall::new(remedy.tool, remedy.right, remedy.answer), 0);
    }

    /// Follows a memory whose remedy another one has replaced: its call fails.
    fn follow_replaced(&mut self, item: PlayedItem, cause: &Cause, old: usize, met: bool) {
        let remedies = cause.remedies();
        let harm = cause.replaced_harm(self.run.number).unwrap_or_default();
        for call in remedies[old].earlier_calls() {
            let played = PlayedCall::new(&call.tool, &call.arguments, &call.answer);
            self.record_call(&cause.step, played, 0);
        }
        self.record_call(&cause.step, PlayedCall::new(remedies[old].tool, remedies[old].right, harm), 1);
        self.result.harmed_by.push(item.with_remedy(old));
        let found = self.finds_remedy(&cause.id, cause.finds_out);
        match (found, met) {
            (true, true) => self.apply_remedy(cause, &remedies[cause.remedy_at(self.run.number)], ""),
            (true, false) => self.call_plainly(cause),
            (false, true) => self.record_failure(item),
            (false, false) => self.result.failed = true,
        }
    }

    /// Makes the plain call successfully, and then the calls that agents usually make after it.
    fn call_plainly(&mut self, cause: &Cause) {
        self.record_call(&cause.step, PlayedCall::new(&cause.tool, &cause.arguments, &cause.answer), 0);
        self.make_usual_calls(cause);
    }

    fn make_usual_calls(&mut self, cause: &Cause) {
        let remedies = cause.remedies();
        let current = &remedies[cause.remedy_at(self.run.number)];
        for call in current.earlier_calls().filter(|call| call.usual == UsualPlace::After) {
            let played = PlayedCall::new(&call.tool, &call.arguments, &call.answer);
            self.record_call(&cause.step, played, 0);
        }
    }

    fn record_failure(&mut self, item: PlayedItem) {
        self.result.failed = true;
        if let PlayedItem::Cause(at) = item {
            self.result.failed_by.push(at);
        }
    }

    /// Simulates a cause that is already fixed. `drawn` is `true` if the run would have encountered the cause
    /// before the fix.
    fn simulate_fixed_cause(
        &mut self,
        item: PlayedItem,
        cause: &Cause,
        follows: Option<Followed>,
        drawn: bool,
    ) {
        if cause.after == AfterFix::Gone || (cause.otherwise == Otherwise::Skips && !drawn) {
            return;
        }
        let remedies = cause.remedies();
        match (&cause.harm, cause.after, follows) {
            (Some(harm), AfterFix::Harmful, Some(Followed::Exactly(number))) => {
                let call = PlayedCall::new(remedies[number].tool, remedies[number].right, harm);
                self.record_call(&cause.step, call, 1);
                let plain = PlayedCall::new(&cause.tool, &cause.arguments, &cause.answer);
                self.result.harmed_by.push(item.with_remedy(number));
                self.recover_or_fail(cause.finds_out, &cause.id, (&cause.step, plain));
            }
            (_, _, Some(Followed::Exactly(number))) => {
                self.apply_remedy(cause, &remedies[number], remedies[number].minds)
            }
            (_, _, Some(_) | None) => self.call_plainly(cause),
        }
    }
}

#[cfg(test)]
mod tests;
