//! Defines the HTTP routes of the agents' API.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use retro_core::access::AccessScope;
use retro_core::audience::{RepoVisibility, RunRepository};
use retro_core::id::{MemoryRef, Repository, RunId, Step, Workflow};
use retro_http::{
    Api, Caller, JsonBody, PathId, Principal, Probes, Problem, QueryParams, Refusal, RouteAccess, SizedJson,
    describe_health_routes, health_routes,
};
use retro_store::UnresolvedRef;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::answer::{
    ContextAnswer, ContextRequest, FOUND_MAX, MemoryAnswer, MemoryReader, SearchAnswer, SearchRequest,
};
use crate::feedback::{FeedbackAnswer, FeedbackFieldError, FeedbackRequest};
use crate::gateway::{FeedbackError, Gateway};
use crate::intake::{self, IngestService};
use crate::lessons;

/// Returns the agents' routes: `/v1/events`, `/v1/transcripts`, `/v1/traces`, `/v1/context`, `/v1/memories/search`,
/// `/v1/memories/{id}`, `/v1/feedback`,
/// `/livez`, `/readyz` and `/metrics`. The caller merges them with its other routes and passes the result to
/// [`retro_http::HttpServer`].
pub fn build_router(gateway: Gateway, ingest: IngestService, probes: Probes) -> Api {
    agent_routes()
        .with_state(Arc::new(gateway))
        .merge(intake::ingest_routes().with_state(ingest))
        .merge(health_routes(probes))
}

/// Returns the routes that work without a broker: `/v1/context`, `/v1/memories/search`, `/v1/memories/{id}`,
/// `/v1/feedback` and health. All other routes are left to [`retro_http::HttpServer::serve_not_ready`].
pub fn build_not_ready_router(gateway: Gateway, probes: Probes) -> Api {
    agent_routes().with_state(Arc::new(gateway)).merge(health_routes(probes))
}

/// Returns the routes of [`build_router`] and of [`lessons_router`](crate::lessons_router) without state, for generating the OpenAPI document.
pub fn describe_api() -> Api {
    agent_routes()
        .into_description()
        .merge(intake::ingest_routes().into_description())
        .merge(lessons::lesson_routes().into_description())
        .merge(describe_health_routes())
}

/// The state is shared, because a router clones it several times for each request.
fn agent_routes() -> Api<Arc<Gateway>> {
    let memories =
        Api::new().routes(routes!(search)).routes(routes!(memory)).allow(RouteAccess::ContextOrRead);
    let feedback = Api::new().routes(routes!(feedback)).allow(RouteAccess::ContextOrOperate);
    Api::new().routes(routes!(context)).allow(RouteAccess::Context).merge(memories).merge(feedback)
}

/// Returns the context for the next run of a step.
#[utoipa::path(post, path = "/v1/context", tag = "agents", request_body = ContextRequest,
    responses((status = 200, body = ContextAnswer, description = "the best few memories, or none and the reason")))]
async fn context(
    State(gateway): State<Arc<Gateway>>,
    Caller(tenant): Caller,
    JsonBody(request): JsonBody<ContextRequest>,
) -> SizedJson<ContextAnswer> {
    let answer = gateway.context(&tenant, request).await;
    SizedJson { bytes_expected: answer.json_bytes(), value: answer }
}

/// Query parameters of a search.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchQuery {
    /// What to search for, in plain text. At most 4,096 bytes are read.
    query: String,
    /// Maximum number of memories and rules to find, from 1 to 20.
    #[serde(default = "default_found")]
    #[param(default = 5, minimum = 1, maximum = 20)]
    k: usize,
    /// Workflow whose memories are searched. Without it, only rules of `repo` are.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Name of the step whose memories are searched; defaults to `main`.
    #[serde(default = "Step::main")]
    #[param(value_type = String, default = "main", required = false)]
    step: Step,
    /// Repository that the run works on; as for the context.
    #[param(value_type = Option<String>)]
    repo: Option<Repository>,
    /// Who may read the repository; as for the context.
    repo_visibility: Option<RepoVisibility>,
    /// Id of the run that searches. What was found is recorded as presented to it, and what is withheld from it by
    /// chance is not found. Without it, nothing is recorded.
    #[param(value_type = Option<String>)]
    run: Option<RunId>,
}

