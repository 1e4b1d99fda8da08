//! The agents' side over HTTP.

use axum::Json;
use axum::extract::State;
use retro_core::id::{MemoryRef, RunId, Workflow};
use retro_http::{Api, Caller, Id, JsonBody, Params, Probes, Problem, health, health_description};
use retro_store::Unnamed;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::answer::{ContextAnswer, ContextRequest, MemoryAnswer};
use crate::gateway::Gateway;
use crate::intake::{self, IngestService};

/// The agents' routes: `/v1/events`, `/v1/context`, `/v1/memories/{id}`, `/livez`, `/readyz`, `/metrics`. To be merged with others
/// and handed to [`retro_http::serve`].
pub fn router(gateway: Gateway, ingest: IngestService, probes: Probes) -> Api {
    agents().with_state(gateway).merge(intake::routes().with_state(ingest)).merge(health(probes))
}

/// What is served while there is no broker to take events: `/v1/context`, `/v1/memories/{id}` and health. The rest is
/// answered by [`retro_http::serve_waiting`].
pub fn waiting_router(gateway: Gateway, probes: Probes) -> Api {
    agents().with_state(gateway).merge(health(probes))
}

/// What [`router`] serves.
pub fn description() -> Api {
    agents().description().merge(intake::routes().description()).merge(health_description())
}

fn agents() -> Api<Gateway> {
    Api::new().routes(routes!(context)).routes(routes!(memory))
}

/// What a step's next run is handed.
#[utoipa::path(post, path = "/v1/context", tag = "agents", request_body = ContextRequest,
    responses((status = 200, body = ContextAnswer, description = "the best few memories, or none and why")))]
async fn context(
    State(gateway): State<Gateway>,
    Caller(tenant): Caller,
    JsonBody(request): JsonBody<ContextRequest>,
) -> Json<ContextAnswer> {
    Json(gateway.context(&tenant, request).await)
}

/// Which run opens the memory.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Opening {
    /// The run; without one nothing is recorded.
    #[param(value_type = Option<String>)]
    run: Option<RunId>,
    /// The run's workflow [default: the memory's].
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
}

/// One memory in full; recorded as read when a run is named.
#[utoipa::path(get, path = "/v1/memories/{id}", tag = "agents",
    params(("id" = String, Path, description = "the id, or eight or more of its first digits"), Opening),
    responses((status = 200, body = MemoryAnswer)))]
async fn memory(
    State(gateway): State<Gateway>,
    Caller(tenant): Caller,
    Id(name): Id<MemoryRef>,
    Params(opening): Params<Opening>,
) -> Result<Json<MemoryAnswer>, Problem> {
    let answer = gateway.read_memory(&tenant, name, opening.run, opening.workflow).await;
    answer.map(Json).map_err(|unnamed| match unnamed {
        Unnamed::Missing(name) => Problem::not_found("memory", name),
        Unnamed::Ambiguous(_) => Problem::ambiguous(unnamed.to_string()),
    })
}

#[cfg(test)]
mod tests;
