//! Finds transients: errors that disappear when the identical call is repeated. Such an error needs no change
//! to disappear, even if another run happened to change something first.
//!
//! Only an attempt that directly follows the failing call counts. Any call, message or answer between the two
//! attempts may have helped, and so may anything that another step did in the meantime.

use std::collections::BTreeSet;

use retro_core::finding::TransientError;
use retro_core::trajectory::{Trajectory, Turn, TurnSource};
use retro_gate::is_plain_name;

use super::call::{Call, StepCalls};
use super::pause;

/// Maximum length, in bytes, of a message that is assumed to have no effect.
const MESSAGE_BYTES_MAX: usize = 600;
/// Maximum number of transients returned for one run. Recurring ones are found again in other runs.
const TRANSIENTS_MAX: usize = 6;

/// Returns the transient errors of a run, at most one per step, tool and error.
pub(super) fn find_transients(trajectory: &Trajectory, steps: &[StepCalls<'_>]) -> Vec<TransientError> {
    let mut reported = BTreeSet::new();
    let mut transients = Vec::new();
    for step in steps {
        for (failing, next) in step.calls.iter().zip(step.calls.iter().skip(1)) {
            let key = (step.step, failing.tool, failing.error());
            if !same_call_succeeds(failing, next)
                || reported.contains(&key)
                || pause::pause_between(trajectory, failing, next).is_some()
                || !is_undisturbed(trajectory, failing, next)
            {
                continue;
            }
            reported.insert(key);
            transients.extend(failing.error_quote().map(|quote| TransientError {
                step: step.step.clone(),
                tool: failing.tool.to_owned(),
                error: failing.error().to_owned(),
                quote,
            }));
        }
    }
    transients.truncate(TRANSIENTS_MAX);
    transients
}

/// Returns `true` if `next` repeats the failing call and succeeds. Calls without arguments are excluded,
/// because they work on state that the log does not show.
fn same_call_succeeds(failing: &Call<'_>, next: &Call<'_>) -> bool {
    !failing.error().is_empty()
        && is_plain_name(failing.tool)
        && next.tool == failing.tool
        && next.raw == failing.raw
        && failing.raw.contains(char::is_alphanumeric)
        && next.turn > failing.turn
        && next.succeeded()
}

/// Returns `true` if nothing that could have helped happened between the two calls: no other call was made,
/// and all turns are messages of the agent without an effect.
fn is_undisturbed(trajectory: &Trajectory, failing: &Call<'_>, next: &Call<'_>) -> bool {
    let (first, last) = (failing.turn as usize, next.turn as usize);
    let alone = |turn: usize| trajectory.turns[turn].calls.len() == 1;
    let silent = |turn: &Turn| turn.source == TurnSource::Agent && !may_act(&turn.message);
    alone(first)
        && alone(last)
        && trajectory.turns[first + 1..last].iter().all(|turn| turn.calls.is_empty() && silent(turn))
        && silent(&trajectory.turns[last])
}

/// Returns `true` if a message may have an effect, because some agents edit files and run code through
/// messages.
fn may_act(message: &str) -> bool {
    message.len() > MESSAGE_BYTES_MAX
        || ["```", "<<<<<<<", "*** Begin", "diff --git"].iter().any(|mark| message.contains(mark))
}
