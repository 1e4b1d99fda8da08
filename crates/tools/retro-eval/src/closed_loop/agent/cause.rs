//! Simulates how a run meets a cause of failures, and what its agent does with or without a memory of it.

use super::{PlayedCall, RunSimulator};
use crate::closed_loop::truth::{WorldItem, match_claim};
use crate::closed_loop::world::{AfterFix, Cause, CauseRemedy, Otherwise, UsualPlace};

impl RunSimulator<'_> {
    pub(super) fn simulate_cause(&mut self, at: usize, cause: &Cause) {
        let number = self.run.number;
        let drawn = self.draw_bool(&cause.id, "met", cause.chance);
        let follows = self.followed_remedy(at, cause);
        if cause.is_fixed_at(number) {
            return self.simulate_fixed_cause(at, cause, follows, drawn);
        }
        let in_rhythm = cause.rhythm.is_none_or(|rhythm| {
            let place = (number - 1) % rhythm.every + 1;
            (rhythm.runs[0]..=rhythm.runs[1]).contains(&place)
        });
        let met = number >= cause.from && in_rhythm && drawn;
        if !met && cause.otherwise == Otherwise::Skips {
            return;
        }
        if met {
            self.result.causes_met.push(at);
        }
        let remedies = cause.remedies();
        let current = cause.remedy_at(number);
        match follows {
            Some(old) if old != current => self.follow_replaced(at, cause, old, met),
            Some(_) if met => self.apply_remedy(cause, &remedies[current], remedies[current].minds),
            Some(_) => self.call_unneeded_remedy(cause, &remedies[current]),
            None if met => self.fail_first(at, cause, &remedies[current]),
            None => self.call_plainly(cause),
        }
    }

    /// Returns the index of the remedy that the agent follows: that of the first memory in its prompt that
    /// states one.
    fn followed_remedy(&self, at: usize, cause: &Cause) -> Option<usize> {
        let handed = self.handed.get(&cause.step)?;
        let stated = handed.memories.iter().find_map(|(_, lesson)| {
            let claim = match_claim(self.run.workflow, &cause.step, lesson);
            (0..cause.remedies().len()).find(|number| claim.is_about(WorldItem::Cause(at, *number)))
        })?;
        // Every draw has its own key, so skipping one does not shift the others.
        self.draw_bool(&cause.id, "follow", self.run.agents.follow).then_some(stated)
    }

    /// Makes the call that fails, as often as the agent tries it, and the remedy if the agent finds it.
    fn fail_first(&mut self, at: usize, cause: &Cause, remedy: &CauseRemedy<'_>) {
        let error = self.rng_for(&cause.id, "error").choose(&cause.errors).cloned().unwrap_or_default();
        let exit = if cause.silent { 0 } else { cause.exit };
        for _ in 0..self.rng_for(&cause.id, "tries").choose(&cause.tries).copied().unwrap_or(1) {
            self.record_call(&cause.step, PlayedCall::new(&cause.tool, &cause.arguments, &error), exit);
        }
        if self.finds_remedy(&cause.id, cause.finds_out) {
            self.apply_remedy(cause, remedy, "");
            if self.draw_bool(&cause.id, "costs", cause.costs) {
                self.record_failure(at);
            }
            return;
        }
        self.make_usual_calls(cause);
        if self.draw_bool(&cause.id, "bad_end", cause.bad_end.unwrap_or(1.0)) {
            self.record_failure(at);
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
    fn follow_replaced(&mut self, at: usize, cause: &Cause, old: usize, met: bool) {
        let remedies = cause.remedies();
        let harm = cause.replaced_harm(self.run.number).unwrap_or_default();
        for call in remedies[old].earlier_calls() {
            let played = PlayedCall::new(&call.tool, &call.arguments, &call.answer);
            self.record_call(&cause.step, played, 0);
        }
        self.record_call(&cause.step, PlayedCall::new(remedies[old].tool, remedies[old].right, harm), 1);
        self.result.harmed_by.push(WorldItem::Cause(at, old));
        let found = self.finds_remedy(&cause.id, cause.finds_out);
        match (found, met) {
            (true, true) => self.apply_remedy(cause, &remedies[cause.remedy_at(self.run.number)], ""),
            (true, false) => self.call_plainly(cause),
            (false, true) => self.record_failure(at),
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

    fn record_failure(&mut self, cause: usize) {
        self.result.failed = true;
        self.result.failed_by.push(cause);
    }

    /// Simulates a cause that is already fixed. `drawn` is `true` if the run would have encountered the cause
    /// before the fix.
    fn simulate_fixed_cause(&mut self, at: usize, cause: &Cause, follows: Option<usize>, drawn: bool) {
        if cause.after == AfterFix::Gone || (cause.otherwise == Otherwise::Skips && !drawn) {
            return;
        }
        let remedies = cause.remedies();
        match (&cause.harm, cause.after, follows) {
            (Some(harm), AfterFix::Harmful, Some(number)) => {
                let call = PlayedCall::new(remedies[number].tool, remedies[number].right, harm);
                self.record_call(&cause.step, call, 1);
                let plain = PlayedCall::new(&cause.tool, &cause.arguments, &cause.answer);
                self.recover_or_fail(
                    WorldItem::Cause(at, number),
                    cause.finds_out,
                    &cause.id,
                    (&cause.step, plain),
                );
            }
            (_, _, Some(number)) => self.apply_remedy(cause, &remedies[number], remedies[number].minds),
            (_, _, None) => self.call_plainly(cause),
        }
    }
}

#[cfg(test)]
mod tests;
