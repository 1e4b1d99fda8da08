//! A language model's endpoint for tests, in both protocols, which plays a script and keeps what it was asked.

use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Answer of the endpoint to one request.
#[derive(Debug, Clone)]
pub enum ModelReply {
    /// The model calls this tool with these arguments.
    Tool {
        /// Name of the tool.
        name: String,
        /// Arguments of the call, an object.
        arguments: Value,
    },
    /// The model writes this text.
    Text(String),
    /// The model refuses.
    Refusal,
    /// The endpoint answers with this HTTP status, and a `retry-after` in seconds if there is one.
    Status(u16, Option<String>),
    /// The endpoint answers 200 with this body, whatever it is.
    Raw(String),
    /// The endpoint closes the connection in the middle of its answer.
    CutOff,
    /// The endpoint never answers.
    Silence,
}

impl ModelReply {
    /// Creates a call of a tool.
    pub fn tool(name: &str, arguments: Value) -> Self {
        Self::Tool { name: name.to_owned(), arguments }
    }
}

/// Decides the reply to a request. The number is the 0-based number of the request.
type Script = Box<dyn Fn(usize, &Value) -> ModelReply + Send + Sync>;

/// Endpoint of a model for one test, on a free loopback port. Stops when dropped.
pub struct ModelEndpoint {
    url: String,
    inner: Arc<Inner>,
    serving: JoinHandle<()>,
}

struct Inner {
    script: Script,
    received: Mutex<Vec<ReceivedPrompt>>,
}

/// A request as it was received.
#[derive(Debug, Clone)]
pub struct ReceivedPrompt {
    /// Body of the request.
    pub body: Value,
    /// Key that the request showed, in either protocol's header; `None` if it had none.
    pub key: Option<String>,
}

/// Tokens that each reply claims: the prompt, the part of it that was cached, and the answer.
pub const REPLY_TOKENS: (u64, u64, u64) = (1000, 600, 50);

impl ModelEndpoint {
    /// Starts an endpoint that replies by a script.
    pub async fn start(script: impl Fn(usize, &Value) -> ModelReply + Send + Sync + 'static) -> Self {
        let inner = Arc::new(Inner { script: Box::new(script), received: Mutex::default() });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("a bound listener has an address"));
        let router = Router::new()
            .route("/v1/chat/completions", post(handle_openai))
            .route("/v1/messages", post(handle_anthropic))
            .with_state(inner.clone());
        let serving =
            tokio::spawn(async move { axum::serve(listener, router).await.expect("loopback can be served") });
        Self { url, inner, serving }
    }

    /// Returns the base URL, which ends in `/v1`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the number of requests that were received.
    pub fn request_count(&self) -> usize {
        self.inner.lock_received().len()
    }

    /// Returns the requests that were received, in order.
    pub fn received(&self) -> Vec<ReceivedPrompt> {
        self.inner.lock_received().clone()
    }
}

impl Drop for ModelEndpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Inner {
    fn lock_received(&self) -> MutexGuard<'_, Vec<ReceivedPrompt>> {
        self.received.lock().expect("no thread panics while holding the lock")
    }

    fn reply_to(&self, headers: &HeaderMap, body: &Value) -> ModelReply {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let bearer = text("authorization").and_then(|key| key.strip_prefix("Bearer ").map(str::to_owned));
        let number = {
            let mut received = self.lock_received();
            received.push(ReceivedPrompt { body: body.clone(), key: bearer.or_else(|| text("x-api-key")) });
            received.len() - 1
        };
        (self.script)(number, body)
    }
}

async fn handle_openai(
    State(inner): State<Arc<Inner>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let reply = inner.reply_to(&headers, &body);
    let (prompt, cached, answer) = REPLY_TOKENS;
    let usage = json!({
        "prompt_tokens": prompt, "completion_tokens": answer, "prompt_tokens_details": {"cached_tokens": cached}
    });
    let completion = |message: Value, finish: &str| json!({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage});
    let body = match reply {
        ModelReply::Tool { name, arguments } => {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            let call = json!({"id": "call_1", "type": "function", "function": function});
            completion(json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
        }
        ModelReply::Text(text) => completion(json!({"role": "assistant", "content": text}), "stop"),
        ModelReply::Refusal => {
            completion(json!({"role": "assistant", "refusal": "I cannot help with that."}), "stop")
        }
        other => return reply_without_answer(other).await,
    };
    Json(body).into_response()
}

async fn handle_anthropic(
    State(inner): State<Arc<Inner>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let reply = inner.reply_to(&headers, &body);
    let (prompt, cached, answer) = REPLY_TOKENS;
    let usage = json!({
        "input_tokens": prompt - cached, "cache_read_input_tokens": cached, "output_tokens": answer
    });
    let message =
        |content: Value, stop: &str| json!({"content": content, "stop_reason": stop, "usage": usage});
    let body = match reply {
        ModelReply::Tool { name, arguments } => message(
            json!([{"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}]),
            "tool_use",
        ),
        ModelReply::Text(text) => message(json!([{"type": "text", "text": text}]), "end_turn"),
        ModelReply::Refusal => message(json!([]), "refusal"),
        other => return reply_without_answer(other).await,
    };
    Json(body).into_response()
}

async fn reply_without_answer(reply: ModelReply) -> Response {
    match reply {
        ModelReply::Status(status, retry_after) => {
            let status = StatusCode::from_u16(status).expect("a valid HTTP status");
            match retry_after {
                Some(wait) => (status, [(header::RETRY_AFTER, wait)]).into_response(),
                None => status.into_response(),
            }
        }
        ModelReply::Raw(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        // A length that the body does not have: the client sees the connection end too early.
        ModelReply::CutOff => ([(header::CONTENT_LENGTH, "1000")], "{\"choices\": [").into_response(),
        _ => std::future::pending().await,
    }
}
