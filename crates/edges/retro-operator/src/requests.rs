//! Defines the HTTP routes for manual retrospectives and for decisions about proposals. The implementation is
//! injected, because only the writer may change memories and only the sampler may open a retrospective.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use retro_core::canonical::content_hash;
use retro_core::id::{ProposalId, RetrospectiveId, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::manual::{Acceptance, DecideError, DecidedProposal, DecisionRecord, Refusal, TriggerError};
use retro_core::retrospective::ManualRequest;
use retro_http::{Api, Caller, JsonBody, PathId, Problem, RouteAccess, deciding_token};
use retro_store::{CommitResult, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::command::actor_name;
use crate::http::JsonResult;

/// Header by which the server recognises a retried request.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Result of a decision about a proposal. `None` means that the tenant has no such proposal; the inner error
/// says why nothing was decided.
pub type DecisionOutcome = Option<Result<DecidedProposal, DecideError>>;

/// Port for operator requests that the sampler or the writer carries out.
#[async_trait]
pub trait ManualRequests: Send + Sync {
    /// Opens a manual retrospective, or returns the one that the same request opened before. The inner error
    /// says why none was opened.
    async fn trigger_retrospective(
        &self,
        key: &WorkflowKey,
        request: &ManualRequest,
    ) -> Result<Result<(RetrospectiveId, CommitResult), TriggerError>, StoreError>;

    /// Accepts a proposal, which becomes a memory.
    async fn accept_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        acceptance: &Acceptance,
    ) -> Result<DecisionOutcome, StoreError>;

    /// Refuses a proposal and stores the reason.
    async fn refuse_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        refusal: &Refusal,
    ) -> Result<DecisionOutcome, StoreError>;
}

/// Returns the routes for manual retrospectives and decisions about proposals, under `/v1`. Merge them with
/// other routes and pass them to [`retro_http::HttpServer`].
pub fn router(requests: Arc<dyn ManualRequests>) -> Api {
    routes().with_state(requests)
}

/// Returns the routes without their state, for the OpenAPI description.
pub(crate) fn routes() -> Api<Arc<dyn ManualRequests>> {
    Api::new()
        .routes(routes!(trigger_retrospective))
        .routes(routes!(accept_proposal))
        .routes(routes!(refuse_proposal))
        .allow(RouteAccess::People)
}

/// A request for a manual retrospective.
#[derive(Debug, Deserialize, ToSchema)]
struct TriggerRequest {
    /// Workflow of the runs.
    #[schema(value_type = String)]
    workflow: Workflow,
    /// Ids of the runs to investigate, at most 20. The runs stay in the window of their workflow.
    #[schema(value_type = Vec<String>)]
    runs: Vec<RunId>,
    /// Question that the retrospective should answer. The heuristics do not read it; proposals that share words with
    /// it are listed first.
    focus: Option<String>,
    /// Reason for the request, stored with the retrospective.
    reason: Option<String>,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    by: Option<String>,
}

/// Manual retrospective that the request opened, now or before.
#[derive(Debug, Serialize, ToSchema)]
struct TriggerResponse {
    /// Id of the retrospective.
    #[schema(value_type = String)]
    retrospective: RetrospectiveId,
    /// Id of the request: the `Idempotency-Key`, or an id derived from the content.
    request: String,
    /// `true` if this request opened the retrospective; `false` if the same request had opened it before.
    opened: bool,
}

/// Opens a manual retrospective over named runs. Requests with the same `Idempotency-Key` open only one
/// retrospective. Requests without a key open only one if their workflow, runs and question are the same.
#[utoipa::path(post, path = "/v1/retrospectives", tag = "people", request_body = TriggerRequest, params(("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = TriggerResponse)))]
async fn trigger_retrospective(
    State(requests): State<Arc<dyn ManualRequests>>,
    Caller(tenant): Caller,
    headers: HeaderMap,
    JsonBody(body): JsonBody<TriggerRequest>,
) -> JsonResult<TriggerResponse> {
    let TriggerRequest { workflow, mut runs, focus, by, reason } = body;
    // Sorted, so that the same runs in another order derive the same request id.
    runs.sort_unstable();
    runs.dedup();
    let request = request_id(&headers, || json!(["look", workflow, runs, focus]))?;
    let manual = ManualRequest {
        request,
        by: actor_name(by.as_deref()).to_owned(),
        with_token: deciding_token(),
        runs,
        focus,
        reason,
    };
    let key = WorkflowKey { tenant, workflow };
    let answer = requests.trigger_retrospective(&key, &manual).await?;
    let (retrospective, step) = answer.map_err(|untriggered| trigger_problem(&untriggered))?;
    Ok(Json(TriggerResponse { retrospective, request: manual.request, opened: step == CommitResult::Done }))
}

