//! The agents' side over HTTP.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use retro_core::id::{MemoryRef, RunId, Workflow};
use retro_http::{Caller, Id, JsonBody, Params, Problem, ReadyCheck, health};
use retro_store::Unnamed;
use serde::Deserialize;

use crate::answer::{ContextAnswer, ContextRequest, MemoryAnswer};
use crate::gateway::Gateway;
use crate::intake::{Reception, events};

/// The agents' routes: `/v1/events`, `/v1/context`, `/v1/memories/{id}`, `/livez`, `/readyz`. To be merged with others and
/// handed to [`retro_http::serve`].
pub fn router(gateway: Gateway, reception: Reception, ready: ReadyCheck) -> Router {
    Router::new()
        .route("/v1/context", post(context))
        .route("/v1/memories/{id}", get(memory))
        .with_state(gateway)
        .merge(Router::new().route("/v1/events", post(events)).with_state(reception))
        .merge(health(ready))
}

async fn context(
    State(gateway): State<Gateway>,
    Caller(tenant): Caller,
    JsonBody(request): JsonBody<ContextRequest>,
) -> Json<ContextAnswer> {
    Json(gateway.context(&tenant, request).await)
}

/// Which run opens the memory.
#[derive(Deserialize)]
struct Opening {
    run: Option<RunId>,
    workflow: Option<Workflow>,
}

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
