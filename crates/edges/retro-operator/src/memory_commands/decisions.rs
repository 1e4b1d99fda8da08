//! Defines the routes by which people add, edit, switch and restore memories.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use retro_core::audience::Audience;
use retro_core::id::{MemoryRef, Repository, Step, Tenant, Workflow, WorkflowKey};
use retro_core::learn::{LessonWording, MemoryDecision};
use retro_core::memory::MemoryScope;
use retro_http::{Api, Caller, JsonBody, PathId};
use retro_store::CommitResult;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::port::{
    MemoryCommand, MemoryCommandRequest, MemoryCommandResponse, MemoryCommands, build_command,
    command_problem, command_response,
};
use crate::command::{ActionStatus, actor_name};
use crate::http::JsonResult;
use crate::requests::request_id;

/// Adds the routes, without their state.
pub(super) fn add_routes(api: Api<Arc<dyn MemoryCommands>>) -> Api<Arc<dyn MemoryCommands>> {
    api.routes(routes!(add_memory))
        .routes(routes!(edit_memory))
        .routes(routes!(edit_rule))
        .routes(routes!(disable_memory))
        .routes(routes!(enable_memory))
        .routes(routes!(pin_memory))
        .routes(routes!(unpin_memory))
        .routes(routes!(restore_memory))
}

/// A memory in a person's words.
#[derive(Debug, Deserialize, ToSchema)]
struct AddMemoryRequest {
    /// Workflow that the memory is for. It may have had no run.
    #[schema(value_type = String)]
    workflow: Workflow,
    /// Step that the memory is for.
    #[serde(default = "Step::main")]
    #[schema(value_type = Option<String>)]
    step: Step,
    /// Repository whose runs are handed the memory [default: those of every repository and of none].
    #[schema(value_type = Option<String>)]
    repo: Option<Repository>,
    /// The lesson in one sentence, which agents are handed.
    title: String,
    /// Details that an agent gets when it opens the memory [default: the title].
    content: Option<String>,
    /// Reason for the memory, stored in the change log.
    reason: String,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    by: Option<String>,
    /// Id of the request, which takes precedence over the `Idempotency-Key`.
    request: Option<String>,
}

/// New words for a memory.
#[derive(Debug, Deserialize, ToSchema)]
struct EditMemoryRequest {
    /// The lesson in one sentence [default: as it is].
    title: Option<String>,
    /// Details that an agent gets when it opens the memory [default: as they are].
    content: Option<String>,
    /// Reason for the edit, stored in the change log.
    reason: String,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    by: Option<String>,
    /// Id of the request, which takes precedence over the `Idempotency-Key`.
    request: Option<String>,
}

/// Adds a memory in a person's words, active at the starting weight. The gate judges it as any other text. The same
/// words twice are one memory. Fails with 409 if a memory says so in other words, or if a similar one was deleted a
/// short time ago.
#[utoipa::path(post, path = "/v1/memories", tag = "people", request_body = AddMemoryRequest, params(("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = MemoryCommandResponse)))]
async fn add_memory(
    State(commands): State<Arc<dyn MemoryCommands>>,
    Caller(tenant): Caller,
    headers: HeaderMap,
    JsonBody(body): JsonBody<AddMemoryRequest>,
) -> JsonResult<MemoryCommandResponse> {
    let AddMemoryRequest { workflow, step, repo, title, content, reason, by, request } = body;
    let by = actor_name(by.as_deref());
    let request = match request {
        Some(given) => given,
        None => request_id(&headers, || match &repo {
            None => json!(["add", workflow, step, title, content, by, reason]),
            Some(repo) => json!(["add", workflow, step, repo, title, content, by, reason]),
        })?,
    };
    let command = MemoryCommand::new(request, by, &reason)?;
    let wording = LessonWording { title: Some(title), content };
    let audience = repo.map_or(Audience::Everyone, Audience::Repository);
    let scope = MemoryScope::Step { workflow: workflow.clone(), step, audience };
    let key = WorkflowKey { tenant, workflow };
    match commands.add_memory(&key, &scope, &wording, &command).await? {
        Ok((memory, result)) => {
            let status =
                if result == CommitResult::Done { ActionStatus::Done } else { ActionStatus::AlreadyDone };
            Ok(Json(MemoryCommandResponse { memory, request: command.request, status }))
        }
        Err(problem) => Err(command_problem("added", problem)),
    }
}

/// Words a memory or a rule anew. It keeps its weight, evidence and history, and the gate judges the new words. No
/// retrospective words it anew after that.
#[utoipa::path(post, path = "/v1/memories/{id}/edit", tag = "people", request_body = EditMemoryRequest, params(("id" = String, Path, description = "the id, or eight or more of its first digits"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = MemoryCommandResponse)))]
async fn edit_memory(
    State(commands): State<Arc<dyn MemoryCommands>>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<EditMemoryRequest>,
) -> JsonResult<MemoryCommandResponse> {
    edit(&*commands, &tenant, name, &headers, body).await
}

