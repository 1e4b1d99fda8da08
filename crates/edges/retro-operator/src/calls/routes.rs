//! HTTP routes about the calls of a workflow.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_http::{Caller, PathId, Problem, QueryParams};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    MissedFailures, STATISTICS_RUNS_DEFAULT, STATISTICS_RUNS_MAX, WorkflowStatistics, find_missed_failures,
    find_workflow_statistics,
};
use crate::http::{ApiError, ApiState, TEXT_COLUMNS, json_or_text};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StatisticsQuery {
    /// Number of newest runs with a summary [default: 200].
    #[param(minimum = 1, maximum = 2000)]
    runs: Option<u32>,
}

/// Returns what the newest runs of a workflow called, and those of the last 7 days: runs, calls, failures and
/// times of each operation.
#[utoipa::path(get, path = "/v1/workflows/{workflow}/stats", tag = "people", params(("workflow" = String, Path, description = "the name of the workflow"), StatisticsQuery), responses((status = 200, content((WorkflowStatistics = "application/json"), (String = "text/plain")))))]
pub(super) async fn get_workflow_statistics(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(name): PathId<String>,
    QueryParams(query): QueryParams<StatisticsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let key = parse_workflow(tenant, name)?;
    let runs = query.runs.unwrap_or(STATISTICS_RUNS_DEFAULT);
    if !(1..=STATISTICS_RUNS_MAX).contains(&runs) {
        let detail = format!("{runs} is not between 1 and {STATISTICS_RUNS_MAX}");
        return Err(Problem::invalid_field("runs", detail).into());
    }
    let found = find_workflow_statistics(&*operator.store, &key, runs, operator.clock.now()).await?;
    let found = found.ok_or_else(|| Problem::not_found("workflow", &key.workflow))?;
    Ok(json_or_text(&headers, "Calls of a workflow", &found, |found| found.render_text(TEXT_COLUMNS)))
}

/// Returns the recurring failures that no memory which agents get is about, each with the reason, as of the
/// workflow's newest closed automatic retrospective.
#[utoipa::path(get, path = "/v1/workflows/{workflow}/missed", tag = "people", params(("workflow" = String, Path, description = "the name of the workflow")), responses((status = 200, content((MissedFailures = "application/json"), (String = "text/plain")))))]
pub(super) async fn get_missed_failures(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(name): PathId<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let key = parse_workflow(tenant, name)?;
    let found = find_missed_failures(&*operator.store, &key).await?;
    let found = found.ok_or_else(|| Problem::not_found("workflow", &key.workflow))?;
    Ok(json_or_text(&headers, "Failures that became no memory", &found, MissedFailures::render_text))
}

fn parse_workflow(tenant: Tenant, name: String) -> Result<WorkflowKey, Problem> {
    let workflow =
        Workflow::new(name).map_err(|error| Problem::invalid_field("workflow", error.to_string()))?;
    Ok(WorkflowKey { tenant, workflow })
}