/// A request to accept a proposal.
#[derive(Debug, Deserialize, ToSchema)]
struct AcceptRequest {
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    by: Option<String>,
    /// Reason to override a tombstone. Without a reason, a tombstone prevents the acceptance.
    override_tombstone: Option<String>,
    /// Reason for the acceptance, stored with the decision and in the change.
    reason: Option<String>,
}

/// A request to refuse a proposal.
#[derive(Debug, Deserialize, ToSchema)]
struct RefuseRequest {
    /// Reason for the refusal, stored with the proposal.
    reason: String,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    by: Option<String>,
}

/// Response to a decision about a proposal.
#[derive(Debug, Serialize, ToSchema)]
struct DecisionResponse {
    /// Verdict with its actor and time, and the memory of an accepted proposal or the reason of a refusal.
    #[schema(value_type = Object)]
    decision: DecisionRecord,
    /// `true` if this request decided about the proposal; `false` if the same decision had been made before.
    newly_decided: bool,
}

/// Accepts a proposal, which becomes an active memory with its runs as evidence.
#[utoipa::path(post, path = "/v1/proposals/{id}/accept", tag = "people", request_body = AcceptRequest, params(("id" = String, Path, description = "the id"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = DecisionResponse)))]
async fn accept_proposal(
    State(requests): State<Arc<dyn ManualRequests>>,
    Caller(tenant): Caller,
    PathId(id): PathId<ProposalId>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<AcceptRequest>,
) -> JsonResult<DecisionResponse> {
    let acceptance = Acceptance {
        request: request_id(&headers, || json!(["accept", id]))?,
        by: actor_name(request.by.as_deref()).to_owned(),
        override_tombstone: request.override_tombstone,
        reason: request.reason,
    };
    decision_response(id, "accepted", requests.accept_proposal(&tenant, id, &acceptance).await?)
}

/// Refuses a proposal and stores the reason.
#[utoipa::path(post, path = "/v1/proposals/{id}/refuse", tag = "people", request_body = RefuseRequest, params(("id" = String, Path, description = "the id"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = DecisionResponse)))]
async fn refuse_proposal(
    State(requests): State<Arc<dyn ManualRequests>>,
    Caller(tenant): Caller,
    PathId(id): PathId<ProposalId>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<RefuseRequest>,
) -> JsonResult<DecisionResponse> {
    let refusal = Refusal {
        request: request_id(&headers, || json!(["refuse", id]))?,
        by: actor_name(request.by.as_deref()).to_owned(),
        reason: request.reason,
    };
    decision_response(id, "refused", requests.refuse_proposal(&tenant, id, &refusal).await?)
}

/// Returns the id of the request: the `Idempotency-Key`, or else a hash of the content.
pub(crate) fn request_id(
    headers: &HeaderMap,
    what: impl FnOnce() -> serde_json::Value,
) -> Result<String, Problem> {
    let Some(given) = headers.get(IDEMPOTENCY_KEY) else {
        // Half of the hash is 128 bits, enough to tell requests apart.
        return Ok(format!("derived-{}", &content_hash(&what())[..32]));
    };
    let given = given.to_str().map_err(|_| Problem::invalid_field("Idempotency-Key", "is not plain text"))?;
    Ok(given.to_owned())
}

fn trigger_problem(untriggered: &TriggerError) -> Problem {
    let field = match untriggered {
        TriggerError::TextLength { what, .. } => what,
        TriggerError::RequestConflict(_) => {
            let title = "the idempotency key was used for another request";
            return Problem::new(StatusCode::CONFLICT, title, untriggered.to_string());
        }
        _ => "runs",
    };
    Problem::invalid_field(field, untriggered.to_string())
}

fn decision_response(id: ProposalId, wanted: &str, outcome: DecisionOutcome) -> JsonResult<DecisionResponse> {
    let conflict = |detail| Problem::new(StatusCode::CONFLICT, "the decision is not possible", detail);
    match outcome {
        None => Err(Problem::not_found("proposal", id).into()),
        Some(Ok(decided)) => Ok(Json(DecisionResponse { decision: decided.decision, newly_decided: true })),
        // The same decision again succeeds, so that a retry after a lost response is not a conflict.
        Some(Err(DecideError::AlreadyDecided(decision))) if decision.decision.as_str() == wanted => {
            Ok(Json(DecisionResponse { decision: *decision, newly_decided: false }))
        }
        Some(Err(DecideError::TextLength { what, max, unit })) => {
            Err(Problem::invalid_field(what, format!("must have 1 to {max} {unit}")).into())
        }
        Some(Err(undecided)) => Err(conflict(undecided.to_string()).into()),
    }
}
