//! Defines the HTTP routes by which people decide about memories: add, edit, pin, unpin, disable, enable, release,
//! retire and restore them. The implementation is injected, because only the writer may change memories.

mod decisions;

use std::sync::Arc;

use async_trait::async_trait;
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use jiff::Timestamp;
use retro_core::attribution::{Attribution, AttributionError};
use retro_core::id::{MemoryId, MemoryRef, NAME_BYTES_MAX, Step, Tenant, WorkflowKey};
use retro_core::learn::{AdditionError, LessonWording, MemoryDecision, MemoryDecisionError, TextLengthError};
use retro_core::memory::FoldError;
use retro_http::{Api, Caller, JsonBody, PathId, Problem};
use retro_store::{CommitResult, StoreError, UnresolvedRef};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::command::{ActionStatus, actor_name, conflict_problem};
use crate::http::{ApiError, JsonResult};
use crate::requests::request_id;

/// A person's command about one memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryCommand {
    /// Id of the request: repeating it has no further effect.
    pub request: String,
    /// Name of the person.
    pub by: String,
    /// Reason for the command, stored in the change log.
    pub reason: String,
}

impl MemoryCommand {
    /// Creates a command. Fails if a text is empty or too long to be stored permanently.
    pub fn new(request: String, by: &str, reason: &str) -> Result<Self, AttributionError> {
        // Only the texts are checked: the writer's clock gives the time of the change.
        let Attribution { by, reason, .. } = Attribution::new(by, reason, Timestamp::UNIX_EPOCH)?;
        if !(1..=NAME_BYTES_MAX).contains(&request.len()) {
            let problem = format!("must have 1 to {NAME_BYTES_MAX} bytes");
            return Err(AttributionError { field: "request", problem });
        }
        Ok(Self { request, by, reason })
    }
}

