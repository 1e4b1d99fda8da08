//! Cancels retrospectives. Each result says in one sentence what was done, or why nothing was done and who
//! acted first.

mod http;

use std::sync::Arc;

use retro_core::cancel::{Attribution, AttributionError};
use retro_core::id::{Epoch, RetrospectiveId, Tenant};
use retro_core::retrospective::{Retrospective, RetrospectiveState, WorkflowState};
use retro_core::time::Clock;
use retro_store::{AuditRow, CancelResult, CancelStore, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::text;

pub use http::router as cancel_router;
pub(crate) use http::{ANONYMOUS_ACTOR, routes};

/// Cancels retrospectives and records each cancellation in the audit log.
#[derive(Clone)]
pub struct CancelService {
    store: Arc<dyn CancelStore>,
    clock: Arc<dyn Clock>,
}

/// Result of a request to cancel a retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CancelAnswer {
    /// Outcome of the request: cancelled now, cancelled before, or refused.
    pub status: ActionStatus,
    /// Id of the retrospective.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub retrospective: Option<RetrospectiveId>,
    /// Epoch of the retrospective; 0 for a manual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub epoch: Option<Epoch>,
    /// Result of the cancellation in one sentence.
    pub detail: String,
}

/// Outcome of an operator command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActionStatus {
    /// The command took effect.
    Done,
    /// An earlier command had the same effect, so nothing changed.
    AlreadyDone,
    /// The current state does not allow the command, so nothing changed.
    Refused,
}

/// Failure of a request to cancel a retrospective.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    /// The actor or the reason is missing or too long.
    #[error(transparent)]
    Attribution(#[from] AttributionError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A value with its audit log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WithAuditLog<T> {
    /// The value that the audit log belongs to, such as a retrospective.
    #[serde(flatten)]
    pub of: T,
    /// Audit log of the value, oldest entry first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audit_log: Vec<AuditRow>,
}

impl CancelService {
    /// Creates the service. `clock` provides the times of cancellations in the audit log.
    pub fn new(store: Arc<dyn CancelStore>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Cancels an open retrospective and releases its runs. Returns `None` if the tenant has no such retrospective.
    pub async fn cancel(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        by: &str,
        reason: &str,
    ) -> Result<Option<CancelAnswer>, CancelError> {
        let now = self.clock.now();
        let act = Attribution::new(by, reason, now)?;
        let decide = |retrospective: &Retrospective, mut state: WorkflowState| {
            state.cancel_retrospective(retrospective, now);
            state
        };
        Ok(describe_result(self.store.cancel_retrospective(tenant, id, &act, &decide).await?))
    }
}

impl CancelAnswer {
    fn for_retrospective(status: ActionStatus, retrospective: &Retrospective, detail: String) -> Self {
        let (id, epoch) = (retrospective.id, retrospective.epoch);
        Self { status, retrospective: Some(id), epoch: Some(epoch), detail }
    }
}

fn describe_result(result: CancelResult) -> Option<CancelAnswer> {
    Some(match result {
        CancelResult::NotFound => return None,
        CancelResult::Cancelled { retrospective: one, .. } if one.manual_request.is_some() => {
            let detail = format!(
                "{} is cancelled; it had claimed nothing, and the window is as it was",
                retrospective_name(&one)
            );
            CancelAnswer::for_retrospective(ActionStatus::Done, &one, detail)
        }
        CancelResult::Cancelled { retrospective: one, state } => {
            let pause = state.paused_until.map(text::format_timestamp).unwrap_or_default();
            let runs = text::format_count(one.window_runs(), "run");
            let detail = format!(
                "{} is cancelled; its {runs} are released, and the workflow opens no other before {pause}",
                retrospective_name(&one)
            );
            CancelAnswer::for_retrospective(ActionStatus::Done, &one, detail)
        }
        CancelResult::AlreadyEnded { retrospective: one, act: Some(act) } => {
            let detail =
                format!("{} was cancelled before, {}", retrospective_name(&one), describe_attribution(&act));
            CancelAnswer::for_retrospective(ActionStatus::AlreadyDone, &one, detail)
        }
        CancelResult::AlreadyEnded { retrospective: one, act: None } => {
            let ended = if one.state == RetrospectiveState::Failed { "failed" } else { "closed" };
            let detail = format!(
                "{} {ended} before it could be cancelled; its report stands",
                retrospective_name(&one)
            );
            CancelAnswer::for_retrospective(ActionStatus::Refused, &one, detail)
        }
    })
}

pub(crate) fn retrospective_name(one: &Retrospective) -> String {
    let workflow = text::single_line(one.key.workflow.as_str());
    match one.manual_request {
        None => format!("retrospective {} of {workflow}", one.epoch),
        Some(_) => format!("manual retrospective {} of {workflow}", one.id),
    }
}

pub(crate) fn describe_attribution(act: &Attribution) -> String {
    format!(
        "by {} at {} ({})",
        text::single_line(&act.by),
        text::format_timestamp(act.at),
        text::single_line(&act.reason)
    )
}

/// Renders the audit log for a terminal, one entry per line. Returns an empty string if there are no entries.
pub fn render_audit_log(rows: &[AuditRow]) -> String {
    let opened =
        |row: &AuditRow| row.opened_retrospective.map(|id| format!("; it opened {id}")).unwrap_or_default();
    let detail = |row: &AuditRow| {
        row.detail.as_ref().map(|text| format!(": {}", text::single_line(text))).unwrap_or_default()
    };
    let line = |row: &AuditRow| {
        format!("{} {}{}{}\n", row.action.as_str(), describe_attribution(&row.act), opened(row), detail(row))
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
pub(crate) mod tests;
