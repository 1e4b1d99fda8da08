//! Whether the process lives, whether it can do its work, and what it measures. Nothing here belongs to a tenant, so these
//! routes may be asked from another machine, as whoever runs a fleet does.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use utoipa_axum::routes;

use crate::api::Api;
use crate::problem::Problem;

/// The media type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

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

/// Asked by `GET /metrics`; gives everything that is measured, in Prometheus' text format.
pub type Scrape = Arc<dyn Fn() -> String + Send + Sync>;

/// What can be asked about the process.
#[derive(Clone)]
pub struct Probes {
    /// Whether it can do its work.
    pub ready: ReadyCheck,
    /// What it measures.
    pub metrics: Scrape,
}

/// `/livez`, which always answers; `/readyz`: 200, or 503 with what is missing; `/metrics`.
pub fn health(probes: Probes) -> Api {
    described().with_state(probes)
}

/// What [`health`] serves.
pub fn health_description() -> Api {
    described().description()
}

fn described() -> Api<Probes> {
    Api::new().routes(routes!(livez)).routes(routes!(readyz)).routes(routes!(metrics))
}

/// The process runs.
#[utoipa::path(get, path = "/livez", tag = "process", responses((status = 200, body = String)))]
async fn livez() -> &'static str {
    "ok"
}

/// What the process needs is there; 503 tells what is not.
#[utoipa::path(get, path = "/readyz", tag = "process", responses((status = 200, body = String)))]
async fn readyz(State(probes): State<Probes>) -> Result<&'static str, Problem> {
    match (probes.ready)() {
        Readiness::Ready => Ok("ready"),
        Readiness::NotReady(missing) => {
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not ready", missing))
        }
    }
}

/// Everything the process measures, as Prometheus reads it; of all tenants together.
#[utoipa::path(get, path = "/metrics", tag = "process", responses((status = 200, body = String)))]
async fn metrics(State(probes): State<Probes>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, METRICS_TYPE)], (probes.metrics)())
}
