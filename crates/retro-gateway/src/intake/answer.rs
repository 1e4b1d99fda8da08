//! What is answered to events.

use retro_core::dead_letter::{Code, Rejection};
use retro_events::field;
use retro_http::Problem;
use serde::Serialize;
use utoipa::ToSchema;

/// What became of the events of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EventsAnswer {
    /// Events that the broker has on disk. They are counted soon.
    pub accepted: usize,
    /// Events that are not taken, however often they are sent.
    pub refused: Vec<RefusedEvent>,
}

/// An event of a batch that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RefusedEvent {
    /// Its place in the batch, from 0.
    pub index: usize,
    /// What is wrong, in one word: the code that a dead letter would have.
    #[schema(value_type = String)]
    pub code: Code,
    /// The path of the field that is to blame, from the batch on: `[3].data.run_id`.
    pub path: String,
    /// What is wrong and what would be right.
    pub detail: String,
}

impl RefusedEvent {
    pub(crate) fn new(index: usize, rejection: Rejection) -> Self {
        let path = field::join(&format!("[{index}]"), &rejection.path.unwrap_or_default());
        Self { index, code: rejection.code, path, detail: rejection.detail }
    }
}

/// A batch of which every event is refused: the problem of the first, and all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EventsRefused {
    /// The problem.
    #[serde(flatten)]
    pub problem: Problem,
    /// Every event.
    pub refused: Vec<RefusedEvent>,
}
