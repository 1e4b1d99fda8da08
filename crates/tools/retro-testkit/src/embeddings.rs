//! Provides embedders for tests: a server for `/v1/embeddings`, and a directory of Model2Vec weights. Both
//! map a text to the concepts that the test lists, so two sentences can be similar without sharing a word.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Lists of words, one per concept. The nth concept is the nth component of a vector.
pub type Concepts = &'static [&'static [&'static str]];

/// Embedding server for one test, on a free loopback port. Stops when dropped.
#[derive(Debug)]
pub struct EmbeddingServer {
    url: String,
    inner: Arc<Inner>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Inner {
    concepts: Concepts,
    state: Mutex<ServerState>,
}

/// Configured failures of a server, with the requests that it received.
#[derive(Debug, Clone, Default)]
struct ServerState {
    refusals: Vec<u16>,
    is_unavailable: bool,
    requests: u32,
    texts: Vec<String>,
    authorization: Option<String>,
}

impl EmbeddingServer {
    /// Starts a server that embeds texts by these concepts.
    pub async fn start(concepts: Concepts) -> Self {
        let inner = Arc::new(Inner { concepts, state: Mutex::default() });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("a bound listener has an address"));
        let router = Router::new().route("/v1/embeddings", post(handle_embeddings)).with_state(inner.clone());
        let serving =
            tokio::spawn(async move { axum::serve(listener, router).await.expect("loopback can be served") });
        Self { url, inner, serving }
    }

    /// Returns the base URL of the server, which ends in `/v1`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes the next requests fail with these HTTP statuses, one per request, in order.
    pub fn fail_first_requests(&self, states: &[u16]) {
        self.inner.lock_state().refusals = states.to_vec();
    }

    /// Sets whether the server responds to every request with 503.
    pub fn set_unavailable(&self, is_away: bool) {
        self.inner.lock_state().is_unavailable = is_away;
    }

    /// Returns the number of received requests, including failed ones.
    pub fn request_count(&self) -> u32 {
        self.inner.lock_state().requests
    }

    /// Returns every embedded text, in the order of the requests.
    pub fn embedded_texts(&self) -> Vec<String> {
        self.inner.lock_state().texts.clone()
    }

    /// Returns the `authorization` header of the last request, or `None` if it had none.
    pub fn last_authorization(&self) -> Option<String> {
        self.inner.lock_state().authorization.clone()
    }
}

impl Drop for EmbeddingServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Inner {
    fn lock_state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().expect("no thread panics while holding the lock")
    }
}

async fn handle_embeddings(
    State(inner): State<Arc<Inner>>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Response {
    let mut state_guard = inner.lock_state();
    let key = headers.get(header::AUTHORIZATION).and_then(|key| key.to_str().ok());
    state_guard.authorization = key.map(str::to_owned);
    state_guard.requests += 1;
    if state_guard.is_unavailable {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if !state_guard.refusals.is_empty() {
        let state = state_guard.refusals.remove(0);
        return StatusCode::from_u16(state).expect("a valid HTTP status").into_response();
    }
    let texts: Vec<String> =
        serde_json::from_value(request["input"].clone()).expect("`input` is a list of texts");
    // In reverse order, because a response may come in any order and clients must match vectors by `index`.
    let rows = texts.iter().enumerate().rev().map(|(index, text)| {
        json!({"object": "embedding", "index": index, "embedding": count_concepts(inner.concepts, text)})
    });
    let answer = json!({"object": "list", "model": request["model"], "data": rows.collect::<Vec<_>>()});
    state_guard.texts.extend(texts);
    Json(answer).into_response()
}

/// Returns the number of words of each concept in the text.
fn count_concepts(concepts: Concepts, text: &str) -> Vec<f64> {
    let text = text.to_lowercase();
    let named = |words: &[&str]| {
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| words.contains(word)).count()
    };
    concepts.iter().map(|words| named(words) as f64).collect()
}

/// Writes Model2Vec weights to a directory. Each word of a concept is a token, whose vector is the axis of
/// that concept. Any other token has the zero vector.
pub fn write_weights(dir: &Path, concepts: Concepts) {
    let words: Vec<(&str, usize)> = concepts
        .iter()
        .enumerate()
        .flat_map(|(nth, words)| words.iter().map(move |word| (*word, nth)))
        .collect();
    let unknown = [("[UNK]", None)];
    let tokens: Vec<(&str, Option<usize>)> =
        unknown.into_iter().chain(words.into_iter().map(|(word, nth)| (word, Some(nth)))).collect();
    let vocabulary: serde_json::Map<String, Value> =
        tokens.iter().enumerate().map(|(id, (word, _))| ((*word).to_owned(), json!(id))).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary},
    });
    let components = tokens.iter().flat_map(|(_, concept)| {
        (0..concepts.len()).map(move |nth| if *concept == Some(nth) { 1.0f32 } else { 0.0 })
    });
    let bytes: Vec<u8> = components.flat_map(f32::to_le_bytes).collect();
    let shape = json!({"embeddings": {"dtype": "F32", "shape": [tokens.len(), concepts.len()],
        "data_offsets": [0, bytes.len()]}})
    .to_string();
    let length = u64::try_from(shape.len()).expect("short").to_le_bytes();
    let weights = [&length[..], shape.as_bytes(), &bytes].concat();
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(dir.join(name), bytes).expect("the directory is writable");
    write("config.json", br#"{"normalize": true}"#);
    write("tokenizer.json", tokenizer.to_string().as_bytes());
    write("model.safetensors", &weights);
}