/// Reason why a command about a memory was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryCommandError {
    /// The name matches no memory of the tenant, or several.
    #[error(transparent)]
    Unresolved(#[from] UnresolvedRef),
    /// The memory does not allow the command, for example because it is not held.
    #[error(transparent)]
    Refused(#[from] FoldError),
    /// The memory, the gate or the time does not allow the decision.
    #[error(transparent)]
    Undecided(#[from] MemoryDecisionError),
    /// A memory that a person wrote was not added.
    #[error(transparent)]
    NotAdded(#[from] AdditionError),
    /// A text of a memory is empty or too long.
    #[error(transparent)]
    TextLength(#[from] TextLengthError),
}

impl MemoryCommandError {
    /// Returns the reason in one sentence, as the end of "the memory cannot be … : …".
    pub fn problem(&self) -> String {
        match self {
            Self::Refused(why) => why.problem.clone(),
            other => other.to_string(),
        }
    }
}

/// Id of the memory that a command was about, and if the command took effect now or before.
pub type MemoryCommandOutcome = Result<(MemoryId, CommitResult), MemoryCommandError>;

/// Port for people's commands about one memory, which the writer carries out.
#[async_trait]
pub trait MemoryCommands: Send + Sync {
    /// Releases a memory from quarantine, so that agents are shown it as its status and weight allow.
    async fn release_memory(
        &self,
        tenant: &Tenant,
        name: MemoryRef,
        command: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError>;

    /// Retires a memory: it is deleted, and a tombstone blocks similar ones for a time.
    async fn retire_memory(
        &self,
        tenant: &Tenant,
        name: MemoryRef,
        command: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError>;

    /// Disables, enables, pins, unpins, restores or edits a memory.
    async fn decide_memory(
        &self,
        tenant: &Tenant,
        name: MemoryRef,
        decision: &MemoryDecision,
        command: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError>;

    /// Adds a memory in a person's words for a step of a workflow.
    async fn add_memory(
        &self,
        key: &WorkflowKey,
        step: &Step,
        wording: &LessonWording,
        command: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError>;
}

/// Returns the routes for commands about one memory, under `/v1`. Merge them with other routes and pass them to
/// [`retro_http::serve`].
pub fn router(commands: Arc<dyn MemoryCommands>) -> Api {
    routes().with_state(commands)
}

/// Returns the routes without their state, for the OpenAPI description.
pub(crate) fn routes() -> Api<Arc<dyn MemoryCommands>> {
    decisions::add_routes(Api::new().routes(routes!(release_memory)).routes(routes!(retire_memory)))
}

/// A command about one memory.
#[derive(Debug, Deserialize, ToSchema)]
struct MemoryCommandRequest {
    /// Reason for the command, stored in the change log.
    reason: String,
    /// Name of the operator. The name is not verified, because requests carry no credentials yet.
    by: Option<String>,
    /// Id of the request, which takes precedence over the `Idempotency-Key`.
    request: Option<String>,
}

/// Response to a command about one memory.
#[derive(Debug, Serialize, ToSchema)]
struct MemoryCommandResponse {
    /// Id of the memory.
    #[schema(value_type = String)]
    memory: MemoryId,
    /// Id of the request: as given, or derived from the content.
    request: String,
    /// Outcome: done now, or done before by the same request.
    status: ActionStatus,
}

/// Releases a memory or a rule from quarantine. It keeps its status, and agents are shown it as status and weight
/// allow. The gate does not hold it again.
#[utoipa::path(post, path = "/v1/memories/{id}/release", tag = "people", request_body = MemoryCommandRequest, params(("id" = String, Path, description = "the id, or eight or more of its first digits"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = MemoryCommandResponse)))]
async fn release_memory(
    State(commands): State<Arc<dyn MemoryCommands>>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<MemoryCommandRequest>,
) -> JsonResult<MemoryCommandResponse> {
    let command = build_command("release", name, &headers, request)?;
    let outcome = commands.release_memory(&tenant, name, &command).await?;
    command_response(name, "released", command, outcome)
}

/// Retires a memory or a rule: it is deleted, and a tombstone blocks similar ones for a time.
#[utoipa::path(post, path = "/v1/memories/{id}/retire", tag = "people", request_body = MemoryCommandRequest, params(("id" = String, Path, description = "the id, or eight or more of its first digits"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = MemoryCommandResponse)))]
async fn retire_memory(
    State(commands): State<Arc<dyn MemoryCommands>>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<MemoryCommandRequest>,
) -> JsonResult<MemoryCommandResponse> {
    let command = build_command("retire", name, &headers, request)?;
    let outcome = commands.retire_memory(&tenant, name, &command).await?;
    command_response(name, "retired", command, outcome)
}

fn build_command(
    verb: &str,
    name: MemoryRef,
    headers: &HeaderMap,
    request: MemoryCommandRequest,
) -> Result<MemoryCommand, ApiError> {
    let MemoryCommandRequest { reason, by, request } = request;
    let by = actor_name(by.as_deref());
    // The same for every spelling of an id. The ids of the changes also depend on the memory, so two memories that
    // begin alike stay apart.
    let short_name = name.id_range().0.short_id();
    let request = match request {
        Some(given) => given,
        None => request_id(headers, || json!([verb, short_name, by, reason]))?,
    };
    Ok(MemoryCommand::new(request, by, &reason)?)
}

fn command_response(
    name: MemoryRef,
    done: &str,
    command: MemoryCommand,
    outcome: MemoryCommandOutcome,
) -> JsonResult<MemoryCommandResponse> {
    let status =
        |status, memory| Ok(Json(MemoryCommandResponse { memory, request: command.request, status }));
    match outcome {
        Ok((id, CommitResult::Done)) => status(ActionStatus::Done, id),
        // The same request again succeeds, so that a retry after a lost response is not a conflict.
        Ok((id, CommitResult::AlreadyDone)) => status(ActionStatus::AlreadyDone, id),
        Ok((_, CommitResult::NotFound)) => Err(Problem::not_found("memory", name).into()),
        Err(problem) => Err(command_problem(done, problem)),
    }
}

fn command_problem(done: &str, problem: MemoryCommandError) -> ApiError {
    match problem {
        MemoryCommandError::Unresolved(why) => why.into(),
        MemoryCommandError::TextLength(TextLengthError { what, max })
        | MemoryCommandError::Undecided(MemoryDecisionError::TextLength(TextLengthError { what, max })) => {
            Problem::invalid_field(what, format!("must have 1 to {max} characters")).into()
        }
        other => conflict_problem(format!("the memory cannot be {done}: {}", other.problem())).into(),
    }
}

#[cfg(test)]
mod tests;
