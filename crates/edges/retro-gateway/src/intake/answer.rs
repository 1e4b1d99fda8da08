//! Defines the responses to `POST /v1/events`.

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_events::field;
use retro_http::Problem;
use serde::Serialize;
use utoipa::ToSchema;

/// Result of a `POST /v1/events` request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct EventsAnswer {
    /// Number of events that the broker has stored on disk and the counter will process.
    pub accepted: usize,
    /// Invalid events. Sending them again unchanged fails again.
    pub refused: Vec<RefusedEvent>,
}

/// An invalid event of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RefusedEvent {
    /// 0-based index of the event in the batch.
    pub index: usize,
    /// Error code, the same as for a dead letter with this error.
    #[schema(value_type = String)]
    pub code: DeadLetterCode,
    /// Path of the invalid field, starting at the batch, such as `[3].data.run_id`.
    pub path: String,
    /// Explanation of the error and how to fix it.
    pub detail: String,
}

impl RefusedEvent {
    pub(crate) fn new(index: usize, rejection: Rejection) -> Self {
        let path = field::join_path(&format!("[{index}]"), &rejection.path.unwrap_or_default());
        Self { index, code: rejection.code, path, detail: rejection.detail }
    }

    /// Creates the report of an invalid run in a file, of which it has this index and location.
    pub(crate) fn of_run(index: usize, location: &str, rejection: Rejection) -> Self {
        let inside = rejection.path.unwrap_or_default();
        let parts = [location, &inside].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        Self { index, code: rejection.code, path: parts.join(": "), detail: rejection.detail }
    }
}

/// Problem for a batch in which every event is invalid: the problem of the first event, plus a list of all
/// events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EventsRefused {
    /// Problem of the first event.
    #[serde(flatten)]
    pub problem: Problem,
    /// Errors of all events in the batch.
    pub refused: Vec<RefusedEvent>,
}
