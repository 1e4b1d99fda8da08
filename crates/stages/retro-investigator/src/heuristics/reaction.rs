//! Finds what a run did about its failing calls: whether it repeated, changed or prepared them, and what then worked.
//!
//! Which call failed is judged by its flag and its answer (`outcome`). What agents do next says more where tools
//! speak in ways that nobody listed, in another language or without any word of an error: an agent that changes a
//! call and repeats it at once, or repeats it after another call, was not satisfied with its answer. Such an answer
//! is *suspected*. A walk over pages or ids changes and repeats a call, too, but gets the same kind of answer.

use retro_core::calls::{
    ChangedPart, ObservedBehaviour, Reaction, ReactionEnding, TOOL_SLOT, hash_answer, hash_label,
    hash_witnesses, is_same_error_class,
};
use retro_core::finding::{EvidenceOrigin, Quote};
use retro_core::trajectory::{Trajectory, TurnSource};
use retro_gate::is_plain_name;
use serde_json::Value;

use super::call::{Call, StepCalls};
use super::complaint::reads_as_complaint;
use super::handled_errors::is_transient_error;
use super::lookup;
use super::parts::{self, ValueOrigins};
use super::pause;
use super::quote::first_chars;
use super::repair::names_credential;
use super::signature::{error_signature, mask_arguments};
use super::statements::{find_complaint, parse_json, statements_of};

/// Maximum number of calls after a failing call within which another one recovers from it.
const CALLS_AFTER_MAX: usize = 8;
/// The same for an answer that is only suspected.
const SUSPECTED_CALLS_AFTER_MAX: usize = 3;
/// Maximum number of calls after a failing call within which another tool replaces it.
const TOOL_SWITCH_CALLS_MAX: usize = 3;
/// Minimum similarity of a failing call and one that recovers from it, in per cent.
const SIMILARITY_MIN: usize = 25;
/// Added to the similarity of the call that directly follows a failing one, in per cent.
const NEXT_CALL_BONUS: usize = 20;
/// Added to the similarity of a call that does the same kind of work, such as the same subcommand of a program, in per
/// cent.
const SAME_GOAL_BONUS: usize = 30;
/// Minimum similarity of two calls of which the first is only suspected, in per cent.
const SUSPECTED_SIMILARITY_MIN: usize = 40;
/// Maximum number of parts of a changed call after a suspected answer.
const SUSPECTED_PARTS_MAX: usize = 3;
/// Number of calls before the one that succeeded whose answers may have supplied a value.
const EARLIER_CALLS_MAX: usize = 12;
/// Maximum number of characters of the task in which values are searched for.
const TASK_CHARS_MAX: usize = 8_000;
/// Maximum number of lines of an answer that are compared with another answer.
const LINES_MAX: usize = 80;
/// Maximum number of answers of a step that are noted.
const ANSWERS_MAX: usize = 200;

/// Reaction of a run, with the calls that show it.
pub(super) struct SeenReaction<'c> {
    pub(super) reaction: Reaction,
    /// Failing call.
    pub(super) failing: &'c Call<'c>,
    /// Call that succeeded; `None` if none did.
    pub(super) worked: Option<&'c Call<'c>>,
    /// Quote of the error.
    pub(super) quote: Option<Quote>,
}

/// Finds the reactions of a run, in the order of its steps and calls.
pub(super) fn find_reactions<'c>(
    trajectory: &Trajectory,
    steps: &'c [StepCalls<'c>],
) -> Vec<SeenReaction<'c>> {
    let mut found = Vec::new();
    for step in steps {
        let task = collect_task(trajectory, step);
        let taken = vec![false; step.calls.len()];
        found.extend(StepReactions { trajectory, step, task: &task, taken }.find());
    }
    found
}

