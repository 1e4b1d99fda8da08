//! Defines the HTTP routes of the agents' API.

use axum::Json;
use axum::extract::State;
use retro_core::audience::{RepoVisibility, RunRepository};
use retro_core::id::{MemoryRef, Repository, RunId, Workflow};
use retro_http::{
    Api, Caller, JsonBody, PathId, Probes, Problem, QueryParams, RouteAccess, describe_health_routes,
    health_routes,
};
use retro_store::UnresolvedRef;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::answer::{ContextAnswer, ContextRequest, MemoryAnswer, MemoryReader};
use crate::gateway::Gateway;
use crate::intake::{self, IngestService};

/// Returns the agents' routes: `/v1/events`, `/v1/transcripts`, `/v1/traces`, `/v1/context`, `/v1/memories/{id}`,
/// `/livez`, `/readyz` and `/metrics`. The caller merges them with its other routes and passes the result to
/// [`retro_http::HttpServer`].
pub fn build_router(gateway: Gateway, ingest: IngestService, probes: Probes) -> Api {
    agent_routes()
        .with_state(gateway)
        .merge(intake::ingest_routes().with_state(ingest))
        .merge(health_routes(probes))
}

/// Returns the routes that work without a broker: `/v1/context`, `/v1/memories/{id}` and health. All other
/// routes are left to [`retro_http::HttpServer::serve_not_ready`].
pub fn build_not_ready_router(gateway: Gateway, probes: Probes) -> Api {
    agent_routes().with_state(gateway).merge(health_routes(probes))
}

/// Returns the routes of [`build_router`] without state, for generating the OpenAPI document.
pub fn describe_api() -> Api {
    agent_routes()
        .into_description()
        .merge(intake::ingest_routes().into_description())
        .merge(describe_health_routes())
}

fn agent_routes() -> Api<Gateway> {
    let memory = Api::new().routes(routes!(memory)).allow(RouteAccess::ContextOrRead);
    Api::new().routes(routes!(context)).allow(RouteAccess::Context).merge(memory)
}

/// Returns the context for the next run of a step.
#[utoipa::path(post, path = "/v1/context", tag = "agents", request_body = ContextRequest,
    responses((status = 200, body = ContextAnswer, description = "the best few memories, or none and the reason")))]
async fn context(
    State(gateway): State<Gateway>,
    Caller(tenant): Caller,
    JsonBody(request): JsonBody<ContextRequest>,
) -> Json<ContextAnswer> {
    Json(gateway.context(&tenant, request).await)
}

/// Query parameters of a memory read.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct MemoryQuery {
    /// Id of the run that reads the memory. Without it, nothing is recorded.
    #[param(value_type = Option<String>)]
    run: Option<RunId>,
    /// Workflow of the run; defaults to the memory's workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Repository that the run works on. What was learnt in a repository is not found without its name, unless it was
    /// presented to the run.
    #[param(value_type = Option<String>)]
    repo: Option<Repository>,
    /// Who may read the repository; as for the context.
    repo_visibility: Option<RepoVisibility>,
}

/// Returns one memory in full and, if a run is given, records it as read.
#[utoipa::path(get, path = "/v1/memories/{id}", tag = "agents",
    params(("id" = String, Path, description = "id of the memory, or at least its first 8 digits"), MemoryQuery),
    responses((status = 200, body = MemoryAnswer)))]
async fn memory(
    State(gateway): State<Gateway>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    QueryParams(opening): QueryParams<MemoryQuery>,
) -> Result<Json<MemoryAnswer>, Problem> {
    let MemoryQuery { run, workflow, repo, repo_visibility: visibility } = opening;
    let repository = repo.map(|repo| RunRepository { repo, visibility });
    let answer = gateway.read_memory(&tenant, name, MemoryReader { run, workflow, repository }).await;
    answer.map(Json).map_err(|unnamed| match unnamed {
        UnresolvedRef::Missing(name) => Problem::not_found("memory", name),
        // The candidates may be memories of repositories that the agent is told nothing of.
        UnresolvedRef::Ambiguous(name, _) => Problem::ambiguous_name(format!(
            "the ids of several memories begin with {name}; give more digits of the one that you mean"
        )),
    })
}

#[cfg(test)]
mod tests;
