//! Defines the invariants, and checks a history and its states against them.

mod dead_letters;
mod events;
mod leases;
mod memory;
mod messages;
mod progress;
mod transitions;
mod windows;

use std::collections::BTreeSet;
use std::fmt;

use crate::history::History;
use crate::state::State;

pub use progress::{Progress, ProgressFloor};

macro_rules! invariants {
    ($($name:ident = $word:literal, $sentence:literal;)*) => {
        /// A property that must always hold.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Invariant {
            $(#[doc = $sentence] $name,)*
        }

        impl Invariant {
            /// All invariants.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the snake-case name of the invariant.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// Returns the invariant as a sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence),* }
            }
        }
    };
}

invariants! {
    NothingLost = "nothing_lost", "Every acknowledged event is counted, a known duplicate, dead-lettered, or in flight.";
    NothingInvented = "nothing_invented", "Every stored run was emitted.";
    EventOnce = "event_once", "An event is handled once, however often it is delivered.";
    RunOnce = "run_once", "No run is counted twice, and no ordinal is missing.";
    EpochsContiguous = "epochs_contiguous", "The epochs of a workflow follow one another, and at most one is open.";
    WindowsContiguous = "windows_contiguous", "Windows are contiguous and disjoint; a released window is claimed again.";
    SampleStands = "sample_stands", "The claimed window and the drawn sample of a retrospective never change.";
    TokensGrow = "tokens_grow", "Committed stages carry non-decreasing fencing tokens, and the last is the claim's own.";
    AttemptsBounded = "attempts_bounded", "Attempts are bounded.";
    EffectOnce = "effect_once", "No effect key (memory, cause, kind) occurs twice.";
    MemoryIsFold = "memory_is_fold", "The memory table is the fold of the change log.";
    LogGrows = "log_grows", "Append-only tables only grow, and permanent rows are never deleted.";
    DeadLetterOnce = "dead_letter_once", "A message whose attempts are spent has one dead letter.";
    DeadLetterExact = "dead_letter_exact", "A dead letter's bytes equal the original's.";
    ReplayOnce = "replay_once", "Any number of replays has one effect.";
    OutboxDrained = "outbox_drained", "The outbox drains, and every message marked as sent is at the broker.";
    BrokerDrained = "broker_drained", "At the end no consumer has pending messages.";
    AckAfterCommit = "ack_after_commit", "No message is acknowledged before its effects or its dead letter are stored.";
    Progress = "progress", "A test in which nothing happened does not pass.";
}

/// Violation of an invariant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Violated invariant.
    pub invariant: Invariant,
    /// Location of the violation: table and key, or stream and sequence.
    pub place: String,
    /// Human-readable description of the violation.
    pub problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, place, problem } = self;
        write!(f, "{}: {place}: {problem}. {}", invariant.as_str(), invariant.sentence())
    }
}

/// Result of checking a history and its states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Violations; empty if every invariant holds.
    pub violations: Vec<Violation>,
    /// Acknowledged events that were lost with the broker's data; empty unless the history contains a wipe of
    /// the broker.
    pub lost_with_broker: Vec<String>,
    /// Amount of work done by the program.
    pub progress: Progress,
}

impl CheckReport {
    /// Returns the distinct violated invariants.
    pub fn broken_invariants(&self) -> BTreeSet<Invariant> {
        self.violations.iter().map(|violation| violation.invariant).collect()
    }

    /// Panics with a list of the violations if there are any.
    pub fn assert_sound(&self) {
        let violations: Vec<_> = self.violations.iter().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
    }
}

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

/// Collects the violations found by a check.
#[derive(Default)]
struct Judge {
    checked: CheckReport,
}

impl Judge {
    fn add_violation(&mut self, invariant: Invariant, place: impl Into<String>, problem: impl Into<String>) {
        let (place, problem) = (place.into(), problem.into());
        self.checked.violations.push(Violation { invariant, place, problem });
    }
}

#[cfg(test)]
mod tests;