/// Words a rule anew, like `/v1/memories/{id}/edit`.
#[utoipa::path(post, path = "/v1/rules/{id}/edit", tag = "people", request_body = EditMemoryRequest, params(("id" = String, Path, description = "the id, or eight or more of its first digits"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = MemoryCommandResponse)))]
async fn edit_rule(
    State(commands): State<Arc<dyn MemoryCommands>>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<EditMemoryRequest>,
) -> JsonResult<MemoryCommandResponse> {
    edit(&*commands, &tenant, name, &headers, body).await
}

async fn edit(
    commands: &dyn MemoryCommands,
    tenant: &Tenant,
    name: MemoryRef,
    headers: &HeaderMap,
    body: EditMemoryRequest,
) -> JsonResult<MemoryCommandResponse> {
    let EditMemoryRequest { title, content, reason, by, request } = body;
    let request = match request {
        Some(given) => given,
        None => {
            let short_name = name.id_range().0.short_id();
            request_id(headers, || json!(["edit", short_name, title, content, by, reason]))?
        }
    };
    let request = MemoryCommandRequest { reason, by, request: Some(request) };
    let command = build_command("edit", name, headers, request)?;
    let decision = MemoryDecision::Revise(LessonWording { title, content });
    let outcome = commands.decide_memory(tenant, name, &decision, &command).await?;
    command_response(name, "edited", command, outcome)
}

/// Disables a memory or a rule: no agent is handed it, it keeps its weight and evidence, and it does not fade.
#[utoipa::path(post, path = "/v1/memories/{id}/disable", tag = "people", request_body = MemoryCommandRequest, params(("id" = String, Path, description = "the id, or eight or more of its first digits"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = MemoryCommandResponse)))]
async fn disable_memory(
    State(commands): State<Arc<dyn MemoryCommands>>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<MemoryCommandRequest>,
) -> JsonResult<MemoryCommandResponse> {
    let command = build_command("disable", name, &headers, request)?;
    let outcome = commands.decide_memory(&tenant, name, &MemoryDecision::Disable, &command).await?;
    command_response(name, "disabled", command, outcome)
}

/// Enables a disabled memory or rule: agents are handed it again, as its status and weight allow.
#[utoipa::path(post, path = "/v1/memories/{id}/enable", tag = "people", request_body = MemoryCommandRequest, params(("id" = String, Path, description = "the id, or eight or more of its first digits"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = MemoryCommandResponse)))]
async fn enable_memory(
    State(commands): State<Arc<dyn MemoryCommands>>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<MemoryCommandRequest>,
) -> JsonResult<MemoryCommandResponse> {
    let command = build_command("enable", name, &headers, request)?;
    let outcome = commands.decide_memory(&tenant, name, &MemoryDecision::Enable, &command).await?;
    command_response(name, "enabled", command, outcome)
}

/// Pins a memory or a rule: it loses weight only by harm and contradiction.
#[utoipa::path(post, path = "/v1/memories/{id}/pin", tag = "people", request_body = MemoryCommandRequest, params(("id" = String, Path, description = "the id, or eight or more of its first digits"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = MemoryCommandResponse)))]
async fn pin_memory(
    State(commands): State<Arc<dyn MemoryCommands>>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<MemoryCommandRequest>,
) -> JsonResult<MemoryCommandResponse> {
    let command = build_command("pin", name, &headers, request)?;
    let outcome = commands.decide_memory(&tenant, name, &MemoryDecision::Pin, &command).await?;
    command_response(name, "pinned", command, outcome)
}

/// Removes the pin of a memory or a rule, so that it fades as any other.
#[utoipa::path(post, path = "/v1/memories/{id}/unpin", tag = "people", request_body = MemoryCommandRequest, params(("id" = String, Path, description = "the id, or eight or more of its first digits"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = MemoryCommandResponse)))]
async fn unpin_memory(
    State(commands): State<Arc<dyn MemoryCommands>>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<MemoryCommandRequest>,
) -> JsonResult<MemoryCommandResponse> {
    let command = build_command("unpin", name, &headers, request)?;
    let outcome = commands.decide_memory(&tenant, name, &MemoryDecision::Unpin, &command).await?;
    command_response(name, "unpinned", command, outcome)
}

/// Takes back the deletion of a memory or a rule within the time of its tombstone, which is lifted. The memory has
/// its status, weight and history from before.
#[utoipa::path(post, path = "/v1/memories/{id}/restore", tag = "people", request_body = MemoryCommandRequest, params(("id" = String, Path, description = "the id, or eight or more of its first digits"), ("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = MemoryCommandResponse)))]
async fn restore_memory(
    State(commands): State<Arc<dyn MemoryCommands>>,
    Caller(tenant): Caller,
    PathId(name): PathId<MemoryRef>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<MemoryCommandRequest>,
) -> JsonResult<MemoryCommandResponse> {
    let command = build_command("restore", name, &headers, request)?;
    let outcome = commands.decide_memory(&tenant, name, &MemoryDecision::Restore, &command).await?;
    command_response(name, "restored", command, outcome)
}
