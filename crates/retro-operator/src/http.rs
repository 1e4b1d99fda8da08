//! Serves the operator API over HTTP.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use retro_core::id::{MemoryId, MemoryRef, RetrospectiveId, ReviewBatchId, RunId, Step, Tenant, Workflow};
use retro_core::memory::{Memory, MemoryStatus};
use retro_core::outcome::WorkflowOutcomes;
use retro_core::review::Repository;
use retro_http::{Api, Caller, PathId, Problem, QueryParams, negotiate_media_type};
use retro_store::{
    MemoryFilter, OperatorStore, ProposalFilter, ProposalRow, ProposalStatus, RetrospectiveDetail,
    RetrospectiveRow, RunFilter, RunRow, StoreError, UnresolvedRef, resolve_memory_ref,
};
use serde::{Deserialize, Serialize};
use tracing::error;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::cancel::WithAuditLog;
use crate::{report, reviews};

mod dead_letters;
mod schemas;

pub(crate) use dead_letters::DeadLettersQuery;

/// Default number of entries in a list: a screen or two.
pub const LIST_DEFAULT: u32 = 100;

/// Maximum number of entries in a list. For memories this is a few hundred kilobytes, which a browser still
/// displays without delay.
pub const LIST_MAX: u32 = 1000;

/// Width of the tables in plain text, in columns, which fits most windows.
const TEXT_COLUMNS: u16 = 140;

/// A shared function that redacts the secrets in a string. Every dead letter is redacted with it before it is
/// displayed.
pub type SharedRedactFn = Arc<dyn Fn(&str) -> String + Send + Sync>;

#[derive(Clone)]
struct ApiState {
    store: Arc<dyn OperatorStore>,
    redact: SharedRedactFn,
}

/// Returns the operator routes under `/v1`: memories and their history, retrospectives, reports, runs and
/// dead letters. Merge them with other routes and pass them to [`retro_http::serve`].
pub fn router(store: Arc<dyn OperatorStore>, redact: SharedRedactFn) -> Api {
    routes().with_state(ApiState { store, redact })
}

/// Returns the OpenAPI description of [`router`], [`crate::cancel_router`], [`crate::requests_router`],
/// [`crate::replay_router`] and [`crate::edit_router`].
pub fn api_description() -> Api {
    let descriptions =
        crate::cancel::routes().into_description().merge(crate::requests::routes().into_description());
    let descriptions = descriptions.merge(crate::dead_letters::routes().into_description());
    let descriptions = descriptions.merge(crate::replay::routes().into_description());
    routes().into_description().merge(descriptions)
}

fn routes() -> Api<ApiState> {
    Api::new()
        .routes(routes!(list_memories))
        .routes(routes!(get_memory_history))
        .routes(routes!(get_memory_effect))
        .routes(routes!(list_rules))
        .routes(routes!(list_retrospectives))
        .routes(routes!(get_retrospective))
        .routes(routes!(list_proposals))
        .routes(routes!(get_report))
        .routes(routes!(list_runs))
        .routes(routes!(list_outcomes))
        .routes(routes!(dead_letters::list_dead_letters))
        .routes(routes!(dead_letters::get_dead_letter_stats))
        .routes(routes!(dead_letters::get_dead_letter))
}

/// Response body of a list route.
#[derive(Debug, Serialize)]
struct ListResponse<T> {
    items: Vec<T>,
    /// `true` if more entries match. Raise `limit` or add filters to see them.
    more: bool,
}

/// Maximum number of entries that a list returns.
#[derive(Debug, Clone, Copy)]
struct Limit(usize);

impl Limit {
    fn from_query(query: Option<u32>) -> Result<Self, Problem> {
        match query.unwrap_or(LIST_DEFAULT) {
            wanted @ 1..=LIST_MAX => Ok(Self(wanted as usize)),
            other => Err(Problem::invalid_field("limit", format!("{other} is not between 1 and {LIST_MAX}"))),
        }
    }

    /// Returns the limit for the store: one more than requested, to detect whether there are more entries.
    fn fetch_limit(self) -> u32 {
        u32::try_from(self.0 + 1).expect("a limit is at most LIST_MAX")
    }

