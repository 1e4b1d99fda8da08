//! What always holds, each with a name and a sentence; and the judgement of a history and what came of it.

mod events;
mod floor;
mod letters;
mod memory;
mod messages;
mod moments;
mod windows;
mod work;

use std::collections::BTreeSet;
use std::fmt;

use crate::history::History;
use crate::state::State;

pub use floor::{Floor, Progress};

macro_rules! invariants {
    ($($name:ident = $word:literal, $sentence:literal;)*) => {
        /// What always holds.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Invariant {
            $(#[doc = $sentence] $name,)*
        }

        impl Invariant {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// What it says.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence),* }
            }
        }
    };
}

invariants! {
    NothingLost = "nothing_lost", "Every acknowledged event is counted, a known duplicate, dead, or in flight.";
    NothingInvented = "nothing_invented", "Every run that is stored was emitted.";
    EventOnce = "event_once", "An event is handled once, however often it is delivered.";
    RunOnce = "run_once", "No run is counted twice, and no ordinal is missing.";
    EpochsContiguous = "epochs_contiguous", "The epochs of a workflow follow one another, and at most one is open.";
    WindowsContiguous = "windows_contiguous", "Windows are contiguous and disjoint, except where one was released.";
    SampleStands = "sample_stands", "What a retrospective claimed and drew does not change, whoever takes it over.";
    TokensGrow = "tokens_grow", "Committed stages carry non-decreasing fencing tokens, the last of them the claim's own.";
    AttemptsBounded = "attempts_bounded", "Attempts are bounded.";
    EffectOnce = "effect_once", "No effect key (memory, cause, kind) happens twice.";
    MemoryIsFold = "memory_is_fold", "Memory is the fold of its log.";
    LogGrows = "log_grows", "What is append-only only grows, and nothing stored for ever goes away.";
    LetterOnce = "letter_once", "A message that was given up, or whose attempts are spent, has one dead letter.";
    LetterExact = "letter_exact", "A dead letter's bytes equal the original's.";
    ReplayOnce = "replay_once", "Any number of replays has one effect.";
    OutboxDrained = "outbox_drained", "The outbox drains: what it marks as sent is at the broker.";
    BrokerDrained = "broker_drained", "In the end no consumer has a message that waits.";
    AckAfterCommit = "ack_after_commit", "Nothing is acknowledged before its effects, or its dead letter, are stored.";
    Progress = "progress", "A run that did nothing does not pass.";
}

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// Where: table and key, or stream and place.
    pub place: String,
    /// What is the matter there.
    pub problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, place, problem } = self;
        write!(f, "{}: {place}: {problem}. {}", invariant.as_str(), invariant.sentence())
    }
}

/// What came of checking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// What does not hold; empty when everything does.
    pub violations: Vec<Violation>,
    /// Events that were acknowledged and are gone with the broker's data. Only where the history says that it was wiped.
    pub lost_with_broker: Vec<String>,
    /// How far the program came.
    pub progress: Progress,
}

impl Checked {
    /// The invariants that do not hold, each once.
    pub fn broken(&self) -> BTreeSet<Invariant> {
        self.violations.iter().map(|violation| violation.invariant).collect()
    }

    /// Panics with every violation, for tests.
    pub fn assert(&self) {
        let told: Vec<_> = self.violations.iter().map(ToString::to_string).collect();
        assert!(told.is_empty(), "{} violations:\n{}", told.len(), told.join("\n"));
    }
}

/// Judges what was done and what came of it. `states` are read at several moments, in order; the last one at rest, when
/// nothing is left to do. An empty list breaks the progress floor.
pub fn check(history: &History, states: &[State], floor: &Floor) -> Checked {
    let mut judge = Judge::default();
    let Some(last) = states.last() else {
        judge.finds(Invariant::Progress, "states", "none was read");
        return judge.checked;
    };
    for state in states {
        messages::acknowledged_after_commit(&mut judge, state);
        windows::check(&mut judge, state);
        work::check(&mut judge, state, history);
        memory::check(&mut judge, state);
    }
    for pair in states.windows(2) {
        moments::check(&mut judge, &pair[0], &pair[1]);
    }
    events::check(&mut judge, history, last);
    letters::check(&mut judge, history, last);
    messages::drained(&mut judge, history, last);
    floor::check(&mut judge, history, last, floor);
    judge.checked.violations.sort_unstable();
    judge.checked.violations.dedup();
    judge.checked
}

/// Gathers what is found.
#[derive(Default)]
struct Judge {
    checked: Checked,
}

impl Judge {
    fn finds(&mut self, invariant: Invariant, place: impl Into<String>, problem: impl Into<String>) {
        let (place, problem) = (place.into(), problem.into());
        self.checked.violations.push(Violation { invariant, place, problem });
    }
}

#[cfg(test)]
mod tests;
