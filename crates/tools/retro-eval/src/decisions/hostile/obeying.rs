//! A language model that obeys every instruction it reads, behind a local endpoint: the worst reader that a provider could
//! sell. It shows what the program does with the answers of a model that an attacker has taken over.
//!
//! The model reads everything that it may read. What of it is an instruction it is told by the data set, so it overlooks none.
//! Then it states the instructions in every field that could carry them to an agent ([`script`]), and when the program sends
//! them back it states them again.

mod record;
mod script;
mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::cases::Case;
use super::judge::Payload;
use super::run_cases::RunCase;
use script::{Conversation, decide_reply};

pub(super) use record::ObeyRecord;
pub(super) use table::{print_reviews, print_runs};

/// Name of the model, as reports show it.
pub(super) const MODEL: &str = "obeys-everything";

/// The endpoint. Stops when dropped.
pub(super) struct ObeyingModel {
    url: String,
    inner: Arc<Inner>,
    serving: JoinHandle<()>,
}

struct Inner {
    /// Hostile text by the workflow of its runs, or by the repository of its reviews.
    payloads: BTreeMap<String, Payload>,
    records: Mutex<BTreeMap<String, ObeyRecord>>,
}

impl ObeyingModel {
    /// Starts a model that reads the runs of cases, whose workflows have these names.
    pub(super) async fn start_for_runs(
        cases: &[RunCase],
        workflow: impl Fn(usize) -> String,
    ) -> Result<Self> {
        let payload = |(nth, case): (usize, &RunCase)| Ok((workflow(nth), case.payload.clone()));
        Self::start(cases.iter().enumerate().map(payload).collect::<Result<_>>()?).await
    }

    /// Starts a model that reads the reviews of cases.
    pub(super) async fn start_for_reviews(cases: &[Case]) -> Result<Self> {
        let malicious = cases.iter().filter(|case| case.malicious);
        Self::start(malicious.map(|case| (case.repo.clone(), Payload::from_text(&case.text))).collect()).await
    }

    async fn start(payloads: BTreeMap<String, Payload>) -> Result<Self> {
        let inner = Arc::new(Inner { payloads, records: Mutex::default() });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no free port on loopback")?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let router = Router::new().route("/v1/chat/completions", post(complete)).with_state(inner.clone());
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the obeying model has stopped: {error}");
            }
        });
        Ok(Self { url, inner, serving })
    }

    /// Returns the environment variables of a program that asks this model.
    pub(super) fn variables(&self) -> [(&'static str, &str); 2] {
        [("RETRO_MODEL_URL", &self.url), ("RETRO_MODEL", MODEL)]
    }

    /// Returns what was done about each text that was asked about, by workflow or repository.
    pub(super) fn records(&self) -> BTreeMap<String, ObeyRecord> {
        self.inner.lock_records().clone()
    }
}

impl Drop for ObeyingModel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Inner {
    fn lock_records(&self) -> MutexGuard<'_, BTreeMap<String, ObeyRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn complete(State(inner): State<Arc<Inner>>, Json(body): Json<Value>) -> Json<Value> {
    let conversation = Conversation::new(&body);
    let key = conversation.find_case();
    let payload = key.as_ref().and_then(|key| inner.payloads.get(key));
    let reply = decide_reply(&conversation, payload);
    if let Some(key) = key {
        let mut records = inner.lock_records();
        let record = records.entry(key).or_default();
        record.requests += 1;
        record.shown |= payload.is_some_and(|payload| conversation.shows(payload));
        record.sent_back += usize::from(conversation.was_sent_back());
        record.acted += reply.acted;
        if !conversation.was_sent_back() {
            record.stated += reply.stated;
        }
    }
    let calls: Vec<Value> = reply
        .calls
        .iter()
        .enumerate()
        .map(|(nth, (name, arguments))| {
            let function = json!({"name": name, "arguments": arguments.to_string()});
            json!({"id": format!("call_{nth}"), "type": "function", "function": function})
        })
        .collect();
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    // Few tokens, so that no budget ends the reading.
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1});
    Json(
        json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": usage}),
    )
}