/// Returns what the run did, for its summary, without the trials of memories.
pub(super) fn observe_behaviour<'c>(
    trajectory: &Trajectory,
    seen: &[SeenReaction<'c>],
    steps: &'c [StepCalls<'c>],
) -> ObservedBehaviour {
    let (mut routine, mut kept, mut kept_calls) = (Vec::new(), Vec::new(), Vec::new());
    for step in steps {
        let task = collect_task(trajectory, step);
        let within = |call: &Call<'_>| {
            let place = |call: &Call<'_>| (call.turn, call.call_index);
            seen.iter().filter(|one| one.reaction.step == *step.step).any(|one| {
                place(one.failing) < place(call)
                    && one.worked.is_some_and(|worked| place(call) < place(worked))
            })
        };
        let outside = || step.calls.iter().filter(|call| !within(call));
        routine.extend(outside().filter_map(|call| Some(hash_label(step.step, &parts::first_label(call)?))));
        let is_suspected = |call: &Call<'_>| seen.iter().any(|one| std::ptr::eq(one.failing, call));
        let answers = outside().filter(|call| call.succeeded() && !is_suspected(call)).take(ANSWERS_MAX);
        for call in answers {
            kept_calls.push(hash_label(step.step, &parts::call_shape(call, &task)));
            let statements = statements_of(call.answer).into_iter();
            let kinds = statements.map(|line| mask_arguments(error_signature(line), &call.arguments));
            kept.extend(
                kinds.filter(|kind| !kind.is_empty()).map(|kind| hash_answer(step.step, call.tool, &kind)),
            );
        }
    }
    let reactions = seen.iter().map(|one| one.reaction.clone()).collect();
    ObservedBehaviour { reactions, routine, kept, kept_calls, trials: Vec::new() }
}

/// Returns what the agent was told in a step: the messages that are not its own.
fn collect_task(trajectory: &Trajectory, step: &StepCalls<'_>) -> String {
    let told =
        trajectory.turns.iter().filter(|turn| turn.source != TurnSource::Agent && turn.step == *step.step);
    let mut task = String::new();
    for turn in told {
        if task.len() > TASK_CHARS_MAX {
            break;
        }
        task.push_str(first_chars(&turn.message, TASK_CHARS_MAX));
        task.push('\n');
    }
    task
}

/// Search for the reactions in one step.
struct StepReactions<'c, 't> {
    trajectory: &'t Trajectory,
    step: &'c StepCalls<'c>,
    task: &'t str,
    /// `true` for calls that are part of a reaction already.
    taken: Vec<bool>,
}

/// Call that got past an error.
struct Recovery {
    /// Index of the failing attempt that is most like it.
    attempt: usize,
    /// Index of the call.
    worked: usize,
}

