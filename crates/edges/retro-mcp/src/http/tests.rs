use axum::Router;
use axum::body::to_bytes;
use retro_core::policy::Policy;
use retro_store_sql::SqliteStore;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

use super::*;

const BOTH: &str = "application/json, text/event-stream";

/// Returns the routes over a database that does not exist.
fn app(folder: &TempDir) -> Router {
    let store = SqliteStore::open_lazily(&folder.path().join("retro.db"));
    let gateway = Gateway::new(Arc::new(store.for_agents()), Arc::new(Policy::default()));
    retro_http::finish_router(build_router(gateway, None))
}

async fn post(app: &Router, accept: &str, body: &Value) -> (u16, String, Value) {
    let request = Request::post(MCP_PATH)
        .header(header::HOST, "localhost")
        .header(header::ACCEPT, accept)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()));
    let response = app.clone().oneshot(request.unwrap()).await.unwrap();
    let (status, form) = (response.status().as_u16(), media_type(response.headers()));
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, form, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn list_memories() -> Value {
    let params = json!({"name": "memory_list", "arguments": {"workflow": "w"}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

#[tokio::test]
async fn without_a_database_a_tool_answers_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let (status, _, answer) = post(&app(&folder), BOTH, &list_memories()).await;
    let result = &answer["result"];
    assert_eq!((status, &result["isError"]), (200, &json!(false)), "{answer}");
    assert!(result["content"][0]["text"].as_str().unwrap().starts_with("no memories: "), "{answer}");
    assert_eq!(result["structuredContent"]["memories"], json!([]), "{answer}");
}

#[tokio::test]
async fn what_is_no_message_is_refused_in_a_form_that_programs_read() {
    let folder = TempDir::new().unwrap();
    let app = app(&folder);
    let (status, form, problem) = post(&app, "application/json", &list_memories()).await;
    assert_eq!((status, form.as_str()), (406, "application/problem+json"), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("text/event-stream"), "{problem}");
    for batch in [json!([]), json!([list_memories()]), json!({"id": 1}), json!(7)] {
        let (status, form, answer) = post(&app, BOTH, &batch).await;
        assert_eq!((status, form.as_str()), (400, "application/json"), "{batch}: {answer}");
        assert_eq!(answer["error"]["code"], -32600, "{batch}: {answer}");
    }
}

#[tokio::test]
async fn a_request_leaves_no_task_behind() {
    const REQUESTS: usize = 200;
    /// How often the test lets other tasks run before it gives up.
    const TURNS_MAX: usize = 10_000;
    let folder = TempDir::new().unwrap();
    let app = app(&folder);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let unknown = json!({"jsonrpc": "2.0", "id": 1, "method": "no/such"});
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    for _ in 0..REQUESTS {
        for message in [&initialize, &list, &unknown] {
            assert_eq!(post(&app, BOTH, message).await.0, 200, "{message}");
        }
    }
    for _ in 0..TURNS_MAX {
        if metrics.num_alive_tasks() <= before {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} tasks are left of {REQUESTS} requests", metrics.num_alive_tasks() - before);
}
