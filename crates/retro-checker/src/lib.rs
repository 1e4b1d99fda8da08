#![doc = include_str!("../README.md")]

mod event;
mod fold;
mod history;
mod invariants;
mod read;
mod state;

use std::fmt;

pub use event::{Event, Said};
pub use history::{Begun, Done, End, History, Operation, Recorder, WIPED};
pub use invariants::{Checked, Floor, Invariant, Progress, Violation, check};
pub use read::Source;
pub use state::{
    Act, Attempt, Broker, Change, Consumer, Deed, Investigation, JournalEntry, Known, Letter, Memory,
    Outgoing, Replay, Retrospective, Run, State, Stored, Stream, Workflow,
};

/// What could not be read, and why: the place is a file with its line, a table, or a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct CheckError {
    /// Where.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}

/// Says where a problem is.
pub(crate) fn about<E: fmt::Display>(place: impl fmt::Display) -> impl FnOnce(E) -> CheckError {
    move |error| CheckError { place: place.to_string(), problem: error.to_string() }
}
