//! Answers requests of agents that arrive over the broker, with the answers of HTTP.

use axum::http::StatusCode;
use retro_core::audience::{RepoVisibility, RunRepository};
use retro_core::id::{MemoryRef, Repository, RunId, Tenant, Workflow};
use retro_events::agents::{
    AgentOperation, AgentRefusal, AgentReply, AgentRequest, AgentService, BegunAnswer,
};
use retro_http::{BODY_BYTES_MAX, Problem, TenantLimiter, parse_json};
use retro_telemetry::metrics::AGENT_REQUESTS;
use serde::{Deserialize, Serialize};

use crate::answer::{
    ContextAnswer, ContextRequest, MemoryAnswer, MemoryReader, Recording, SearchAnswer, SearchRequest,
};
use crate::feedback::{FeedbackAnswer, FeedbackRecording, FeedbackRequest};
use crate::gateway::Gateway;
use crate::http::{SearchQuery, feedback_problem, unresolved_problem};

/// Maximum number of requests in progress in one process: a burst of a whole fleet's agents, most of which get what is
/// cached. Their payloads take at most 64 MiB.
const REQUESTS_MAX: usize = 1024;
/// Maximum number of requests in progress per tenant, so that others are answered beside a greedy one.
const TENANT_REQUESTS_MAX: usize = 768;

/// Answers requests of agents from a gateway. The tenant of a request is that of its subject, and the broker's
/// permissions decide who may send it.
#[derive(Clone)]
pub struct AgentResponder {
    gateway: Gateway,
    in_progress: TenantLimiter,
}

impl AgentResponder {
    /// Creates a responder that answers from this gateway.
    pub fn new(gateway: Gateway) -> Self {
        Self { gateway, in_progress: TenantLimiter::new(REQUESTS_MAX, TENANT_REQUESTS_MAX) }
    }
}

impl AgentService for AgentResponder {
    fn begin_answer(&self, request: AgentRequest) -> BegunAnswer {
        let AgentRequest { operation, subject, payload } = request;
        let tenant = match operation.parse_tenant(&subject) {
            Ok(tenant) => tenant,
            Err(problem) => {
                let problem = Problem::invalid_field("subject.tenant", problem);
                return BegunAnswer::Ready(refuse(operation, &problem));
            }
        };
        let Some(permit) = self.in_progress.try_acquire(&tenant) else {
            let busy = match RequestBody::parse(operation, &payload) {
                Ok(body) => {
                    AGENT_REQUESTS.add(1, [operation.as_str(), "busy"]);
                    body.answer_busy()
                }
                Err(problem) => refuse(operation, &problem),
            };
            return BegunAnswer::Ready(busy);
        };
        let gateway = self.gateway.clone();
        BegunAnswer::Pending(Box::pin(async move {
            // Released once the answer is there.
            let _permit = permit;
            let answer = match RequestBody::parse(operation, &payload) {
                Ok(body) => body.answer_from(&gateway, &tenant).await,
                Err(problem) => Err(problem),
            };
            match answer {
                Ok(answer) => {
                    AGENT_REQUESTS.add(1, [operation.as_str(), "answered"]);
                    answer
                }
                Err(problem) => refuse(operation, &problem),
            }
        }))
    }
}

/// Request with a body that was parsed.
enum RequestBody {
    Context(ContextRequest),
    ReadMemory(ReadRequest),
    SearchMemories(SearchRequest),
    GiveFeedback(FeedbackRequest),
}

/// Request for one memory in full. Unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ReadRequest {
    /// Id of the memory, or at least its first 8 digits.
    memory: MemoryRef,
    /// The other fields are those of the query of `GET /v1/memories/{id}`.
    #[serde(default)]
    run: Option<RunId>,
    #[serde(default)]
    workflow: Option<Workflow>,
    #[serde(default)]
    repo: Option<Repository>,
    #[serde(default)]
    repo_visibility: Option<RepoVisibility>,
}

