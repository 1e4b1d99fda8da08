//! Serves what operators read over HTTP, and merges it with the read routes of `dead_letters`. Commands have
//! their routes beside their operations.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use retro_core::id::{
    MemoryId, MemoryRef, ObjectRef, Repository, RetrospectiveId, ReviewBatchId, Step, Tenant, Workflow,
};
use retro_core::memory::MemoryStatus;
use retro_core::outcome::WorkflowOutcomes;
use retro_core::report::Report;
use retro_core::time::Clock;
use retro_http::{Api, Caller, PathId, Problem, QueryParams, RouteAccess};
use retro_store::{
    MemoryFilter, ObjectKind, OperatorStore, ProposalFilter, ProposalRow, ProposalStatus, RetrospectiveRow,
    UnresolvedRef, resolve_memory_ref, resolve_object_ref,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::effect::MemoryEffectView;
use crate::history::MemoryHistory;
use crate::redact::SharedRedactFn;
use crate::retrospectives::{RetrospectiveView, find_retrospective_view};
use crate::usage::{MemoryRow, load_memory_rows};
use crate::{calls, dead_letters, outcomes, report, reviews, runs};

mod error;
mod limit;
mod respond;
mod state;

pub(crate) use error::{ApiError, JsonResult};
pub(crate) use limit::Limit;
pub use limit::{LIST_DEFAULT, LIST_MAX};
pub(crate) use respond::{TEXT_COLUMNS, json_or_document, json_or_text};
pub(crate) use state::ApiState;

/// Returns the operator routes under `/v1`: memories and their history, retrospectives, reports, runs, calls
/// and dead letters. Merge them with other routes and pass them to [`retro_http::HttpServer`].
pub fn router(store: Arc<dyn OperatorStore>, redact: SharedRedactFn, clock: Arc<dyn Clock>) -> Api {
    routes().with_state(ApiState { store, redact, clock })
}

/// Returns the OpenAPI description of [`router`], [`crate::cancel_router`], [`crate::requests_router`],
/// [`crate::memory_commands_router`], [`crate::kill_switch_router`], [`crate::pipeline_router`],
/// [`crate::replay_router`] and [`crate::edit_router`].
pub fn api_description() -> Api {
    let descriptions =
        crate::cancel::routes().into_description().merge(crate::requests::routes().into_description());
    let descriptions = descriptions.merge(crate::memory_commands::routes().into_description());
    let descriptions = descriptions.merge(crate::kill_switches::routes().into_description());
    let descriptions = descriptions.merge(crate::pipelines::routes().into_description());
    let descriptions = descriptions.merge(crate::rule_commands::routes().into_description());
    let descriptions = descriptions.merge(dead_letters::edit_routes().into_description());
    let descriptions = descriptions.merge(dead_letters::replay_routes().into_description());
    routes().into_description().merge(descriptions)
}

fn routes() -> Api<ApiState> {
    let api = Api::new()
        .routes(routes!(list_memories))
        .routes(routes!(get_memory_history))
        .routes(routes!(get_memory_effect))
        .routes(routes!(list_rules))
        .routes(routes!(list_retrospectives))
        .routes(routes!(get_retrospective))
        .routes(routes!(list_proposals))
        .routes(routes!(get_report))
        .routes(routes!(list_outcomes));
    let api = runs::add_read_routes(api);
    let api = calls::add_read_routes(api);
    let api = outcomes::prompts::add_read_routes(api);
    let api = reviews::add_read_routes(api);
    dead_letters::add_read_routes(api).allow(RouteAccess::People)
}

/// Memories, highest weight first, each with the number of runs that met it.
#[derive(Debug, Serialize, ToSchema)]
struct Memories {
    items: Vec<MemoryRow>,
    /// `true` if more memories match.
    more: bool,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct MemoriesQuery {
    /// Only memories of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only memories of this step.
    #[param(value_type = Option<String>)]
    step: Option<Step>,
    /// Only memories with this status.
    #[param(value_type = Option<String>)]
    status: Option<MemoryStatus>,
    /// `true` for only the memories that are held until a person releases or retires them.
    #[serde(default)]
    #[param(value_type = Option<bool>)]
    held: bool,
    /// Maximum number of entries [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists memories, highest weight first. A memory with `quarantine` is held: no agent is shown it until a person
/// releases it.
#[utoipa::path(get, path = "/v1/memories", tag = "people", params(MemoriesQuery), responses((status = 200, body = Memories)))]
async fn list_memories(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<MemoriesQuery>,
) -> JsonResult<Memories> {
    let limit = Limit::from_query(query.limit)?;
    let MemoriesQuery { workflow, step, status, held, .. } = query;
    let filter = MemoryFilter { workflow, step, status, rules_only: false, held, limit: limit.fetch_limit() };
    let (items, more) = limit.truncate_list(operator.store.list_memories(&tenant, &filter).await?);
    let items = load_memory_rows(&*operator.store, &tenant, items).await?;
    Ok(Json(Memories { items, more }))
}

/// Resolves a memory reference: an id or its first digits.
async fn resolve_memory(operator: &ApiState, tenant: &Tenant, name: MemoryRef) -> Result<MemoryId, ApiError> {
    Ok(resolve_memory_ref(&*operator.store, tenant, name).await??)
}

/// Returns the history of a memory, every change with its reason, and the memory's effect.
#[utoipa::path(get, path = "/v1/memories/{id}/why", tag = "people", params(("id" = String, Path, description = "the id, or eight or more of its first digits")), responses((status = 200, content((MemoryHistory = "application/json"), (String = "text/plain")))))]
async fn get_memory_history(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = resolve_memory(&operator, &tenant, name).await?;
    let found = crate::find_history_with_effect(&*operator.store, &tenant, id).await?;
    let why = found.ok_or(UnresolvedRef::Missing(name))?;
    Ok(json_or_text(&headers, "Why a memory is there", &why, |why| why.render_text(TEXT_COLUMNS)))
}

/// Compares the success rates of the runs with and without a memory.
#[utoipa::path(get, path = "/v1/memories/{id}/effect", tag = "people", params(("id" = String, Path, description = "the id, or eight or more of its first digits")), responses((status = 200, content((MemoryEffectView = "application/json"), (String = "text/plain")))))]
async fn get_memory_effect(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = resolve_memory(&operator, &tenant, name).await?;
    let found = crate::find_memory_effect(&*operator.store, &tenant, id).await?;
    let effect = found.ok_or(UnresolvedRef::Missing(name))?;
    Ok(json_or_text(&headers, "Effect of a memory", &effect, MemoryEffectView::render_text))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RulesQuery {
    /// Only rules of this repository: `owner/name`, or `host/owner/name` for hosts other than github.com.
    #[param(value_type = Option<String>)]
    repo: Option<Repository>,
    /// Only rules with this status.
    #[param(value_type = Option<String>)]
    status: Option<MemoryStatus>,
    /// `true` for only the rules that are held until a person promotes, releases or retires them.
    #[serde(default)]
    #[param(value_type = Option<bool>)]
    held: bool,
    /// Maximum number of entries [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists the rules of repositories that were learnt from reviews, highest weight first. A rule with
/// `quarantine` is not presented until an operator releases it.
#[utoipa::path(get, path = "/v1/rules", tag = "people", params(RulesQuery), responses((status = 200, body = Memories)))]
async fn list_rules(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<RulesQuery>,
) -> JsonResult<Memories> {
    let limit = Limit::from_query(query.limit)?;
    let workflow = query.repo.map(|repo| repo.rule_scope(&tenant).workflow);
    let filter = MemoryFilter {
        workflow,
        status: query.status,
        rules_only: true,
        held: query.held,
        limit: limit.fetch_limit(),
        ..Default::default()
    };
    let (items, more) = limit.truncate_list(operator.store.list_memories(&tenant, &filter).await?);
    let items = load_memory_rows(&*operator.store, &tenant, items).await?;
    Ok(Json(Memories { items, more }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RetrospectivesQuery {
    /// Only retrospectives of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Maximum number of entries [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Retrospectives, newest first.
#[derive(Debug, Serialize, ToSchema)]
struct Retrospectives {
    items: Vec<RetrospectiveRow>,
    /// `true` if more retrospectives match.
    more: bool,
}

/// Lists retrospectives, newest first.
#[utoipa::path(get, path = "/v1/retrospectives", tag = "people", params(RetrospectivesQuery), responses((status = 200, body = Retrospectives)))]
async fn list_retrospectives(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<RetrospectivesQuery>,
) -> JsonResult<Retrospectives> {
    let limit = Limit::from_query(query.limit)?;
    let found =
        operator.store.list_retrospectives(&tenant, query.workflow.as_ref(), limit.fetch_limit()).await?;
    let (items, more) = limit.truncate_list(found);
    Ok(Json(Retrospectives { items, more }))
}

/// Returns one retrospective with its window, sample, investigations and audit log.
#[utoipa::path(get, path = "/v1/retrospectives/{id}", tag = "people", params(("id" = String, Path, description = "the id, or eight or more of its first digits")), responses((status = 200, body = RetrospectiveView)))]
async fn get_retrospective(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(name): PathId<ObjectRef>,
) -> JsonResult<RetrospectiveView> {
    let id = resolve_object_ref(&*operator.store, &tenant, ObjectKind::Retrospective, name).await??;
    let id = RetrospectiveId(id);
    let found = find_retrospective_view(&*operator.store, &tenant, id).await?;
    Ok(Json(found.ok_or_else(|| Problem::not_found("retrospective", id))?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ProposalsQuery {
    /// Only proposals for this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only proposals of this retrospective.
    #[param(value_type = Option<String>)]
    retrospective: Option<RetrospectiveId>,
    /// Only proposals with this status: open, accepted or refused.
    #[param(value_type = Option<String>)]
    status: Option<ProposalStatus>,
    /// Maximum number of entries [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Proposals of manual retrospectives, newest retrospective first.
#[derive(Debug, Serialize, ToSchema)]
struct Proposals {
    items: Vec<ProposalRow>,
    /// `true` if more proposals match.
    more: bool,
}

/// Lists the proposals of manual retrospectives with their decisions, newest retrospective first.
#[utoipa::path(get, path = "/v1/proposals", tag = "people", params(ProposalsQuery), responses((status = 200, body = Proposals)))]
async fn list_proposals(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<ProposalsQuery>,
) -> JsonResult<Proposals> {
    let limit = Limit::from_query(query.limit)?;
    let ProposalsQuery { workflow, retrospective, status, .. } = query;
    let filter = ProposalFilter { workflow, retrospective, status, limit: limit.fetch_limit() };
    let (items, more) = limit.truncate_list(operator.store.list_proposals(&tenant, &filter).await?);
    Ok(Json(Proposals { items, more }))
}

/// Returns the report of a retrospective as JSON, Markdown, plain text or a page, or a report about reviews as JSON,
/// plain text or a page. The `Accept` header selects the format.
#[utoipa::path(get, path = "/v1/reports/{id}", tag = "people", params(("id" = String, Path, description = "the retrospective's id, or that of a report about reviews, or eight or more of its first digits")), responses((status = 200, content((Report = "application/json"), (String = "text/markdown"), (String = "text/plain"), (String = "text/html")))))]
async fn get_report(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(name): PathId<ObjectRef>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = RetrospectiveId(resolve_object_ref(&*operator.store, &tenant, ObjectKind::Report, name).await??);
    let found = operator.store.find_report(&tenant, id).await?;
    let Some(found) = found else { return review_report_response(&operator, &tenant, id, &headers).await };
    let as_text = |found: &Report| report::render_text(found, TEXT_COLUMNS);
    Ok(json_or_document(&headers, &found, report::render_markdown, as_text))
}

async fn review_report_response(
    operator: &ApiState,
    tenant: &Tenant,
    id: RetrospectiveId,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let found = operator.store.find_review_report(tenant, ReviewBatchId(id.0)).await?;
    let found = found.ok_or_else(|| Problem::not_found("report", id))?;
    Ok(json_or_text(headers, "Report about reviews", &found, |found| {
        reviews::render_report(found, TEXT_COLUMNS)
    }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct OutcomesQuery {
    /// Only the outcomes of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
}

/// Outcomes of pull requests, per workflow.
#[derive(Debug, Serialize, ToSchema)]
struct Outcomes {
    items: Vec<WorkflowOutcomes>,
    /// Always `false`, because the list contains all workflows.
    more: bool,
}

/// Returns for each workflow the number of runs whose pull request was approved, had changes requested, was
/// merged or was closed.
#[utoipa::path(get, path = "/v1/outcomes", tag = "people", params(OutcomesQuery), responses((status = 200, body = Outcomes)))]
async fn list_outcomes(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<OutcomesQuery>,
) -> JsonResult<Outcomes> {
    let items = crate::summarize_outcomes(&*operator.store, &tenant, query.workflow.as_ref()).await?;
    Ok(Json(Outcomes { items, more: false }))
}

#[cfg(test)]
pub(crate) mod tests;
