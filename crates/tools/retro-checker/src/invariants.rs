//! Defines the invariants, and checks a history and its states against them.

mod dead_letters;
mod events;
mod invariant;
mod judge;
mod leases;
mod memory;
mod messages;
mod progress;
mod report;
mod transitions;
mod windows;

use crate::history::History;
use crate::state::State;

pub use invariant::Invariant;
use judge::Judge;
pub use progress::ProgressFloor;
pub use report::{CheckReport, Progress, Violation};

/// Checks a history and the states that were read during it.
///
/// `states` are in reading order, and the last state must be read after all work is done. An empty list
/// violates [`Invariant::Progress`].
pub fn check_history(history: &History, states: &[State], floor: &ProgressFloor) -> CheckReport {
    let mut judge = Judge::default();
    let Some(last) = states.last() else {
        judge.add_violation(Invariant::Progress, "states", "no state was read");
        return judge.checked;
    };
    for state in states {
        messages::check_acknowledged_after_commit(&mut judge, state);
        windows::check_windows(&mut judge, state);
        leases::check_leases(&mut judge, state, history);
        memory::check_memory(&mut judge, state);
    }
    for pair in states.windows(2) {
        transitions::check_transition(&mut judge, &pair[0], &pair[1]);
    }
    events::check_events(&mut judge, history, last);
    dead_letters::check_dead_letters(&mut judge, history, last);
    messages::check_drained(&mut judge, history, last);
    progress::check_progress(&mut judge, history, last, floor);
    // A lasting violation is found in every state; report it once.
    judge.checked.violations.sort_unstable();
    judge.checked.violations.dedup();
    judge.checked
}

#[cfg(test)]
mod tests;
