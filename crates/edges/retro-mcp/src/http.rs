//! Mounts the protocol at `/mcp` (Streamable HTTP).

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use retro_gateway::{Gateway, LessonSaver};
use retro_http::{Api, BODY_BYTES_MAX, Caller, JsonBody, Problem, RouteAccess, media_type};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcError};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::value::RawValue;
use utoipa_axum::routes;

use crate::server::MemoryServer;

/// Path of the protocol.
pub const MCP_PATH: &str = "/mcp";

/// Maximum size of a refusal of the library, in bytes: one line.
const REFUSAL_BYTES_MAX: usize = 4 * 1024;

/// What the route needs.
#[derive(Clone)]
struct McpState {
    gateway: Gateway,
    saver: Option<Arc<dyn LessonSaver>>,
}

/// Returns the route of the protocol, for agents. Without a saver no lesson can be saved. The caller merges it with its
/// other routes.
pub fn build_router(gateway: Gateway, saver: Option<Arc<dyn LessonSaver>>) -> Api {
    routes().with_state(McpState { gateway, saver })
}

/// Returns the route of [`build_router`] without state, for generating the OpenAPI document.
pub fn describe_api() -> Api {
    routes().into_description()
}

fn routes() -> Api<McpState> {
    Api::new().routes(routes!(mcp)).allow(RouteAccess::Context)
}

/// Speaks the Model Context Protocol (Streamable HTTP).
///
/// The body is one JSON-RPC message of at most 64 KiB, in a version of the protocol up to 2026-07-28. No session is kept,
/// and no stream is opened.
#[utoipa::path(post, path = "/mcp", tag = "agents", request_body = serde_json::Value,
    responses(
        (status = 200, body = serde_json::Value, description = "the JSON-RPC response"),
        (status = 202, description = "a notification was accepted")))]
async fn mcp(
    State(McpState { gateway, saver }): State<McpState>,
    Caller(tenant): Caller,
    parts: Parts,
    JsonBody(message): JsonBody<Box<RawValue>>,
) -> Response {
    if let Err(problem) = serde_json::from_str::<ClientJsonRpcMessage>(message.get()) {
        return refuse_message(&problem);
    }
    let server = MemoryServer::new(gateway, tenant);
    let server = match saver {
        Some(saver) => server.with_saver(saver),
        None => server,
    };
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        build_config(),
    );
    let body = Full::new(Bytes::from(String::from(Box::<str>::from(message))));
    let response = service.handle(Request::from_parts(parts, body)).await.map(Body::new);
    describe_refusal(response).await
}

/// Returns the configuration without sessions: the server asks its clients nothing and tells them nothing unasked, so a
/// session would hold memory and add nothing. Hosts, pages of other sites and bodies have been checked before, by the
/// rules of every route, which know about tokens and proxies.
fn build_config() -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_BYTES_MAX)
        .disable_allowed_hosts()
        .disable_allowed_origins()
}

/// Refuses JSON that is not a message.
fn refuse_message(problem: &serde_json::Error) -> Response {
    let error = ErrorData::invalid_request(format!("the body is not one JSON-RPC message: {problem}"), None);
    let body = serde_json::to_string(&JsonRpcError::new(None, error)).expect("an error always serializes");
    (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Turns a plain-text refusal of the library into a problem. JSON-RPC errors stay what they are.
async fn describe_refusal(response: Response) -> Response {
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) || is_described(response.headers()) {
        return response;
    }
    let text = match Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await {
        Ok(text) => String::from_utf8_lossy(&text.to_bytes()).into_owned(),
        Err(_) => "the request was refused".to_owned(),
    };
    Problem::new(status, "the request is not one of the Model Context Protocol", text).into_response()
}

fn is_described(headers: &HeaderMap) -> bool {
    media_type(headers) == "application/json"
}

#[cfg(test)]
mod tests;
