//! Transients: errors that the very same call gets past at its next try. They pass by themselves, whatever else somebody
//! changed to get past them in another run.
//!
//! Only a call that stands right behind the failing one counts: whatever is done, said or answered between the two may be
//! what helped, and so may anything that another step does meanwhile.

use std::collections::BTreeSet;

use retro_core::finding::Transient;
use retro_core::trajectory::{Source, Trajectory, Turn};

use super::call::{Call, StepCalls};
use super::manner::is_name;

/// The longest message that is only words, in bytes.
const MESSAGE_BYTES_MAX: usize = 600;
/// The most transients of one run: what recurs comes again.
const TRANSIENTS_MAX: usize = 6;

/// The errors of a run that passed by themselves, one an error, tool and step.
pub(super) fn find(trajectory: &Trajectory, steps: &[StepCalls<'_>]) -> Vec<Transient> {
    let mut told = BTreeSet::new();
    let mut transients = Vec::new();
    for step in steps {
        for (failing, next) in step.calls.iter().zip(step.calls.iter().skip(1)) {
            let key = (step.step, failing.tool, failing.error());
            if !same_call_succeeds(failing, next)
                || told.contains(&key)
                || !undisturbed(trajectory, failing, next)
            {
                continue;
            }
            told.insert(key);
            transients.extend(failing.error_quote().map(|quote| Transient {
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

/// A call without arguments works on what the log does not show.
fn same_call_succeeds(failing: &Call<'_>, next: &Call<'_>) -> bool {
    !failing.error().is_empty()
        && is_name(failing.tool)
        && next.tool == failing.tool
        && next.raw == failing.raw
        && failing.raw.contains(char::is_alphanumeric)
        && next.turn > failing.turn
        && next.succeeded()
}

/// Whether nothing happened between the two: no other call in any step, nobody but the agent spoke, and what it said did
/// nothing either.
fn undisturbed(trajectory: &Trajectory, failing: &Call<'_>, next: &Call<'_>) -> bool {
    let (first, last) = (failing.turn as usize, next.turn as usize);
    let alone = |turn: usize| trajectory.turns[turn].calls.len() == 1;
    let silent = |turn: &Turn| turn.source == Source::Agent && !acts(&turn.message);
    alone(first)
        && alone(last)
        && trajectory.turns[first + 1..last].iter().all(|turn| turn.calls.is_empty() && silent(turn))
        && silent(&trajectory.turns[last])
}

/// Whether a message may be more than words: some agents edit files and run code by what they say.
fn acts(message: &str) -> bool {
    message.len() > MESSAGE_BYTES_MAX
        || ["```", "<<<<<<<", "*** Begin", "diff --git"].iter().any(|mark| message.contains(mark))
}
