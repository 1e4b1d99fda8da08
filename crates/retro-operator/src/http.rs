//! The people's side over HTTP.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use retro_core::id::{MemoryId, MemoryRef, RetrospectiveId, ReviewBatchId, RunId, Step, Tenant, Workflow};
use retro_core::memory::{Memory, Status};
use retro_core::outcome::WorkflowOutcomes;
use retro_core::review::Repository;
use retro_http::{Api, Caller, Id, Params, Problem, accepts};
use retro_store::{
    MemoryFilter, OperatorStore, ProposalFilter, ProposalRow, ProposalStatus, RetrospectiveDetail,
    RetrospectiveRow, RunFilter, RunRow, StoreError, Unnamed, resolve,
};
use serde::{Deserialize, Serialize};
use tracing::error;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::steer::Acted;
use crate::{report, reviews};

mod dead_letters;
mod described;

pub(crate) use dead_letters::LettersAsked;

/// Entries of a list when nothing is said: a screenful or two.
pub const LIST_DEFAULT: u32 = 100;

/// Entries of a list at most: some hundred kilobytes of memories, which a browser still shows at once.
pub const LIST_MAX: u32 = 1000;

/// Columns of a table that is served as text: what fits into most windows.
const TEXT_COLUMNS: u16 = 140;

/// Takes the secrets out of a text; dead letters are shown through it.
pub type SharedRedact = Arc<dyn Fn(&str) -> String + Send + Sync>;

#[derive(Clone)]
struct Operator {
    store: Arc<dyn OperatorStore>,
    redact: SharedRedact,
}

/// The people's routes under `/v1`: memories, their lives, retrospectives, reports, runs and dead letters. To be
/// merged with others and handed to [`retro_http::serve`].
pub fn router(store: Arc<dyn OperatorStore>, redact: SharedRedact) -> Api {
    routes().with_state(Operator { store, redact })
}

/// What [`router`], [`crate::steer_router`], [`crate::requests_router`] and [`crate::mend_router`] serve.
pub fn description() -> Api {
    let acts = crate::steer::routes().description().merge(crate::requests::routes().description());
    let acts = acts.merge(crate::dead_letters::routes().description());
    let acts = acts.merge(crate::replay::routes().description());
    routes().description().merge(acts)
}

fn routes() -> Api<Operator> {
    Api::new()
        .routes(routes!(memories))
        .routes(routes!(why))
        .routes(routes!(effect))
        .routes(routes!(rules))
        .routes(routes!(retrospectives))
        .routes(routes!(retrospective))
        .routes(routes!(proposals))
        .routes(routes!(report))
        .routes(routes!(runs))
        .routes(routes!(outcomes))
        .routes(routes!(dead_letters::dead_letters))
        .routes(routes!(dead_letters::stats))
        .routes(routes!(dead_letters::dead_letter))
}

/// A list, and whether there is more of it.
#[derive(Debug, Serialize)]
struct List<T> {
    items: Vec<T>,
    /// More were found than asked for; ask with a higher `limit`, or filter.
    more: bool,
}

/// How many entries are wanted.
#[derive(Debug, Clone, Copy)]
struct Limit(usize);

impl Limit {
    fn of(asked: Option<u32>) -> Result<Self, Problem> {
        match asked.unwrap_or(LIST_DEFAULT) {
            wanted @ 1..=LIST_MAX => Ok(Self(wanted as usize)),
            other => Err(Problem::field("limit", format!("{other} is not between 1 and {LIST_MAX}"))),
        }
    }

    /// One more than is wanted tells whether there is more.
    fn to_fetch(self) -> u32 {
        u32::try_from(self.0 + 1).expect("limits are small")
    }