impl SearchQuery {
    /// Returns the search. Fails if it finds too many, or if it says nowhere to search.
    pub(crate) fn into_request(self) -> Result<SearchRequest, Problem> {
        let Self { query, k: limit, workflow, step, repo, repo_visibility: visibility, run } = self;
        if !(1..=FOUND_MAX).contains(&limit) {
            return Err(Problem::invalid_field("k", format!("expected a number from 1 to {FOUND_MAX}")));
        }
        if workflow.is_none() && repo.is_none() {
            let detail = "name the run's workflow, or a repository with `repo` to search its rules only";
            return Err(Problem::invalid_field("workflow", detail));
        }
        let repository = repo.map(|repo| RunRepository { repo, visibility });
        Ok(SearchRequest { query, limit, workflow, step, repository, run })
    }
}

/// Returns the default of `k`: few enough to read each of them.
const fn default_found() -> usize {
    5
}

/// Returns the memories and rules about a query that the reader may be handed, best first.
#[utoipa::path(get, path = "/v1/memories/search", tag = "agents", params(SearchQuery),
    responses((status = 200, body = SearchAnswer, description = "what was found, or nothing and the reason")))]
async fn search(
    State(gateway): State<Arc<Gateway>>,
    Caller(tenant): Caller,
    QueryParams(asked): QueryParams<SearchQuery>,
) -> Result<Json<SearchAnswer>, Problem> {
    Ok(Json(gateway.search(&tenant, asked.into_request()?).await))
}

/// Query parameters of a memory read.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct MemoryQuery {
    /// Id of the run that reads the memory. Without it, nothing is recorded.
    #[param(value_type = Option<String>)]
    run: Option<RunId>,
    /// Workflow of the run; defaults to the memory's workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Repository that the run works on. What was learnt in a repository is not found without its name, unless it was
    /// presented to the run.
    #[param(value_type = Option<String>)]
    repo: Option<Repository>,
    /// Who may read the repository; as for the context.
    repo_visibility: Option<RepoVisibility>,
}

/// Returns one memory in full and, if a run is given, records it as read.
#[utoipa::path(get, path = "/v1/memories/{id}", tag = "agents",
    params(("id" = String, Path, description = "id of the memory, or at least its first 8 digits"), MemoryQuery),
    responses((status = 200, body = MemoryAnswer)))]
async fn memory(
    State(gateway): State<Arc<Gateway>>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    QueryParams(opening): QueryParams<MemoryQuery>,
) -> Result<Json<MemoryAnswer>, Problem> {
    let MemoryQuery { run, workflow, repo, repo_visibility: visibility } = opening;
    let repository = repo.map(|repo| RunRepository { repo, visibility });
    let answer = gateway.read_memory(&tenant, name, MemoryReader { run, workflow, repository }).await;
    answer.map(Json).map_err(|unnamed| unresolved_problem(&unnamed))
}

pub(crate) fn unresolved_problem(unnamed: &UnresolvedRef) -> Problem {
    match unnamed {
        UnresolvedRef::Missing(name) => Problem::not_found("memory", name),
        // The candidates may be memories of repositories that the agent is told nothing of.
        UnresolvedRef::Ambiguous(name, _) => Problem::ambiguous_name(format!(
            "the ids of several memories begin with {name}; give more digits of the one that you mean"
        )),
    }
}

/// Records what somebody says that a memory or a rule did.
#[utoipa::path(post, path = "/v1/feedback", tag = "agents", request_body = FeedbackRequest,
    responses((status = 200, body = FeedbackAnswer, description = "recorded, recorded before, or not and why")))]
async fn feedback(
    State(gateway): State<Arc<Gateway>>,
    principal: Principal,
    JsonBody(request): JsonBody<FeedbackRequest>,
) -> Result<Json<FeedbackAnswer>, Response> {
    // An agent's token speaks for agents: a person's word counts without a run.
    if !request.is_of_agent() && !principal.allows(AccessScope::Operate) {
        return Err(Refusal::InsufficientScope(&[AccessScope::Operate]).into_response());
    }
    let answer = gateway.give_feedback(&principal.tenant, &request).await;
    answer.map(Json).map_err(|error| feedback_problem(error).into_response())
}

pub(crate) fn feedback_problem(error: FeedbackError) -> Problem {
    match error {
        FeedbackError::Field(FeedbackFieldError { field, problem }) => {
            Problem::invalid_field(field, format!("`{field}` {problem}"))
        }
        FeedbackError::Memory(unnamed) => unresolved_problem(&unnamed),
    }
}

#[cfg(test)]
mod tests;
