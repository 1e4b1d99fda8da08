//! The people's side over HTTP.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use retro_core::dead_letter::Code;
use retro_core::id::{DeadLetterId, MemoryRef, RetrospectiveId, RunId, Step, Workflow};
use retro_core::memory::{Memory, Status};
use retro_http::{Caller, Id, Params, Problem, accepts};
use retro_store::{
    DeadLetterFilter, MemoryFilter, OperatorStore, RetrospectiveDetail, RetrospectiveRow, RunFilter, RunRow,
    StoreError, Unnamed, resolve,
};
use serde::{Deserialize, Serialize};
use tracing::error;

use crate::dead_letters::DeadLetterView;
use crate::report;
use crate::steer::Acted;
use crate::why::Why;

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
pub fn router(store: Arc<dyn OperatorStore>, redact: SharedRedact) -> Router {
    Router::new()
        .route("/v1/memories", get(memories))
        .route("/v1/memories/{id}/why", get(why))
        .route("/v1/retrospectives", get(retrospectives))
        .route("/v1/retrospectives/{id}", get(retrospective))
        .route("/v1/reports/{id}", get(report))
        .route("/v1/runs", get(runs))
        .route("/v1/dead-letters", get(dead_letters))
        .route("/v1/dead-letters/{id}", get(dead_letter))
        .with_state(Operator { store, redact })
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

#[derive(Deserialize)]
struct MemoriesAsked {
    workflow: Option<Workflow>,
    step: Option<Step>,
    status: Option<Status>,
    limit: Option<u32>,
}

async fn memories(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Params(asked): Params<MemoriesAsked>,
) -> Result<Json<List<Memory>>, Problem> {
    let limit = Limit::of(asked.limit)?;
    let MemoriesAsked { workflow, step, status, .. } = asked;
    let filter = MemoryFilter { workflow, step, status, limit: limit.to_fetch() };
    Ok(limit.list(operator.store.memories(&tenant, &filter).await.map_err(|cause| not_answered(&cause))?))
}

async fn why(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Id(name): Id<MemoryRef>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let named = resolve(&*operator.store, &tenant, name).await.map_err(|cause| not_answered(&cause))?;
    let id = named.map_err(unnamed)?;
    let history = operator.store.history(&tenant, id).await.map_err(|cause| not_answered(&cause))?;
    let why = Why::of(id, &history).ok_or_else(|| unnamed(Unnamed::Missing(name)))?;
    Ok(match accepts(&headers, &["application/json", "text/plain"]) {
        "text/plain" => as_text("text/plain; charset=utf-8", why.text(TEXT_COLUMNS)),
        _ => Json(why).into_response(),
    })
}

#[derive(Deserialize)]
struct RetrospectivesAsked {
    workflow: Option<Workflow>,
    limit: Option<u32>,
}

async fn retrospectives(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Params(asked): Params<RetrospectivesAsked>,
) -> Result<Json<List<RetrospectiveRow>>, Problem> {
    let limit = Limit::of(asked.limit)?;
    let found = operator.store.retrospectives(&tenant, asked.workflow.as_ref(), limit.to_fetch()).await;
    Ok(limit.list(found.map_err(|cause| not_answered(&cause))?))
}

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

async fn report(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Id(id): Id<RetrospectiveId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = operator.store.report(&tenant, id).await.map_err(|cause| not_answered(&cause))?;
    let found = found.ok_or_else(|| Problem::not_found("report", id))?;
    Ok(match accepts(&headers, &["application/json", "text/markdown", "text/plain"]) {
        "text/markdown" => as_text("text/markdown; charset=utf-8", report::markdown(&found)),
        "text/plain" => as_text("text/plain; charset=utf-8", report::table(&found, TEXT_COLUMNS)),
        _ => Json(found).into_response(),
    })
}

#[derive(Deserialize)]
struct RunsAsked {
    workflow: Option<Workflow>,
    run: Option<RunId>,
    limit: Option<u32>,
}

async fn runs(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Params(asked): Params<RunsAsked>,
) -> Result<Json<List<RunRow>>, Problem> {
    let limit = Limit::of(asked.limit)?;
    let filter = RunFilter { workflow: asked.workflow, run: asked.run, limit: limit.to_fetch() };
    Ok(limit.list(operator.store.runs(&tenant, &filter).await.map_err(|cause| not_answered(&cause))?))
}

#[derive(Deserialize)]
struct DeadLettersAsked {
    code: Option<Code>,
    workflow: Option<Workflow>,
    limit: Option<u32>,
}

async fn dead_letters(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Params(asked): Params<DeadLettersAsked>,
) -> Result<Json<List<DeadLetterView>>, Problem> {
    let limit = Limit::of(asked.limit)?;
    let filter = DeadLetterFilter { code: asked.code, workflow: asked.workflow, limit: limit.to_fetch() };
    let found = operator.store.dead_letters(&tenant, &filter).await.map_err(|cause| not_answered(&cause))?;
    Ok(limit.list(found.iter().map(|letter| DeadLetterView::listed(letter, &*operator.redact)).collect()))
}

async fn dead_letter(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Id(id): Id<DeadLetterId>,
) -> Result<Json<Acted<DeadLetterView>>, Problem> {
    let found = operator.store.dead_letter(&tenant, id).await.map_err(|cause| not_answered(&cause))?;
    let found = found.ok_or_else(|| Problem::not_found("dead letter", id))?;
    let acts = operator.store.acts(&tenant, id.0).await.map_err(|cause| not_answered(&cause))?;
    Ok(Json(Acted { of: DeadLetterView::whole(&found, &*operator.redact), acts }))
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
        StoreError::Fenced { .. } | StoreError::Damaged { .. } => {
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
