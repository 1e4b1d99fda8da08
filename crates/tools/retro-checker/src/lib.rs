#![doc = include_str!("../README.md")]

mod event;
mod fold;
mod history;
mod invariants;
mod read;
mod state;

use std::fmt;

pub use event::{Event, ParsedEvent};
pub use history::{
    BROKER_WIPED, History, Operation, OperationOutcome, PendingOperation, RecordedOperation, Recorder,
};
pub use invariants::{CheckReport, Invariant, Progress, ProgressFloor, Violation, check_history};
pub use read::StateSource;
pub use state::{
    Attempt, AuditEntry, Broker, Change, Consumer, DeadLetter, InboxRow, Investigation, JournalEntry, Memory,
    OutboxRow, Replay, Retrospective, Run, State, StoredMessage, Stream, WorkCounts, Workflow,
};

/// Error while reading a history file, the database or the broker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct CheckError {
    /// Location of the error: a file with its line, a table, or a stream.
    pub place: String,
    /// Human-readable description of the error.
    pub problem: String,
}

/// Returns a closure for `map_err` that adds a location to an error.
pub(crate) fn error_at<E: fmt::Display>(place: impl fmt::Display) -> impl FnOnce(E) -> CheckError {
    move |error| CheckError { place: place.to_string(), problem: error.to_string() }
}
