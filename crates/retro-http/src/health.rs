//! Whether the process lives, and whether it can do its work. Nothing here belongs to a tenant, so these two routes may
//! be asked from another machine, as whoever runs a fleet does.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::routes;

use crate::api::Api;
use crate::problem::Problem;

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

/// `/livez`, which always answers, and `/readyz`: 200, or 503 with what is missing.
pub fn health(ready: ReadyCheck) -> Api {
    described().with_state(ready)
}

/// What [`health`] serves.
pub fn health_description() -> Api {
    described().description()
}

fn described() -> Api<ReadyCheck> {
    Api::new().routes(routes!(livez)).routes(routes!(readyz))
}

/// The process runs.
#[utoipa::path(get, path = "/livez", tag = "process", responses((status = 200, body = String)))]
async fn livez() -> &'static str {
    "ok"
}

/// What the process needs is there; 503 tells what is not.
#[utoipa::path(get, path = "/readyz", tag = "process", responses((status = 200, body = String)))]
async fn readyz(State(ready): State<ReadyCheck>) -> Result<&'static str, Problem> {
    match ready() {
        Readiness::Ready => Ok("ready"),
        Readiness::NotReady(missing) => {
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not ready", missing))
        }
    }
}
