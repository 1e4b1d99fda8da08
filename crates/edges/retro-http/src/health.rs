//! Serves health probes and metrics. They reveal nothing about any tenant, so other machines may reach them,
//! as probes and scrapers of a fleet do.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use utoipa_axum::routes;

use crate::api::Api;
use crate::problem::Problem;
use crate::route_access::RouteAccess;

/// Media type of the Prometheus text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Readiness of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// Everything that the process needs is available.
    Ready,
    /// Something that the process needs is unavailable; the string names it.
    NotReady(String),
}

/// Callback for `GET /readyz`. The composition root supplies it because it knows the process's dependencies.
/// Must not block.
pub type ReadyCheck = Arc<dyn Fn() -> Readiness + Send + Sync>;

/// Callback for `GET /metrics`. Returns all metrics in the Prometheus text format.
pub type Scrape = Arc<dyn Fn() -> String + Send + Sync>;

/// Callbacks for the readiness and the metrics of the process.
#[derive(Clone)]
pub struct Probes {
    /// Reports the readiness.
    pub ready: ReadyCheck,
    /// Returns the metrics.
    pub metrics: Scrape,
}

/// Returns the health routes: `/livez`, which always responds with 200; `/readyz`, which responds with 200 or
/// with 503 and a list of the missing parts; and `/metrics`.
pub fn health_routes(probes: Probes) -> Api {
    health_api().with_state(probes)
}

/// Returns the routes of [`health_routes`] without state, for generating the OpenAPI document.
pub fn describe_health_routes() -> Api {
    health_api().into_description()
}

fn health_api() -> Api<Probes> {
    // Probes have no credential. Metrics need one, where one is required at all.
    let metrics = Api::new().routes(routes!(metrics)).allow(RouteAccess::AnyToken);
    Api::new().routes(routes!(livez)).routes(routes!(readyz)).merge(metrics)
}

/// Reports that the process is running.
#[utoipa::path(get, path = "/livez", tag = "process", responses((status = 200, body = String)))]
async fn livez() -> &'static str {
    "ok"
}

/// Reports that everything the process needs is available, or responds with 503 and a list of the missing
/// parts.
#[utoipa::path(get, path = "/readyz", tag = "process", responses((status = 200, body = String)))]
async fn readyz(State(probes): State<Probes>) -> Result<&'static str, Problem> {
    match (probes.ready)() {
        Readiness::Ready => Ok("ready"),
        Readiness::NotReady(missing) => {
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not ready", missing))
        }
    }
}

/// Returns all metrics of the process in the Prometheus text format, summed over all tenants.
#[utoipa::path(get, path = "/metrics", tag = "process", responses((status = 200, body = String)))]
async fn metrics(State(probes): State<Probes>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, METRICS_TYPE)], (probes.metrics)())
}
