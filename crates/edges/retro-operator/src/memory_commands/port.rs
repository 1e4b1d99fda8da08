//! The port for people's commands about memories, and the requests and responses of its routes.

use async_trait::async_trait;
use axum::Json;
use axum::http::HeaderMap;
use jiff::Timestamp;
use retro_core::attribution::{Attribution, AttributionError};
use retro_core::id::{MemoryId, MemoryRef, NAME_BYTES_MAX, Tenant, WorkflowKey};
use retro_core::learn::{AdditionError, LessonWording, MemoryDecision, MemoryDecisionError, TextLengthError};
use retro_core::memory::{FoldError, MemoryScope};
use retro_http::Problem;
use retro_store::{CommitResult, StoreError, UnresolvedRef};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

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
        scope: &MemoryScope,
        wording: &LessonWording,
        command: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError>;
}

/// A command about one memory.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct MemoryCommandRequest {
    /// Reason for the command, stored in the change log.
    pub(super) reason: String,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    pub(super) by: Option<String>,
    /// Id of the request, which takes precedence over the `Idempotency-Key`.
    pub(super) request: Option<String>,
}

/// Response to a command about one memory.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemoryCommandResponse {
    /// Id of the memory.
    #[schema(value_type = String)]
    pub(super) memory: MemoryId,
    /// Id of the request: as given, or derived from the content.
    pub(super) request: String,
    /// Outcome: done now, or done before by the same request.
    pub(super) status: ActionStatus,
}

pub(super) fn build_command(
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

pub(super) fn command_response(
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

pub(super) fn command_problem(done: &str, problem: MemoryCommandError) -> ApiError {
    match problem {
        MemoryCommandError::Unresolved(why) => why.into(),
        MemoryCommandError::TextLength(TextLengthError { what, max })
        | MemoryCommandError::Undecided(MemoryDecisionError::TextLength(TextLengthError { what, max })) => {
            Problem::invalid_field(what, format!("must have 1 to {max} characters")).into()
        }
        other => conflict_problem(format!("the memory cannot be {done}: {}", other.problem())).into(),
    }
}
