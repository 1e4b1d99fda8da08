//! Cancels retrospectives. Each result says in one sentence what was done, or why nothing was done and who
//! acted first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use retro_core::attribution::AttributionError;
use retro_core::id::{Epoch, RetrospectiveId, Tenant};
use retro_core::retrospective::{Retrospective, RetrospectiveState, WorkflowState};
use retro_core::time::Clock;
use retro_http::{Api, Caller, JsonBody, PathId, Problem, RouteAccess};
use retro_store::{CancelResult, CancelStore, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::audit_log::describe_attribution;
use crate::command::{ActionStatus, actor_name, attribute};
use crate::http::{ApiError, JsonResult};
use crate::text;

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
        let act = attribute(by, reason, now)?;
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

/// Returns the route that cancels a retrospective, under `/v1`. Merge it with other routes and pass them to
/// [`retro_http::HttpServer`].
pub fn cancel_router(service: CancelService) -> Api {
    routes().with_state(service)
}

/// Returns the route without its state, for the OpenAPI description.
pub(crate) fn routes() -> Api<CancelService> {
    Api::new().routes(routes!(cancel_retrospective)).allow(RouteAccess::People)
}

/// A request to cancel a retrospective.
#[derive(Debug, Deserialize, ToSchema)]
struct CancelRequest {
    /// Reason for the cancellation, recorded in the audit log.
    reason: String,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    by: Option<String>,
}

/// Cancels an open retrospective and releases its runs.
#[utoipa::path(post, path = "/v1/retrospectives/{id}/cancel", tag = "people", request_body = CancelRequest, params(("id" = String, Path, description = "the id")), responses((status = 200, body = CancelAnswer)))]
async fn cancel_retrospective(
    State(service): State<CancelService>,
    Caller(tenant): Caller,
    PathId(id): PathId<RetrospectiveId>,
    JsonBody(request): JsonBody<CancelRequest>,
) -> JsonResult<CancelAnswer> {
    let result = service.cancel(&tenant, id, actor_name(request.by.as_deref()), &request.reason).await?;
    let result = result.ok_or_else(|| Problem::not_found("retrospective", id))?;
    result.status.check_not_refused(&result.detail)?;
    Ok(Json(result))
}

impl From<CancelError> for ApiError {
    fn from(error: CancelError) -> Self {
        match error {
            CancelError::Attribution(error) => error.into(),
            CancelError::Store(cause) => cause.into(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
