//! Embedders for tests: a server that answers `/v1/embeddings`, and a directory of weights. Both see texts as the concepts
//! that a test names, so that sentences without a common word may say the same.

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

/// A concept, and the words that stand for it: the nth is the nth component of a vector.
pub type Concepts = &'static [&'static [&'static str]];

/// A server of one test, on a free port of loopback, gone with the test.
#[derive(Debug)]
pub struct Embeddings {
    url: String,
    inner: Arc<Inner>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Inner {
    concepts: Concepts,
    state: Mutex<Told>,
}

/// What a server was told and asked.
#[derive(Debug, Clone, Default)]
struct Told {
    refusals: Vec<u16>,
    is_away: bool,
    requests: u32,
    texts: Vec<String>,
    key: Option<String>,
}

impl Embeddings {
    /// A server that knows these concepts.
    pub async fn start(concepts: Concepts) -> Self {
        let inner = Arc::new(Inner { concepts, state: Mutex::default() });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
        let router = Router::new().route("/v1/embeddings", post(answer)).with_state(inner.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { url, inner, serving }
    }

    /// Its base address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Answers so many requests with these states first.
    pub fn refuse_first(&self, states: &[u16]) {
        self.inner.told().refusals = states.to_vec();
    }

    /// Answers everything with 503, or no longer.
    pub fn be_away(&self, is_away: bool) {
        self.inner.told().is_away = is_away;
    }

    /// How often it was asked, refusals included.
    pub fn requests(&self) -> u32 {
        self.inner.told().requests
    }

    /// Every text that it was asked for and gave a vector of, in order.
    pub fn texts(&self) -> Vec<String> {
        self.inner.told().texts.clone()
    }

    /// The last `authorization` that it saw.
    pub fn key(&self) -> Option<String> {
        self.inner.told().key.clone()
    }
}

impl Drop for Embeddings {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Inner {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.state.lock().expect("no test panics with it")
    }
}

async fn answer(State(inner): State<Arc<Inner>>, headers: HeaderMap, Json(asked): Json<Value>) -> Response {
    let mut told = inner.told();
    let key = headers.get(header::AUTHORIZATION).and_then(|key| key.to_str().ok());
    told.key = key.map(str::to_owned);
    told.requests += 1;
    if told.is_away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if !told.refusals.is_empty() {
        let state = told.refusals.remove(0);
        return StatusCode::from_u16(state).expect("a state of HTTP").into_response();
    }
    let texts: Vec<String> = serde_json::from_value(asked["input"].clone()).expect("texts");
    // The last first: an answer may come in any order.
    let rows = texts.iter().enumerate().rev().map(|(index, text)| {
        json!({"object": "embedding", "index": index, "embedding": seen(inner.concepts, text)})
    });
    let answer = json!({"object": "list", "model": asked["model"], "data": rows.collect::<Vec<_>>()});
    told.texts.extend(texts);
    Json(answer).into_response()
}

/// How often each concept is named.
fn seen(concepts: Concepts, text: &str) -> Vec<f64> {
    let text = text.to_lowercase();
    let named = |words: &[&str]| {
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| words.contains(word)).count()
    };
    concepts.iter().map(|words| named(words) as f64).collect()
}

/// Writes Model2Vec weights into a directory: each word of a concept is a token whose vector points to it, and any other is
/// nothing.
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
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.join(name), bytes).expect("it can be written");
    write("config.json", br#"{"normalize": true}"#);
    write("tokenizer.json", tokenizer.to_string().as_bytes());
    write("model.safetensors", &weights);
}
