//! Defines the HTTP routes by which people decide about memories: add, edit, pin, unpin, disable, enable, release,
//! retire and restore them. The implementation is injected, because only the writer may change memories.

mod decisions;
mod port;

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use retro_core::id::MemoryRef;
use retro_http::{Api, Caller, JsonBody, PathId, RouteAccess};
use utoipa_axum::routes;

pub use self::port::{MemoryCommand, MemoryCommandError, MemoryCommandOutcome, MemoryCommands};
use self::port::{MemoryCommandRequest, MemoryCommandResponse, build_command, command_response};
use crate::http::JsonResult;

/// Returns the routes for commands about one memory, under `/v1`. Merge them with other routes and pass them to
/// [`retro_http::HttpServer`].
pub fn router(commands: Arc<dyn MemoryCommands>) -> Api {
    routes().with_state(commands)
}

/// Returns the routes without their state, for the OpenAPI description.
pub(crate) fn routes() -> Api<Arc<dyn MemoryCommands>> {
    let api = Api::new().routes(routes!(release_memory)).routes(routes!(retire_memory));
    decisions::add_routes(api).allow(RouteAccess::People)
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

#[cfg(test)]
mod tests;