    fn truncate_list<T>(self, mut items: Vec<T>) -> Json<ListResponse<T>> {
        let more = items.len() > self.0;
        items.truncate(self.0);
        Json(ListResponse { items, more })
    }
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
    /// Maximum number of entries [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists memories, highest weight first.
#[utoipa::path(get, path = "/v1/memories", tag = "people", params(MemoriesQuery), responses((status = 200, body = schemas::Memories)))]
async fn list_memories(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<MemoriesQuery>,
) -> Result<Json<ListResponse<Memory>>, Problem> {
    let limit = Limit::from_query(query.limit)?;
    let MemoriesQuery { workflow, step, status, .. } = query;
    let filter = MemoryFilter { workflow, step, status, limit: limit.fetch_limit(), rules_only: false };
    Ok(limit.truncate_list(
        operator.store.list_memories(&tenant, &filter).await.map_err(|cause| store_problem(&cause))?,
    ))
}

/// Resolves a memory reference: an id or its first digits.
async fn resolve_memory(operator: &ApiState, tenant: &Tenant, name: MemoryRef) -> Result<MemoryId, Problem> {
    let named =
        resolve_memory_ref(&*operator.store, tenant, name).await.map_err(|cause| store_problem(&cause))?;
    named.map_err(unresolved_problem)
}

/// Returns the history of a memory, every change with its reason, and the memory's effect.
#[utoipa::path(get, path = "/v1/memories/{id}/why", tag = "people", params(("id" = String, Path, description = "the id, or eight or more of its first digits")), responses((status = 200, content((schemas::MemoryHistory = "application/json"), (String = "text/plain")))))]
async fn get_memory_history(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = resolve_memory(&operator, &tenant, name).await?;
    let found = crate::find_history_with_effect(&*operator.store, &tenant, id).await;
    let found = found.map_err(|cause| store_problem(&cause))?;
    let why = found.ok_or_else(|| unresolved_problem(UnresolvedRef::Missing(name)))?;
    Ok(match negotiate_media_type(&headers, &["application/json", "text/plain"]) {
        "text/plain" => text_response("text/plain; charset=utf-8", why.render_text(TEXT_COLUMNS)),
        _ => Json(why).into_response(),
    })
}

/// Compares the success rates of the runs with and without a memory.
#[utoipa::path(get, path = "/v1/memories/{id}/effect", tag = "people", params(("id" = String, Path, description = "the id, or eight or more of its first digits")), responses((status = 200, content((schemas::MemoryEffectView = "application/json"), (String = "text/plain")))))]
async fn get_memory_effect(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = resolve_memory(&operator, &tenant, name).await?;
    let found = crate::find_memory_effect(&*operator.store, &tenant, id).await;
    let found = found.map_err(|cause| store_problem(&cause))?;
    let effect = found.ok_or_else(|| unresolved_problem(UnresolvedRef::Missing(name)))?;
    Ok(match negotiate_media_type(&headers, &["application/json", "text/plain"]) {
        "text/plain" => text_response("text/plain; charset=utf-8", effect.render_text()),
        _ => Json(effect).into_response(),
    })
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
    /// Maximum number of entries [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists the rules of repositories that were learnt from reviews, highest weight first. A rule with
/// `quarantine` is not presented until an operator releases it.
#[utoipa::path(get, path = "/v1/rules", tag = "people", params(RulesQuery), responses((status = 200, body = schemas::Memories)))]
async fn list_rules(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<RulesQuery>,
) -> Result<Json<ListResponse<Memory>>, Problem> {
    let limit = Limit::from_query(query.limit)?;
    let workflow = query.repo.map(|repo| repo.rule_scope(&tenant).workflow);
    let filter = MemoryFilter {
        workflow,
        status: query.status,
        rules_only: true,
        limit: limit.fetch_limit(),
        ..Default::default()
    };
    Ok(limit.truncate_list(
        operator.store.list_memories(&tenant, &filter).await.map_err(|cause| store_problem(&cause))?,
    ))
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

/// Lists retrospectives, newest first.
#[utoipa::path(get, path = "/v1/retrospectives", tag = "people", params(RetrospectivesQuery), responses((status = 200, body = schemas::Retrospectives)))]
async fn list_retrospectives(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<RetrospectivesQuery>,
) -> Result<Json<ListResponse<RetrospectiveRow>>, Problem> {
    let limit = Limit::from_query(query.limit)?;
    let found =
        operator.store.list_retrospectives(&tenant, query.workflow.as_ref(), limit.fetch_limit()).await;
    Ok(limit.truncate_list(found.map_err(|cause| store_problem(&cause))?))
}

/// Returns one retrospective with its window, sample, investigations and audit log.
#[utoipa::path(get, path = "/v1/retrospectives/{id}", tag = "people", params(("id" = String, Path, description = "the id")), responses((status = 200, body = schemas::Retrospective)))]
async fn get_retrospective(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(id): PathId<RetrospectiveId>,
) -> Result<Json<WithAuditLog<RetrospectiveDetail>>, Problem> {
    let found =
        operator.store.find_retrospective(&tenant, id).await.map_err(|cause| store_problem(&cause))?;
    let of = found.ok_or_else(|| Problem::not_found("retrospective", id))?;
    let audit_log =
        operator.store.list_audit_rows(&tenant, id.0).await.map_err(|cause| store_problem(&cause))?;
    Ok(Json(WithAuditLog { of, audit_log }))
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

/// Lists the proposals of manual retrospectives with their decisions, newest retrospective first.
#[utoipa::path(get, path = "/v1/proposals", tag = "people", params(ProposalsQuery), responses((status = 200, body = schemas::Proposals)))]
async fn list_proposals(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<ProposalsQuery>,
) -> Result<Json<ListResponse<ProposalRow>>, Problem> {
    let limit = Limit::from_query(query.limit)?;
    let ProposalsQuery { workflow, retrospective, status, .. } = query;
    let filter = ProposalFilter { workflow, retrospective, status, limit: limit.fetch_limit() };
    let found =
        operator.store.list_proposals(&tenant, &filter).await.map_err(|cause| store_problem(&cause))?;
    Ok(limit.truncate_list(found))
}

/// Returns the report of a retrospective as JSON, Markdown or plain text, or a report about reviews as JSON
/// or plain text. The `Accept` header selects the format.
#[utoipa::path(get, path = "/v1/reports/{id}", tag = "people", params(("id" = String, Path, description = "the retrospective's id, or that of a report about reviews")), responses((status = 200, content((schemas::Report = "application/json"), (String = "text/markdown"), (String = "text/plain")))))]
async fn get_report(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(id): PathId<RetrospectiveId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = operator.store.find_report(&tenant, id).await.map_err(|cause| store_problem(&cause))?;
    let Some(found) = found else { return review_report_response(&operator, &tenant, id, &headers).await };
    Ok(match negotiate_media_type(&headers, &["application/json", "text/markdown", "text/plain"]) {
        "text/markdown" => text_response("text/markdown; charset=utf-8", report::render_markdown(&found)),
        "text/plain" => text_response("text/plain; charset=utf-8", report::render_text(&found, TEXT_COLUMNS)),
        _ => Json(found).into_response(),
    })
}

async fn review_report_response(
    operator: &ApiState,
    tenant: &Tenant,
    id: RetrospectiveId,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let found = operator.store.find_review_report(tenant, ReviewBatchId(id.0)).await;
    let found =
        found.map_err(|cause| store_problem(&cause))?.ok_or_else(|| Problem::not_found("report", id))?;
    Ok(match negotiate_media_type(headers, &["application/json", "text/plain"]) {
        "text/plain" => {
            text_response("text/plain; charset=utf-8", reviews::render_report(&found, TEXT_COLUMNS))
        }
        _ => Json(found).into_response(),
    })
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
    /// Maximum number of entries [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists runs, newest first.
#[utoipa::path(get, path = "/v1/runs", tag = "people", params(RunsQuery), responses((status = 200, body = schemas::Runs)))]
async fn list_runs(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<RunsQuery>,
) -> Result<Json<ListResponse<RunRow>>, Problem> {
    let limit = Limit::from_query(query.limit)?;
    let filter = RunFilter { workflow: query.workflow, run: query.run, limit: limit.fetch_limit() };
    Ok(limit.truncate_list(
        operator.store.list_runs(&tenant, &filter).await.map_err(|cause| store_problem(&cause))?,
    ))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct OutcomesQuery {
    /// Only the outcomes of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
}

/// Returns for each workflow the number of runs whose pull request was approved, had changes requested, was
/// merged or was closed.
#[utoipa::path(get, path = "/v1/outcomes", tag = "people", params(OutcomesQuery), responses((status = 200, body = schemas::Outcomes)))]
async fn list_outcomes(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<OutcomesQuery>,
) -> Result<Json<ListResponse<WorkflowOutcomes>>, Problem> {
    let items = crate::summarize_outcomes(&*operator.store, &tenant, query.workflow.as_ref()).await;
    Ok(Json(ListResponse { items: items.map_err(|cause| store_problem(&cause))?, more: false }))
}

fn text_response(kind: &'static str, body: String) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

fn unresolved_problem(why: UnresolvedRef) -> Problem {
    match why {
        UnresolvedRef::Missing(name) => Problem::not_found("memory", name),
        // Returns 409 instead of picking a match: acting on the wrong memory would be worse than asking for
        // more digits.
        UnresolvedRef::Ambiguous(_) => Problem::ambiguous_name(why.to_string()),
    }
}

/// Maps a store error to a response. The error text is only logged, because it names tables and may quote
/// rows of other tenants.
pub(crate) fn store_problem(cause: &StoreError) -> Problem {
    match cause {
        StoreError::Unavailable(_) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the database is not available",
            "the database did not answer; ask again",
        ),
        StoreError::Fenced { .. } | StoreError::MissingEmbeddings(_) | StoreError::Damaged { .. } => {
            error!(cause = %cause, "a person's request failed: {cause}");
            Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "what is stored cannot be read",
                "what is stored cannot be read; the server's log says where",
            )
        }
    }
}

#[cfg(test)]
mod tests;