impl ReadRequest {
    fn into_reader(self) -> (MemoryRef, MemoryReader) {
        let Self { memory, run, workflow, repo, repo_visibility: visibility } = self;
        let repository = repo.map(|repo| RunRepository { repo, visibility });
        (memory, MemoryReader { run, workflow, repository })
    }
}

impl RequestBody {
    /// Parses the payload of a request of at most [`BODY_BYTES_MAX`] bytes.
    fn parse(operation: AgentOperation, payload: &[u8]) -> Result<Self, Problem> {
        Ok(match operation {
            AgentOperation::Context => Self::Context(parse_json(payload, BODY_BYTES_MAX)?),
            AgentOperation::ReadMemory => Self::ReadMemory(parse_json(payload, BODY_BYTES_MAX)?),
            AgentOperation::SearchMemories => {
                let query: SearchQuery = parse_json(payload, BODY_BYTES_MAX)?;
                Self::SearchMemories(query.into_request()?)
            }
            AgentOperation::GiveFeedback => Self::GiveFeedback(parse_json(payload, BODY_BYTES_MAX)?),
        })
    }

    async fn answer_from(self, gateway: &Gateway, tenant: &Tenant) -> Result<AgentReply, Problem> {
        match self {
            Self::Context(request) => Ok(render_answer(&gateway.context(tenant, request).await)),
            Self::ReadMemory(request) => {
                let (name, reader) = request.into_reader();
                let answer = gateway.read_memory(tenant, name, reader).await;
                answer.map(|answer| render_answer(&answer)).map_err(|unnamed| unresolved_problem(&unnamed))
            }
            Self::SearchMemories(request) => Ok(render_answer(&gateway.search(tenant, request).await)),
            Self::GiveFeedback(request) => {
                if !request.is_of_agent() {
                    return Err(speaks_for_others());
                }
                let answer = gateway.give_feedback(tenant, &request).await;
                answer.map(|answer| render_answer(&answer)).map_err(feedback_problem)
            }
        }
    }

    /// Returns the answer while too many others are in progress: nothing, and why.
    fn answer_busy(&self) -> AgentReply {
        let reason = "too many requests of agents are in progress";
        let none = format!("no memories: {reason}");
        match self {
            Self::Context(request) => render_answer(&ContextAnswer::empty(request.run_id.as_ref(), none)),
            Self::ReadMemory(request) => render_answer(&MemoryAnswer {
                memory: None,
                recorded: Recording::of_unrecorded(request.run.as_ref()),
                reason: Some(format!("no memory: {reason}")),
            }),
            Self::SearchMemories(request) => render_answer(&SearchAnswer::empty(request.run.as_ref(), &none)),
            Self::GiveFeedback(_) => render_answer(&FeedbackAnswer {
                recorded: FeedbackRecording::Unknown,
                reason: format!("the feedback is not recorded: {reason}"),
            }),
        }
    }
}

/// Returns the problem of feedback that speaks for a person or an evaluation: the broker's user of a tenant is that of its
/// agents.
fn speaks_for_others() -> Problem {
    let detail = "over the broker, only agents give feedback, each on its run: name `run` and `workflow`, and neither \
                  `by` nor another `source`. People and evaluations use the HTTP API";
    Problem::new(StatusCode::FORBIDDEN, "the broker's user does not allow it", detail)
        .with_code("insufficient_scope")
}

fn render_answer(answer: &impl Serialize) -> AgentReply {
    let payload = serde_json::to_vec(answer).expect("an answer always serializes");
    AgentReply { payload: payload.into(), refusal: None }
}

fn refuse(operation: AgentOperation, problem: &Problem) -> AgentReply {
    AGENT_REQUESTS.add(1, [operation.as_str(), "refused"]);
    let payload = serde_json::to_vec(problem).expect("a problem always serializes");
    let refusal = AgentRefusal {
        status: problem.status.as_u16(),
        reason: format!("{}: {}", problem.title, problem.detail),
    };
    AgentReply { payload: payload.into(), refusal: Some(refusal) }
}

#[cfg(test)]
mod tests;
