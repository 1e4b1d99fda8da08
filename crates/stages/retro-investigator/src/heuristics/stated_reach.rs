//! Checks that a change that a model states can help another run: that the run meets its cue, and that its value is not one of
//! this task.

use retro_core::finding::{Quote, SavedChange};
use retro_core::trajectory::{QuotePlace, Trajectory, TurnSource};

use super::parts::contains_value;
use super::stated::StatedFinding;

/// Returns `true` if a quote is from the answer of a call of a tool.
pub(super) fn is_answer_of(trajectory: &Trajectory, quote: &Quote, tool: &str) -> bool {
    let QuotePlace::Answer { turn, call } = quote.place else { return false };
    let calls = trajectory.turns.get(turn as usize).map(|turn| &turn.calls);
    calls.and_then(|calls| calls.get(call as usize)).is_some_and(|call| call.tool == tool)
}

/// Fails if the answer of the call that worked says the same, but for numbers: such a text does not tell an agent that its call
/// went wrong.
pub(super) fn check_tells_failure(quote: &str, worked_answer: &str) -> Result<(), String> {
    if without_numbers(worked_answer).contains(&without_numbers(quote)) {
        return Err("`error_quote` is also in the answer of the later call that worked, but for numbers: quote what only the \
                    call that went wrong answers, or leave `change` out"
            .to_owned());
    }
    Ok(())
}

fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.trim().chars() {
        match c {
            '0'..='9' if out.ends_with('0') => {}
            '0'..='9' => out.push('0'),
            other => out.push(other),
        }
    }
    out
}

/// Fails if the new value of an argument is right for this run alone: a name or a number that its task or an earlier answer
/// gave.
pub(super) fn check_is_general(
    trajectory: &Trajectory,
    failing_turn: u32,
    stated: &StatedFinding,
    change: SavedChange,
) -> Result<(), String> {
    let is_name = |value: &&str| value.chars().any(|c| c.is_uppercase() || c.is_ascii_digit());
    let Some(good) = stated.good.as_deref().filter(is_name).filter(|_| change == SavedChange::SetArgument)
    else {
        return Ok(());
    };
    let told = trajectory.turns.iter().filter(|turn| turn.source == TurnSource::User);
    let mut told = told.map(|turn| turn.message.as_str());
    let before = trajectory.turns.iter().take(failing_turn as usize).flat_map(|turn| &turn.calls);
    let mut answered = before.filter_map(|call| call.answer.as_deref());
    if told.any(|text| contains_value(text, good)) || answered.any(|text| contains_value(text, good)) {
        return Err(format!(
            "`good`: {good} is given by the task or by an earlier answer, so another run needs another value; name the call \
             whose answer has it with `call_first`, or leave `change` out"
        ));
    }
    Ok(())
}
