//! Defines the HTTP route that cancels a retrospective.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use retro_core::id::RetrospectiveId;
use retro_http::{Api, Caller, JsonBody, PathId, Problem};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{ActionStatus, CancelAnswer, CancelError, CancelService};
use crate::http::store_problem;

/// Actor that the audit log records if a request names none. Credentials will replace this name.
pub(crate) const ANONYMOUS_ACTOR: &str = "somebody over HTTP";

/// Returns the route that cancels a retrospective, under `/v1`. Merge it with other routes and pass them to
/// [`retro_http::serve`].
pub fn router(service: CancelService) -> Api {
    routes().with_state(service)
}

/// Returns the route without its state, for the OpenAPI description.
pub(crate) fn routes() -> Api<CancelService> {
    Api::new().routes(routes!(cancel_retrospective))
}

/// A request to cancel a retrospective.
#[derive(Debug, Deserialize, ToSchema)]
struct CancelRequest {
    /// Reason for the cancellation, recorded in the audit log.
    reason: String,
    /// Name of the operator. The name is not verified, because requests carry no credentials yet.
    by: Option<String>,
}

impl CancelRequest {
    fn by(&self) -> &str {
        self.by.as_deref().unwrap_or(ANONYMOUS_ACTOR)
    }
}

/// Cancels an open retrospective and releases its runs.
#[utoipa::path(post, path = "/v1/retrospectives/{id}/cancel", tag = "people", request_body = CancelRequest, params(("id" = String, Path, description = "the id")), responses((status = 200, body = CancelAnswer)))]
async fn cancel_retrospective(
    State(service): State<CancelService>,
    Caller(tenant): Caller,
    PathId(id): PathId<RetrospectiveId>,
    JsonBody(request): JsonBody<CancelRequest>,
) -> Result<Json<CancelAnswer>, Problem> {
    let result = service.cancel(&tenant, id, request.by(), &request.reason).await.map_err(to_problem)?;
    conflict_if_refused(result.ok_or_else(|| Problem::not_found("retrospective", id))?)
}

fn conflict_if_refused(result: CancelAnswer) -> Result<Json<CancelAnswer>, Problem> {
    match result.status {
        ActionStatus::Done | ActionStatus::AlreadyDone => Ok(Json(result)),
        ActionStatus::Refused => {
            Err(Problem::new(StatusCode::CONFLICT, "not possible in the current state", result.detail))
        }
    }
}

fn to_problem(error: CancelError) -> Problem {
    match error {
        CancelError::Attribution(error) => Problem::invalid_field(error.field, error.problem),
        CancelError::Store(cause) => store_problem(&cause),
    }
}
