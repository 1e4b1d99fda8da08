//! A person's requests for manual retrospectives and their decisions about proposals, over HTTP. What carries them out
//! is handed in: only the writer changes memory, and only the sampler opens what is looked at.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use retro_core::canonical::content_hash;
use retro_core::id::{ProposalId, RetrospectiveId, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::manual::{Acceptance, Asked, Decided, Decision, Refusal, Undecided, Untriggered};
use retro_http::{Api, Caller, Id, JsonBody, Problem};
use retro_store::{Step, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::not_answered;

/// Who asks when the request does not say: credentials will.
const SOMEBODY: &str = "somebody over HTTP";

/// The header by which a client says that it asks again.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// What came of a decision: `None` when the tenant has no such proposal; the inner error says why nothing was decided.
pub type DecisionOutcome = Option<Result<Decided, Undecided>>;

/// What a person may ask for.
#[async_trait]
pub trait Requests: Send + Sync {
    /// Opens a manual retrospective, or finds it opened; the inner error says why it was not.
    async fn trigger(
        &self,
        key: &WorkflowKey,
        asked: &Asked,
    ) -> Result<Result<(RetrospectiveId, Step), Untriggered>, StoreError>;

    /// Makes a memory of a proposal.
    async fn accept(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        acceptance: &Acceptance,
    ) -> Result<DecisionOutcome, StoreError>;

    /// Keeps a refusal.
    async fn refuse(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        refusal: &Refusal,
    ) -> Result<DecisionOutcome, StoreError>;
}

/// The routes by which people ask and decide, under `/v1`. To be merged with others and handed to
/// [`retro_http::serve`].
pub fn router(requests: Arc<dyn Requests>) -> Api {
    routes().with_state(requests)
}

/// Without what they work on.
pub(crate) fn routes() -> Api<Arc<dyn Requests>> {
    Api::new().routes(routes!(trigger)).routes(routes!(accept)).routes(routes!(refuse))
}

/// A manual retrospective that is asked for.
#[derive(Debug, Deserialize, ToSchema)]
struct TriggerAsked {
    /// The workflow of the runs.
    #[schema(value_type = String)]
    workflow: Workflow,
    /// The runs to look into, at most 20; they stay in the window.
    #[schema(value_type = Vec<String>)]
    runs: Vec<RunId>,
    /// What is to be known. The heuristics read no question; proposals that share words with it come first.
    focus: Option<String>,
    /// Who asks: a name, until credentials say.
    by: Option<String>,
}

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
struct Triggered {
    /// The retrospective.
    #[schema(value_type = String)]
    retrospective: RetrospectiveId,
    /// The request's id: that of `Idempotency-Key`, or derived from what is asked.
    request: String,
    /// Whether it was opened now; false when the same request had opened it before.
    opened: bool,
}

/// Opens a manual retrospective over named runs. The same `Idempotency-Key`, or without one the same question about the
/// same runs, opens one.
#[utoipa::path(post, path = "/v1/retrospectives", tag = "people", request_body = TriggerAsked, params(("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = Triggered)))]
async fn trigger(
    State(requests): State<Arc<dyn Requests>>,
    Caller(tenant): Caller,
    headers: HeaderMap,
    JsonBody(asked): JsonBody<TriggerAsked>,
) -> Result<Json<Triggered>, Problem> {
    let TriggerAsked { workflow, mut runs, focus, by } = asked;
    runs.sort_unstable();
    runs.dedup();
    let request = request(&headers, || json!(["look", workflow, runs, focus]))?;
    let asked = Asked { request, by: by.unwrap_or_else(|| SOMEBODY.to_owned()), runs, focus };
    let key = WorkflowKey { tenant, workflow };
    let answer = requests.trigger(&key, &asked).await.map_err(|cause| not_answered(&cause))?;
    let (retrospective, step) = answer.map_err(|untriggered| not_opened(&untriggered))?;
    Ok(Json(Triggered { retrospective, request: asked.request, opened: step == Step::Done }))
}

/// A person's yes.
#[derive(Debug, Deserialize, ToSchema)]
struct AcceptAsked {
    /// Who accepts: a name, until credentials say.
    by: Option<String>,
    /// Why a tombstone does not matter; without it one stops the acceptance.
    despite_tombstone: Option<String>,
}

/// A person's no.
#[derive(Debug, Deserialize, ToSchema)]
struct RefuseAsked {
    /// Why: it is kept.
    reason: String,
    /// Who refuses: a name, until credentials say.
    by: Option<String>,
}

/// What was decided, now or before.
#[derive(Debug, Serialize, ToSchema)]
struct DecisionTold {
    /// The decision: verdict, by whom, when, and the memory or the reason.
    #[schema(value_type = Object)]
    decision: Decision,
    /// Whether it was decided now; false when it had been decided so before.
    now: bool,
}

/// Makes a memory of a proposal: active, with its runs as evidence.
#[utoipa::path(post, path = "/v1/proposals/{id}/accept", tag = "people", request_body = AcceptAsked, params(("id" = String, Path, description = "the id"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = DecisionTold)))]
async fn accept(
    State(requests): State<Arc<dyn Requests>>,
    Caller(tenant): Caller,
    Id(id): Id<ProposalId>,
    headers: HeaderMap,
    JsonBody(asked): JsonBody<AcceptAsked>,
) -> Result<Json<DecisionTold>, Problem> {
    let acceptance = Acceptance {
        request: request(&headers, || json!(["accept", id]))?,
        by: asked.by.unwrap_or_else(|| SOMEBODY.to_owned()),
        despite_tombstone: asked.despite_tombstone,
    };
    let outcome = requests.accept(&tenant, id, &acceptance).await.map_err(|cause| not_answered(&cause))?;
    decided(id, "accepted", outcome)
}

/// Refuses a proposal; it is kept with the reason.
#[utoipa::path(post, path = "/v1/proposals/{id}/refuse", tag = "people", request_body = RefuseAsked, params(("id" = String, Path, description = "the id"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = DecisionTold)))]
async fn refuse(
    State(requests): State<Arc<dyn Requests>>,
    Caller(tenant): Caller,
    Id(id): Id<ProposalId>,
    headers: HeaderMap,
    JsonBody(asked): JsonBody<RefuseAsked>,
) -> Result<Json<DecisionTold>, Problem> {
    let refusal = Refusal {
        request: request(&headers, || json!(["refuse", id]))?,
        by: asked.by.unwrap_or_else(|| SOMEBODY.to_owned()),
        reason: asked.reason,
    };
    let outcome = requests.refuse(&tenant, id, &refusal).await.map_err(|cause| not_answered(&cause))?;
    decided(id, "refused", outcome)
}

/// The request's id: what the client calls it, or what it asks for.
fn request(headers: &HeaderMap, what: impl FnOnce() -> serde_json::Value) -> Result<String, Problem> {
    let Some(given) = headers.get(IDEMPOTENCY_KEY) else {
        return Ok(format!("derived-{}", &content_hash(&what())[..32]));
    };
    let given = given.to_str().map_err(|_| Problem::field("Idempotency-Key", "is not plain text"))?;
    Ok(given.to_owned())
}

fn not_opened(untriggered: &Untriggered) -> Problem {
    let field = match untriggered {
        Untriggered::Text { what, .. } => what,
        Untriggered::OtherContent(_) => {
            let title = "the request was another one before";
            return Problem::new(StatusCode::CONFLICT, title, untriggered.to_string());
        }
        _ => "runs",
    };
    Problem::field(field, untriggered.to_string())
}

fn decided(id: ProposalId, wanted: &str, outcome: DecisionOutcome) -> Result<Json<DecisionTold>, Problem> {
    let conflict = |detail| Problem::new(StatusCode::CONFLICT, "it cannot be decided so", detail);
    match outcome {
        None => Err(Problem::not_found("proposal", id)),
        Some(Ok(decided)) => Ok(Json(DecisionTold { decision: decided.decision, now: true })),
        Some(Err(Undecided::Before(decision))) if decision.verdict.as_str() == wanted => {
            Ok(Json(DecisionTold { decision: *decision, now: false }))
        }
        Some(Err(Undecided::Text { what, max, unit })) => {
            Err(Problem::field(what, format!("must have 1 to {max} {unit}")))
        }
        Some(Err(undecided)) => Err(conflict(undecided.to_string())),
    }
}
