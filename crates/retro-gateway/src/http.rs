//! The agents' side over HTTP.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use retro_core::id::{MemoryRef, RunId, Workflow};
use retro_http::{Caller, Id, JsonBody, Params, Problem};
use retro_store::Unnamed;
use serde::Deserialize;

use crate::answer::{ContextAnswer, ContextRequest, MemoryAnswer};
use crate::gateway::Gateway;
use crate::intake::{Reception, events};

/// Whether the process can do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// Everything it needs is there.
    Ready,
    /// Something is missing; the sentence says what.
    NotReady(String),
}

/// Asked by `GET /readyz`; given by whoever knows what the process needs. Must not block.
pub type ReadyCheck = Arc<dyn Fn() -> Readiness + Send + Sync>;

/// The agents' routes: `/v1/events`, `/v1/context`, `/v1/memories/{id}`, `/livez`, `/readyz`. To be merged with others and handed to
/// [`retro_http::serve`].
pub fn router(gateway: Gateway, reception: Reception, ready: ReadyCheck) -> Router {
    let health = Router::new().route("/livez", get(|| async { "ok" })).route("/readyz", get(readyz));
    Router::new()
        .route("/v1/context", post(context))
        .route("/v1/memories/{id}", get(memory))
        .with_state(gateway)
        .merge(Router::new().route("/v1/events", post(events)).with_state(reception))
        .merge(health.with_state(ready))
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

async fn readyz(State(ready): State<ReadyCheck>) -> Result<&'static str, Problem> {
    match ready() {
        Readiness::Ready => Ok("ready"),
        Readiness::NotReady(missing) => {
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not ready", missing))
        }
    }
}

#[cfg(test)]
mod tests;
