//! A server of the same library as the program's, whose answers need no work: what HTTP alone costs.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use bytes::Bytes;
use serde::Deserialize;

use super::memories::Scopes;

/// Request for the context of a step, of which the map needs this much.
#[derive(Deserialize)]
struct ContextRequest {
    workflow: String,
    step: String,
}

/// Answers by tenant, workflow and step.
type Answers = Arc<HashMap<(String, String, String), Bytes>>;

/// Serves `/constant`, which reads nothing of the request, and `/map`, which parses it and looks its step up.
pub(crate) async fn run_constant_server(listen: &str, body: Bytes, scopes: &Scopes) -> Result<()> {
    let answers: Answers =
        Arc::new((0..scopes.number()).map(|nth| (scopes.name(nth), body.clone())).collect());
    let constant = move || std::future::ready(json_answer(body.clone()));
    let router = Router::new()
        .route("/constant", post(constant))
        .route("/map", post(look_up))
        .route("/readyz", get(|| async {}))
        .with_state(answers);
    axum::serve(tokio::net::TcpListener::bind(listen).await?, router).await?;
    Ok(())
}

async fn look_up(
    State(answers): State<Answers>,
    headers: HeaderMap,
    request: Bytes,
) -> axum::response::Response {
    let tenant = headers.get("retro-tenant").and_then(|tenant| tenant.to_str().ok()).unwrap_or("default");
    let Ok(request) = serde_json::from_slice::<ContextRequest>(&request) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    match answers.get(&(tenant.to_owned(), request.workflow, request.step)) {
        Some(answer) => json_answer(answer.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn json_answer(body: Bytes) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], body)
}
