//! The same over HTTP.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use retro_core::id::RetrospectiveId;
use retro_http::{Api, Caller, Id, JsonBody, Problem};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{Did, SteerError, Steering, Told};
use crate::http::not_answered;

/// Who acts when the request does not say: credentials will.
pub(crate) const SOMEBODY: &str = "somebody over HTTP";

/// The routes by which people steer, under `/v1`. To be merged with others and handed to [`retro_http::serve`].
pub fn router(steering: Steering) -> Api {
    routes().with_state(steering)
}

/// Without what they work on.
pub(crate) fn routes() -> Api<Steering> {
    Api::new().routes(routes!(cancel))
}

/// Why, and who.
#[derive(Debug, Deserialize, ToSchema)]
struct Asked {
    /// Why: it is kept.
    reason: String,
    /// Who: a name, until credentials say.
    by: Option<String>,
}

impl Asked {
    fn by(&self) -> &str {
        self.by.as_deref().unwrap_or(SOMEBODY)
    }
}

/// Cancels an open retrospective: its runs are released.
#[utoipa::path(post, path = "/v1/retrospectives/{id}/cancel", tag = "people", request_body = Asked, params(("id" = String, Path, description = "the id")), responses((status = 200, body = Told)))]
async fn cancel(
    State(steering): State<Steering>,
    Caller(tenant): Caller,
    Id(id): Id<RetrospectiveId>,
    JsonBody(asked): JsonBody<Asked>,
) -> Result<Json<Told>, Problem> {
    let told = steering.cancel(&tenant, id, asked.by(), &asked.reason).await.map_err(problem)?;
    answer(told.ok_or_else(|| Problem::not_found("retrospective", id))?)
}

fn answer(told: Told) -> Result<Json<Told>, Problem> {
    match told.did {
        Did::Done | Did::DoneBefore => Ok(Json(told)),
        Did::Refused => {
            Err(Problem::new(StatusCode::CONFLICT, "it cannot be done as things stand", told.detail))
        }
    }
}

fn problem(error: SteerError) -> Problem {
    match error {
        SteerError::Act(error) => Problem::field(error.field, error.problem),
        SteerError::Store(cause) => not_answered(&cause),
    }
}
