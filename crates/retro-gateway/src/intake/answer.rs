//! Answers to `POST /v1/events`.

use retro_core::dead_letter::{Code, Rejection};
use retro_events::field;
use retro_http::Problem;
use serde::Serialize;
use utoipa::ToSchema;

/// Outcome of the events of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EventsAnswer {
    /// Number of events that the broker has stored on disk. The counter processes them soon.
    pub accepted: usize,
    /// Events that are invalid; sending them again does not help.
    pub refused: Vec<RefusedEvent>,
}

/// An invalid event of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RefusedEvent {
    /// Index of the event in the batch, from 0.
    pub index: usize,
    /// Error code, which is the same as that of a dead letter for this event.
    #[schema(value_type = String)]
    pub code: Code,
    /// Path of the offending field, starting at the batch, such as `[3].data.run_id`.
    pub path: String,
    /// Explanation of what is wrong and how to correct it.
    pub detail: String,
}

impl RefusedEvent {
    pub(crate) fn new(index: usize, rejection: Rejection) -> Self {
        let path = field::join_path(&format!("[{index}]"), &rejection.path.unwrap_or_default());
        Self { index, code: rejection.code, path, detail: rejection.detail }
    }
}

/// Problem for a batch in which every event is invalid. It consists of the problem of the first event and a list of
/// all events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EventsRefused {
    /// Problem of the first event.
    #[serde(flatten)]
    pub problem: Problem,
    /// Refusals of all events in the batch.
    pub refused: Vec<RefusedEvent>,
}