impl<'c> StepReactions<'c, '_> {
    fn find(mut self) -> Vec<SeenReaction<'c>> {
        let step = self.step;
        let mut found = Vec::new();
        for (at, call) in step.calls.iter().enumerate() {
            if self.taken[at] || !is_plain_name(call.tool) {
                continue;
            }
            if !call.error().is_empty() {
                found.push(self.react_to_failure(at));
            } else if call.succeeded() {
                found.extend(self.react_to_suspected(at));
            }
        }
        found
    }

    fn react_to_failure(&mut self, at: usize) -> SeenReaction<'c> {
        let calls = &self.step.calls;
        let failing = &calls[at];
        let (attempts, repeats_failed) = self.take_attempts(at);
        let (ending, worked) = match self.find_recovery(at, &attempts) {
            Some(recovery) => (self.describe_recovery(&attempts, &recovery), Some(recovery.worked)),
            None => self.switch_of_tool(at).unwrap_or((ReactionEnding::GaveUp, None)),
        };
        SeenReaction {
            reaction: Reaction {
                step: self.step.step.clone(),
                tool: failing.tool.to_owned(),
                call: parts::first_label(failing).unwrap_or_default(),
                shape: self.shape_of(failing),
                error: failing.error().to_owned(),
                suspected: false,
                complains: false,
                sources: hash_sources(failing),
                temporary: is_transient_error(failing.error()),
                repeats_failed,
                ending,
            },
            failing,
            worked: worked.map(|nth| &calls[nth]),
            quote: failing.error_quote(),
        }
    }

    fn shape_of(&self, call: &Call<'_>) -> u32 {
        hash_label(self.step.step, &parts::call_shape(call, self.task))
    }

    /// Returns the attempts that fail with one error from a call on, until the identical call succeeds, and how many of
    /// them repeat the one before unchanged. Marks them as part of a reaction.
    fn take_attempts(&mut self, at: usize) -> (Vec<usize>, u16) {
        let calls = &self.step.calls;
        let (mut attempts, mut repeats_failed) = (vec![at], 0u16);
        for (nth, later) in calls.iter().enumerate().skip(at + 1).take(CALLS_AFTER_MAX) {
            if later.tool != calls[at].tool {
                continue;
            }
            if later.succeeded() && attempts.iter().any(|attempt| calls[*attempt].raw == later.raw) {
                break;
            }
            if later.failure().is_some() && is_same_error_class(later.error(), calls[at].error()) {
                let last = attempts[attempts.len() - 1];
                repeats_failed += u16::from(calls[last].raw == later.raw);
                self.taken[nth] = true;
                attempts.push(nth);
            }
        }
        (attempts, repeats_failed)
    }

    /// Returns the call that got past the error: the identical one, otherwise the one that is most like an attempt
    /// before it.
    fn find_recovery(&self, at: usize, attempts: &[usize]) -> Option<Recovery> {
        let calls = &self.step.calls;
        let later = calls.iter().enumerate().skip(at + 1).take(CALLS_AFTER_MAX);
        let mut best: Option<(usize, Recovery)> = None;
        for (nth, later) in later.filter(|(_, later)| later.tool == calls[at].tool && later.succeeded()) {
            let before: Vec<usize> = attempts.iter().copied().filter(|attempt| *attempt < nth).collect();
            if let Some(attempt) = before.iter().rev().find(|attempt| calls[**attempt].raw == later.raw) {
                return Some(Recovery { attempt: *attempt, worked: nth });
            }
            let alike = before.iter().map(|attempt| (parts::similarity(&calls[*attempt], later), *attempt));
            let Some((score, attempt)) = alike.max() else { continue };
            // What comes next is more often the next attempt than what comes later.
            let is_next = before.last().is_some_and(|last| nth == last + 1);
            let is_same_goal = parts::is_same_goal(&calls[attempt], later);
            let score =
                score + usize::from(is_next) * NEXT_CALL_BONUS + usize::from(is_same_goal) * SAME_GOAL_BONUS;
            if score >= SIMILARITY_MIN && best.as_ref().is_none_or(|(known, _)| score > *known) {
                best = Some((score, Recovery { attempt, worked: nth }));
            }
        }
        best.map(|(_, recovery)| recovery)
    }

    /// Describes how a call got past an error: what was changed, or what came in between.
    fn describe_recovery(&self, attempts: &[usize], recovery: &Recovery) -> ReactionEnding {
        let calls = &self.step.calls;
        let (attempt, worked) = (&calls[recovery.attempt], &calls[recovery.worked]);
        let last =
            attempts.iter().rev().find(|one| **one < recovery.worked).copied().unwrap_or(recovery.attempt);
        let mut between = &calls[last + 1..recovery.worked];
        if attempt.raw != worked.raw {
            let next_error = between.iter().position(|call| is_other_failure(attempt, call));
            between = &between[..next_error.unwrap_or(between.len())];
        }
        // Another tool may get the very same arguments.
        let between: Vec<&Call<'_>> =
            between.iter().filter(|call| call.failure().is_none() && !is_attempt_of(call, worked)).collect();
        let first = recovery.worked.saturating_sub(EARLIER_CALLS_MAX);
        let earlier: Vec<&Call<'_>> = calls[first..recovery.worked]
            .iter()
            .rev()
            .filter(|call| call.failure().is_none() && !is_attempt_of(call, attempt))
            .collect();
        let origins =
            ValueOrigins { task: self.task, error: attempt.answer, failing: attempt.raw, earlier: &earlier };
        if attempt.raw == worked.raw {
            return match between.as_slice() {
                [] => self.describe_repetition(&calls[last], worked),
                between => ReactionEnding::Changed {
                    parts: parts::first_parts(between.iter().copied(), attempt, origins),
                },
            };
        }
        let Some(difference) = parts::compare_calls(attempt, worked, origins) else {
            return ReactionEnding::Changed { parts: Vec::new() };
        };
        // A call in between counts if it supplied or made a new value, or if nothing else changed.
        let is_supplier = |call: &Call<'_>| {
            let place = |call: &Call<'_>| (call.turn, call.call_index);
            difference.suppliers.iter().any(|supplier| place(supplier) == place(call))
        };
        let supplied =
            between.iter().copied().filter(|call| is_supplier(call) || difference.is_prepared_by(call));
        let mut parts: Vec<ChangedPart> = parts::first_parts(supplied, attempt, origins);
        parts.extend(difference.parts);
        ReactionEnding::Changed { parts }
    }

    /// Describes that the identical call succeeded: at once, or after a pause.
    fn describe_repetition(&self, failing: &Call<'_>, worked: &Call<'_>) -> ReactionEnding {
        match pause::pause_between(self.trajectory, failing, worked) {
            None => ReactionEnding::Repeated,
            Some(seconds) => {
                let forms = pause::describe_pause(seconds);
                let part = ChangedPart {
                    slot: "pause".to_owned(),
                    forms,
                    words: Vec::new(),
                    avoid: None,
                    dropped: false,
                };
                ReactionEnding::Changed { parts: vec![part] }
            }
        }
    }

    /// Returns the ending of a run that called another tool instead, with the index of that call.
    fn switch_of_tool(&self, at: usize) -> Option<(ReactionEnding, Option<usize>)> {
        let failing = &self.step.calls[at];
        let later = self.step.calls.iter().enumerate().skip(at + 1).take(TOOL_SWITCH_CALLS_MAX);
        let (nth, other) = later.into_iter().find(|(_, other)| {
            other.tool != failing.tool
                && other.succeeded()
                && !other.answer.trim().is_empty()
                && is_plain_name(other.tool)
                && !is_given_credential(other)
                && shares_value(failing, other)
        })?;
        // A tool that an answer of this run names is what somebody else chose.
        let is_named = |call: &Call<'_>| parts::contains_value(call.answer, other.tool);
        let form = format!("tool `{}`", other.tool);
        let part = ChangedPart {
            slot: format!("{TOOL_SLOT}{}", other.tool),
            forms: if self.step.calls[..nth].iter().any(is_named) { Vec::new() } else { vec![form] },
            words: Vec::new(),
            avoid: Some(format!("tool `{}`", failing.tool)),
            dropped: false,
        };
        Some((ReactionEnding::Changed { parts: vec![part] }, Some(nth)))
    }

    /// Returns the reaction to an answer that the agent was not satisfied with: it changed the call and repeated it
    /// at once, or repeated it after another call, and got an answer of another kind. After an answer that reads as a
    /// complaint, the same call again and another tool that gets the same value are reactions, too.
    fn react_to_suspected(&mut self, at: usize) -> Option<SeenReaction<'c>> {
        let calls = &self.step.calls;
        let first = &calls[at];
        if first.answer.trim().is_empty() {
            return None;
        }
        let later = calls.iter().enumerate().skip(at + 1).take(SUSPECTED_CALLS_AFTER_MAX);
        let is_again = |(_, later): &(usize, &Call<'_>)| {
            later.tool == first.tool
                && later.succeeded()
                && (later.raw != first.raw || later.answer != first.answer)
                && parts::similarity(first, later) >= SUSPECTED_SIMILARITY_MIN
                && parts::is_same_goal(first, later)
        };
        let mut again: Vec<_> = later.into_iter().filter(is_again).collect();
        // The very same call shows what was missing; a similar one may be what was missing.
        again.sort_by_key(|(_, later)| later.raw != first.raw);
        let (line, ending, worked) = match again.first().copied() {
            Some((nth, again)) => {
                let line = find_unlike_line(first.answer, again.answer)?;
                (line, self.describe_recovery(&[at], &Recovery { attempt: at, worked: nth }), nth)
            }
            None => {
                let line = find_complaint(first.answer, &statements_of(first.answer))?;
                let (ending, worked) = self.switch_of_tool(at)?;
                (line, ending, worked?)
            }
        };
        let error = mask_arguments(error_signature(line), &first.arguments);
        let complains = reads_as_complaint(line);
        let is_reaction = match &ending {
            // Asking the same again is how agents wait for a state.
            _ if worked == at + 1 && calls[worked].raw == first.raw && !complains => false,
            ReactionEnding::Repeated => true,
            ReactionEnding::Changed { parts } => !parts.is_empty() && parts.len() <= SUSPECTED_PARTS_MAX,
            ReactionEnding::GaveUp => false,
        };
        if error.is_empty() || !is_reaction {
            return None;
        }
        self.taken[worked] = true;
        Some(SeenReaction {
            reaction: Reaction {
                step: self.step.step.clone(),
                tool: first.tool.to_owned(),
                call: parts::first_label(first).unwrap_or_default(),
                shape: self.shape_of(first),
                error,
                suspected: true,
                complains,
                sources: hash_sources(first),
                temporary: false,
                repeats_failed: 0,
                ending,
            },
            failing: first,
            worked: Some(&calls[worked]),
            quote: first.quote_answer(line),
        })
    }
}

