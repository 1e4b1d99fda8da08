//! HTTP routes about runs.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use jiff::Timestamp;
use retro_core::id::{Repository, RunId, Workflow};
use retro_core::inspection::RunProperties;
use retro_core::run::RunOutcome;
use retro_http::{Api, Caller, Problem, QueryParams};
use retro_store::{RunFilter, RunRow};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::{RUN_TURNS_DEFAULT, RUN_TURNS_MAX, RunPages, RunView, UnresolvedRun, find_run_view};
use crate::http::{ApiError, ApiState, JsonResult, Limit, TEXT_COLUMNS, json_or_document};
use crate::text_table::Layout;

/// Adds the routes that read runs.
pub(crate) fn add_read_routes(api: Api<ApiState>) -> Api<ApiState> {
    api.routes(routes!(list_runs)).routes(routes!(get_run))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RunsQuery {
    /// Only runs of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only the run with this id.
    #[param(value_type = Option<String>)]
    run: Option<RunId>,
    /// Only runs that this user started.
    user: Option<String>,
    /// Only runs of the agent with this name.
    agent: Option<String>,
    /// Only runs whose event names this version of the prompt.
    prompt_version: Option<String>,
    /// Only runs with this outcome: success, failure, error, timeout, cancellation, skip or unknown.
    #[param(value_type = Option<String>)]
    outcome: Option<RunOutcome>,
    /// Only runs of this repository: `owner/name`, or `host/owner/name` for hosts other than github.com.
    #[param(value_type = Option<String>)]
    repo: Option<Repository>,
    /// Only runs first stored at or after this time.
    #[param(value_type = Option<String>)]
    since: Option<Timestamp>,
    /// Only runs first stored before this time.
    #[param(value_type = Option<String>)]
    until: Option<Timestamp>,
    /// Maximum number of entries [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Runs, newest first.
#[derive(Debug, Serialize, ToSchema)]
struct Runs {
    items: Vec<RunRow>,
    /// `true` if more runs match.
    more: bool,
    /// Time of the last searched run, if the search ended there: older runs were not searched. Ask again with `until`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    stopped_at: Option<Timestamp>,
}

/// Lists runs, newest first. With a user, an agent, a prompt version, an outcome or a repository, the newest 50000 runs are searched.
#[utoipa::path(get, path = "/v1/runs", tag = "people", params(RunsQuery), responses((status = 200, body = Runs)))]
async fn list_runs(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<RunsQuery>,
) -> JsonResult<Runs> {
    let limit = Limit::from_query(query.limit)?;
    let RunsQuery { workflow, run, user, agent, prompt_version, outcome, repo, since, until, .. } = query;
    let properties = RunProperties { user, agent, prompt_version, outcome, repo };
    let filter = RunFilter { workflow, run, properties, since, until, limit: limit.fetch_limit() };
    let found = operator.store.search_runs(&tenant, &filter).await?;
    let (items, more) = limit.truncate_list(found.runs);
    Ok(Json(Runs { items, more, stopped_at: found.stopped_at }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RunQuery {
    /// 0-based index of the first turn to return [default: 0].
    from_turn: Option<u32>,
    /// Maximum number of turns to return [default: 100].
    #[param(minimum = 1, maximum = 500)]
    turns: Option<u32>,
}

/// Returns one run in full: its facts, why it was counted and looked at, what was seen in it, the memories that it met,
/// what became of its pull requests, and its trajectory. JSON, Markdown, plain text or a page, by the `Accept`
/// header.
#[utoipa::path(get, path = "/v1/runs/{workflow}/{run}", tag = "people", params(("workflow" = String, Path, description = "the name of the workflow"), ("run" = String, Path, description = "the id of the run"), RunQuery), responses((status = 200, content((RunView = "application/json"), (String = "text/markdown"), (String = "text/plain"), (String = "text/html")))))]
async fn get_run(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    Path((workflow, run)): Path<(String, String)>,
    QueryParams(query): QueryParams<RunQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let workflow =
        Workflow::new(workflow).map_err(|error| Problem::invalid_field("workflow", error.to_string()))?;
    let run = RunId::new(run).map_err(|error| Problem::invalid_field("run", error.to_string()))?;
    let turns = query.turns.unwrap_or(RUN_TURNS_DEFAULT);
    if !(1..=RUN_TURNS_MAX).contains(&turns) {
        let detail = format!("{turns} is not between 1 and {RUN_TURNS_MAX}");
        return Err(Problem::invalid_field("turns", detail).into());
    }
    let pages = RunPages { from_turn: query.from_turn.unwrap_or_default(), turns };
    let found = find_run_view(&*operator.store, &tenant, &run, Some(&workflow), pages).await?;
    let found: RunView = found.map_err(|unresolved| match unresolved {
        UnresolvedRun::Missing(run) => Problem::not_found("run", run),
        ambiguous @ UnresolvedRun::Ambiguous { .. } => Problem::ambiguous_name(ambiguous.to_string()),
    })?;
    let as_markdown = |found: &RunView| found.render(Layout::Markdown);
    Ok(json_or_document(&headers, &found, as_markdown, |found| found.render(TEXT_COLUMNS)))
}
