//! Defines the service behind replays and discards, and the result and failures of its commands. Each
//! command is implemented in a file of its own.

use std::sync::Arc;

use axum::http::StatusCode;
use retro_core::attribution::{Attribution, AttributionError};
use retro_core::id::{Epoch, ReplayId, RetrospectiveId};
use retro_core::policy::Policies;
use retro_core::replay::{BATCH_DEAD_LETTERS_MAX, ReplayPaceError};
use retro_core::retrospective::Retrospective;
use retro_core::time::Clock;
use retro_events::hosts::DatarefHosts;
use retro_http::Problem;
use retro_store::{ReplayPorts, StoreError};
use serde::Serialize;
use tokio::sync::Notify;
use utoipa::ToSchema;

use crate::command::{ActionStatus, attribute};
use crate::http::ApiError;
use crate::redact::SharedRedactFn;

/// Replays and discards dead letters, and predicts the results of replays.
#[derive(Clone)]
pub struct ReplayService {
    pub(super) store: Arc<dyn ReplayPorts>,
    pub(super) policies: Arc<dyn Policies>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) outbox: Arc<Notify>,
    pub(super) hosts: DatarefHosts,
    pub(super) redact: SharedRedactFn,
}

/// Result of a command on dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ActionResult {
    /// Outcome of the command: carried out now, carried out before, or refused.
    pub status: ActionStatus,
    /// Id of the replay that was queued now or before; absent if there is no replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub replay: Option<ReplayId>,
    /// Id of the retrospective that the replay opened; absent if it opened none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub retrospective: Option<RetrospectiveId>,
    /// Epoch of the retrospective that the replay opened; absent if it opened none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub epoch: Option<Epoch>,
    /// Result of the command in one sentence.
    pub detail: String,
}

/// Failure of a command on dead letters.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The actor or the reason is missing or too long.
    #[error(transparent)]
    Attribution(#[from] AttributionError),
    /// A value of the pace is out of bounds.
    #[error(transparent)]
    Pace(#[from] ReplayPaceError),
    /// The selection has neither ids nor a filter, and `all` is not set.
    #[error("no dead letters are selected: give ids or a filter, or confirm that all are meant")]
    NothingSelected,
    /// More than [`BATCH_DEAD_LETTERS_MAX`] dead letters match.
    #[error("more than {BATCH_DEAD_LETTERS_MAX} dead letters match: narrow the filter")]
    TooMany,
    /// No dead letter matches.
    #[error("no dead letter matches")]
    NoMatch,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ReplayService {
    /// Creates the service. `outbox` is notified when a replay may have been queued, to wake the relay.
    pub fn new(
        store: Arc<dyn ReplayPorts>,
        policies: Arc<dyn Policies>,
        clock: Arc<dyn Clock>,
        outbox: Arc<Notify>,
        redact: SharedRedactFn,
    ) -> Self {
        Self { store, policies, clock, outbox, hosts: DatarefHosts::default(), redact }
    }

    /// Sets the hosts from which the counter accepts trajectory bodies, which predictions depend on.
    pub fn with_dataref_hosts(self, hosts: DatarefHosts) -> Self {
        Self { hosts, ..self }
    }

    /// Builds the attribution for the audit log. Secrets in the actor's name or reason are redacted before they are
    /// stored.
    pub(super) fn build_attribution(&self, by: &str, reason: &str) -> Result<Attribution, AttributionError> {
        attribute(&(self.redact)(by), &(self.redact)(reason), self.clock.now())
    }
}

impl ActionResult {
    pub(super) const fn new_unlinked(status: ActionStatus, detail: String) -> Self {
        Self { status, replay: None, retrospective: None, epoch: None, detail }
    }

    pub(super) fn for_retrospective(status: ActionStatus, one: &Retrospective, detail: String) -> Self {
        Self { retrospective: Some(one.id), epoch: Some(one.epoch), ..Self::new_unlinked(status, detail) }
    }
}

impl From<ReplayError> for ApiError {
    fn from(error: ReplayError) -> Self {
        let problem = match error {
            ReplayError::Attribution(error) => return error.into(),
            ReplayError::Store(cause) => return cause.into(),
            ReplayError::Pace(ref wrong) => Problem::invalid_field(wrong.field, error.to_string()),
            ReplayError::NothingSelected => Problem::invalid_field("all", error.to_string()),
            ReplayError::TooMany => Problem::invalid_field("ids", error.to_string()),
            ReplayError::NoMatch => {
                Problem::new(StatusCode::NOT_FOUND, "there is no such thing", error.to_string())
            }
        };
        problem.into()
    }
}