/// Returns the hashes of the page or file that the answer of a call was read from; empty if there is none.
fn hash_sources(call: &Call<'_>) -> Vec<String> {
    let source = lookup::find_source(call);
    hash_witnesses(&EvidenceOrigin { source, ..EvidenceOrigin::default() })
}

/// Returns `true` if a call is another attempt at the same work, whose answer supplies nothing.
fn is_attempt_of(call: &Call<'_>, attempt: &Call<'_>) -> bool {
    call.tool == attempt.tool && call.raw == attempt.raw
}

/// Returns `true` if a call is a further attempt at the work of a failing one and fails with another error: it has got past the
/// first, and what the run does after it is about the other.
fn is_other_failure(failing: &Call<'_>, call: &Call<'_>) -> bool {
    let (first, other) = (failing.error(), call.error());
    call.tool == failing.tool
        && !first.is_empty()
        && !other.is_empty()
        && !is_same_error_class(first, other)
        && parts::similarity(failing, call) >= SIMILARITY_MIN
}

/// Returns `true` if a call is given a credential. Handing one to another tool is a decision for people.
fn is_given_credential(call: &Call<'_>) -> bool {
    call.arguments.parameters().is_none_or(|map| map.keys().any(|key| names_credential(key)))
}

/// Returns `true` if two calls of different tools have a value in common that is not just a number or a choice.
fn shares_value(a: &Call<'_>, b: &Call<'_>) -> bool {
    let (Some(a), Some(b)) = (a.arguments.parameters(), b.arguments.parameters()) else { return false };
    let says_something = |value: &&Value| value.as_str().is_some_and(|text| text.chars().count() >= 3);
    a.values().filter(says_something).any(|value| b.values().any(|other| other == value))
}