    fn list<T>(self, mut items: Vec<T>) -> Json<List<T>> {
        let more = items.len() > self.0;
        items.truncate(self.0);
        Json(List { items, more })
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct MemoriesAsked {
    /// Only of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only of this step.
    #[param(value_type = Option<String>)]
    step: Option<Step>,
    /// Only of this status.
    #[param(value_type = Option<String>)]
    status: Option<Status>,
    /// At most so many [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Memories, heaviest first.
#[utoipa::path(get, path = "/v1/memories", tag = "people", params(MemoriesAsked), responses((status = 200, body = described::Memories)))]
async fn memories(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Params(asked): Params<MemoriesAsked>,
) -> Result<Json<List<Memory>>, Problem> {
    let limit = Limit::of(asked.limit)?;
    let MemoriesAsked { workflow, step, status, .. } = asked;
    let filter = MemoryFilter { workflow, step, status, limit: limit.to_fetch(), rules: false };
    Ok(limit.list(operator.store.memories(&tenant, &filter).await.map_err(|cause| not_answered(&cause))?))
}

/// The memory that was named, by its id or its first digits.
async fn meant(operator: &Operator, tenant: &Tenant, name: MemoryRef) -> Result<MemoryId, Problem> {
    let named = resolve(&*operator.store, tenant, name).await.map_err(|cause| not_answered(&cause))?;
    named.map_err(unnamed)
}

/// Every change of a memory and its reason, and what can be said of its effect.
#[utoipa::path(get, path = "/v1/memories/{id}/why", tag = "people", params(("id" = String, Path, description = "the id, or eight or more of its first digits")), responses((status = 200, content((described::Why = "application/json"), (String = "text/plain")))))]
async fn why(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Id(name): Id<MemoryRef>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = meant(&operator, &tenant, name).await?;
    let found = crate::why_with_effect(&*operator.store, &tenant, id).await;
    let found = found.map_err(|cause| not_answered(&cause))?;
    let why = found.ok_or_else(|| unnamed(Unnamed::Missing(name)))?;
    Ok(match accepts(&headers, &["application/json", "text/plain"]) {
        "text/plain" => as_text("text/plain; charset=utf-8", why.text(TEXT_COLUMNS)),
        _ => Json(why).into_response(),
    })
}

/// What a memory does to the success of its workflow's runs: those that met it beside those that did not.
#[utoipa::path(get, path = "/v1/memories/{id}/effect", tag = "people", params(("id" = String, Path, description = "the id, or eight or more of its first digits")), responses((status = 200, content((described::Effect = "application/json"), (String = "text/plain")))))]
async fn effect(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Id(name): Id<MemoryRef>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = meant(&operator, &tenant, name).await?;
    let found = crate::memory_effect(&*operator.store, &tenant, id).await;
    let found = found.map_err(|cause| not_answered(&cause))?;
    let effect = found.ok_or_else(|| unnamed(Unnamed::Missing(name)))?;
    Ok(match accepts(&headers, &["application/json", "text/plain"]) {
        "text/plain" => as_text("text/plain; charset=utf-8", effect.text()),
        _ => Json(effect).into_response(),
    })
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RulesAsked {
    /// Only of this repository: `owner/name`, after its host unless that is github.com.
    #[param(value_type = Option<String>)]
    repo: Option<Repository>,
    /// Only of this status.
    #[param(value_type = Option<String>)]
    status: Option<Status>,
    /// At most so many [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Rules of repositories, which reviews have taught; heaviest first. One with `quarantine` waits for a person.
#[utoipa::path(get, path = "/v1/rules", tag = "people", params(RulesAsked), responses((status = 200, body = described::Memories)))]
async fn rules(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Params(asked): Params<RulesAsked>,
) -> Result<Json<List<Memory>>, Problem> {
    let limit = Limit::of(asked.limit)?;
    let workflow = asked.repo.map(|repo| repo.keeper(&tenant).workflow);
    let filter = MemoryFilter {
        workflow,
        status: asked.status,
        rules: true,
        limit: limit.to_fetch(),
        ..Default::default()
    };
    Ok(limit.list(operator.store.memories(&tenant, &filter).await.map_err(|cause| not_answered(&cause))?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RetrospectivesAsked {
    /// Only of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// At most so many [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Retrospectives, the newest first.
#[utoipa::path(get, path = "/v1/retrospectives", tag = "people", params(RetrospectivesAsked), responses((status = 200, body = described::Retrospectives)))]
async fn retrospectives(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Params(asked): Params<RetrospectivesAsked>,
) -> Result<Json<List<RetrospectiveRow>>, Problem> {
    let limit = Limit::of(asked.limit)?;
    let found = operator.store.retrospectives(&tenant, asked.workflow.as_ref(), limit.to_fetch()).await;
    Ok(limit.list(found.map_err(|cause| not_answered(&cause))?))
}

/// One retrospective: window, sample, investigations.
#[utoipa::path(get, path = "/v1/retrospectives/{id}", tag = "people", params(("id" = String, Path, description = "the id")), responses((status = 200, body = described::Retrospective)))]
async fn retrospective(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Id(id): Id<RetrospectiveId>,
) -> Result<Json<Acted<RetrospectiveDetail>>, Problem> {
    let found = operator.store.retrospective(&tenant, id).await.map_err(|cause| not_answered(&cause))?;
    let of = found.ok_or_else(|| Problem::not_found("retrospective", id))?;
    let acts = operator.store.acts(&tenant, id.0).await.map_err(|cause| not_answered(&cause))?;
    Ok(Json(Acted { of, acts }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ProposalsAsked {
    /// Only of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only of this retrospective.
    #[param(value_type = Option<String>)]
    retrospective: Option<RetrospectiveId>,
    /// Only of this status: open, accepted or refused.
    #[param(value_type = Option<String>)]
    status: Option<ProposalStatus>,
    /// At most so many [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// What manual retrospectives propose, with what was decided; those of the newest one first.
#[utoipa::path(get, path = "/v1/proposals", tag = "people", params(ProposalsAsked), responses((status = 200, body = described::Proposals)))]
async fn proposals(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Params(asked): Params<ProposalsAsked>,
) -> Result<Json<List<ProposalRow>>, Problem> {
    let limit = Limit::of(asked.limit)?;
    let ProposalsAsked { workflow, retrospective, status, .. } = asked;
    let filter = ProposalFilter { workflow, retrospective, status, limit: limit.to_fetch() };
    let found = operator.store.proposals(&tenant, &filter).await.map_err(|cause| not_answered(&cause))?;
    Ok(limit.list(found))
}

/// The report of a retrospective, in the form that `Accept` asks for; or of reviews, as JSON or plain text.
#[utoipa::path(get, path = "/v1/reports/{id}", tag = "people", params(("id" = String, Path, description = "the retrospective's id, or that of a report about reviews")), responses((status = 200, content((described::Report = "application/json"), (String = "text/markdown"), (String = "text/plain")))))]
async fn report(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Id(id): Id<RetrospectiveId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = operator.store.report(&tenant, id).await.map_err(|cause| not_answered(&cause))?;
    let Some(found) = found else { return about_reviews(&operator, &tenant, id, &headers).await };
    Ok(match accepts(&headers, &["application/json", "text/markdown", "text/plain"]) {
        "text/markdown" => as_text("text/markdown; charset=utf-8", report::markdown(&found)),
        "text/plain" => as_text("text/plain; charset=utf-8", report::table(&found, TEXT_COLUMNS)),
        _ => Json(found).into_response(),
    })
}

async fn about_reviews(
    operator: &Operator,
    tenant: &Tenant,
    id: RetrospectiveId,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let found = operator.store.review_report(tenant, ReviewBatchId(id.0)).await;
    let found =
        found.map_err(|cause| not_answered(&cause))?.ok_or_else(|| Problem::not_found("report", id))?;
    Ok(match accepts(headers, &["application/json", "text/plain"]) {
        "text/plain" => as_text("text/plain; charset=utf-8", reviews::report(&found, TEXT_COLUMNS)),
        _ => Json(found).into_response(),
    })
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RunsAsked {
    /// Only of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only this run.
    #[param(value_type = Option<String>)]
    run: Option<RunId>,
    /// At most so many [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Runs, the newest first.
#[utoipa::path(get, path = "/v1/runs", tag = "people", params(RunsAsked), responses((status = 200, body = described::Runs)))]
async fn runs(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Params(asked): Params<RunsAsked>,
) -> Result<Json<List<RunRow>>, Problem> {
    let limit = Limit::of(asked.limit)?;
    let filter = RunFilter { workflow: asked.workflow, run: asked.run, limit: limit.to_fetch() };
    Ok(limit.list(operator.store.runs(&tenant, &filter).await.map_err(|cause| not_answered(&cause))?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct OutcomesAsked {
    /// Only of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
}

/// What became of the runs' pull requests: approved, sent back, merged, closed; by workflow.
#[utoipa::path(get, path = "/v1/outcomes", tag = "people", params(OutcomesAsked), responses((status = 200, body = described::Outcomes)))]
async fn outcomes(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Params(asked): Params<OutcomesAsked>,
) -> Result<Json<List<WorkflowOutcomes>>, Problem> {
    let items = crate::outcomes(&*operator.store, &tenant, asked.workflow.as_ref()).await;
    Ok(Json(List { items: items.map_err(|cause| not_answered(&cause))?, more: false }))
}

fn as_text(kind: &'static str, body: String) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

fn unnamed(why: Unnamed) -> Problem {
    match why {
        Unnamed::Missing(name) => Problem::not_found("memory", name),
        Unnamed::Ambiguous(_) => Problem::ambiguous(why.to_string()),
    }
}

/// The store's own words go to the log: they name tables, and perhaps another tenant's rows.
pub(crate) fn not_answered(cause: &StoreError) -> Problem {
    match cause {
        StoreError::Unavailable(_) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the database is not available",
            "the database did not answer; ask again",
        ),
        StoreError::Fenced { .. } | StoreError::Unready(_) | StoreError::Damaged { .. } => {
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