/// Returns the statement of an answer whose like is not in the other answer: a complaint if there is one. Returns
/// `None` if the answers are of one kind.
fn find_unlike_line<'a>(answer: &'a str, other: &str) -> Option<&'a str> {
    let lines = other.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES_MAX);
    let kinds: Vec<String> = lines.map(error_signature).collect();
    let is_unlike = |line: &&&str| {
        let kind = error_signature(line);
        !kind.is_empty()
            && !kinds.iter().any(|known| is_same_error_class(known, &kind))
            && !other.contains(**line)
    };
    let statements = statements_of(answer);
    let unlike: Vec<&&str> = statements.iter().filter(is_unlike).collect();
    let unlike_lines: Vec<&str> = unlike.iter().map(|line| **line).collect();
    if let Some(complaint) = find_complaint(answer, &unlike_lines) {
        return Some(complaint);
    }
    if let (Ok(Value::Object(one)), Ok(Value::Object(with))) = (parse_json(answer), parse_json(other))
        && one.keys().eq(with.keys())
    {
        // Documents with the same fields are of one kind.
        return None;
    }
    // Of several, the first with several words says what is wrong; tables and numbers do not.
    let words =
        |line: &str| line.split_whitespace().filter(|word| word.chars().all(char::is_alphabetic)).count();
    unlike.iter().find(|line| words(line) > 2).or(unlike.first()).map(|line| **line)
}
