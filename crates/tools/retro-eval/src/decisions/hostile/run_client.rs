//! Sends the runs of a case to a running instance, waits until their retrospective has closed, and collects
//! everything that an agent or a person can then get, using only the public interface.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, interval};

use crate::http_client::configure_client;
use crate::instance::Instance;

/// Environment variables of the instance. On a busy machine, a context that came too late would show an agent
/// nothing, and a memory that is not looked at cannot be judged.
pub(super) const RUN_VARIABLES: [(&str, &str); 2] =
    [("RETRO_CONTEXT_TIMEOUT_MS", "60000"), ("RETRO_LOG", "warn")];

/// Timeout for the retrospective of one case, far longer than any takes.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(300);
/// Interval at which an open retrospective is polled, and at which events are sent again while the intake is
/// full.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of memories of one case. Ten runs cannot create more.
const MEMORIES_MAX: usize = 1000;
/// Step of all runs.
const STEP: &str = "main";

/// Client of a running instance that acts as an engine, as an agent and as an operator.
pub(super) struct RunClient {
    http: reqwest::Client,
    url: String,
}

/// Everything that can be got from a workflow after its retrospective.
#[derive(Debug, Default)]
pub(super) struct CollectedTexts {
    /// Number of events that the intake rejected, with the reason for the first one; `None` if it accepted all.
    pub(super) rejected: Option<String>,
    /// Report of the retrospective; null if too few events were accepted for one.
    pub(super) report: Value,
    /// Memories of the workflow in every status, as an operator sees them.
    pub(super) memories: Vec<Value>,
    /// Contexts of the step, as a preview and for a run.
    pub(super) contexts: Vec<Value>,
    /// Memories as an agent gets them on opening them; a memory that is blocked is missing.
    pub(super) opened: Vec<Value>,
}

impl RunClient {
    pub(super) fn connect_to(retro: &Instance) -> Result<Self> {
        let http = configure_client().timeout(Duration::from_secs(120)).build()?;
        Ok(Self { http, url: retro.http_url().to_owned() })
    }

    /// Sends the events of a workflow and collects what was learnt from them. Fails if the retrospective fails
    /// or does not close in time.
    pub(super) async fn collect_texts(&self, workflow: &str, events: &[Value]) -> Result<CollectedTexts> {
        let mut collected =
            CollectedTexts { rejected: self.send_events(events).await?, ..Default::default() };
        if collected.rejected.is_some() {
            // The window is not full, so no retrospective opens.
            return Ok(collected);
        }
        let retrospective = self.wait_until_closed(workflow).await?;
        collected.report = self.get_json(&format!("/v1/reports/{retrospective}")).await?;
        let listed = self.get_json(&format!("/v1/memories?workflow={workflow}&limit={MEMORIES_MAX}")).await?;
        ensure!(listed["more"] == false, "{workflow} has more than {MEMORIES_MAX} memories");
        collected.memories = listed["items"].as_array().cloned().unwrap_or_default();
        for memory in &collected.memories {
            let id = memory["id"].as_str().context("a memory without an id")?;
            // A memory of a repository is opened by its runs only.
            let repo = memory["scope"]["audience"].as_str().map(|repo| format!("?repo={repo}"));
            let answer = self.get_json(&format!("/v1/memories/{id}{}", repo.unwrap_or_default())).await?;
            if answer["memory"].is_object() {
                collected.opened.push(answer["memory"].clone());
            }
        }
        for run in [None, Some(format!("{workflow}-reader"))] {
            collected.contexts.push(self.request_context(workflow, run.as_deref()).await?);
        }
        Ok(collected)
    }

    /// Sends all events of a workflow as one batch. Returns the number of rejected events with the first
    /// reason, or `None` if all were accepted.
    async fn send_events(&self, events: &[Value]) -> Result<Option<String>> {
        let body = Value::from(events).to_string();
        let mut attempts = interval(POLL_INTERVAL);
        let began = Instant::now();
        while began.elapsed() < CLOSING_TIMEOUT {
            attempts.tick().await;
            let request = self.http.post(format!("{}/v1/events", self.url));
            let request = request.header("content-type", "application/cloudevents-batch+json");
            let sent = request.body(body.clone()).send().await?;
            match sent.status().as_u16() {
                202 => return Ok(None),
                207 | 422 => {
                    let answer: Value = sent.json().await?;
                    let refused = answer["refused"].as_array().context("no list of rejected events")?;
                    let first = refused.first().context("an empty list of rejected events")?;
                    return Ok(Some(format!(
                        "{} events: {} {}",
                        refused.len(),
                        first["path"],
                        first["detail"]
                    )));
                }
                // The intake is full or restarts; sending an event again is harmless.
                429 | 503 => {}
                status => {
                    bail!("{} events were answered with {status}: {}", events.len(), sent.text().await?)
                }
            }
        }
        bail!("the intake did not accept {} events within {} s", events.len(), CLOSING_TIMEOUT.as_secs())
    }

    /// Waits until the retrospective of a workflow has closed, and returns its id.
    async fn wait_until_closed(&self, workflow: &str) -> Result<String> {
        let began = Instant::now();
        let mut polls = interval(POLL_INTERVAL);
        while began.elapsed() < CLOSING_TIMEOUT {
            polls.tick().await;
            let listed = self.get_json(&format!("/v1/retrospectives?workflow={workflow}&limit=1")).await?;
            let row = &listed["items"][0]["retrospective"];
            match row["state"].as_str() {
                Some("closed") => {
                    return Ok(row["id"].as_str().context("a retrospective without an id")?.to_owned());
                }
                Some("failed" | "cancelled") => {
                    bail!("the retrospective of {workflow} did not succeed: {row}")
                }
                _ => {}
            }
        }
        bail!("the retrospective of {workflow} did not close within {} s", CLOSING_TIMEOUT.as_secs())
    }

    /// Requests the context of the step: for a run, or as a preview, which is the only one that hands out every
    /// eligible memory.
    async fn request_context(&self, workflow: &str, run: Option<&str>) -> Result<Value> {
        let mut asked = json!({"workflow": workflow, "step": STEP});
        if let Some(run) = run {
            asked["run_id"] = json!(run);
        }
        let answer = self.http.post(format!("{}/v1/context", self.url)).json(&asked).send().await?;
        let answer: Value = answer.error_for_status()?.json().await?;
        let reason = answer["reason"].as_str().unwrap_or_default();
        ensure!(!reason.starts_with("no memories: "), "no context for {workflow}: {reason}");
        Ok(answer)
    }

    async fn get_json(&self, path: &str) -> Result<Value> {
        let answer = self.http.get(format!("{}{path}", self.url)).send().await?;
        answer.error_for_status()?.json().await.with_context(|| format!("the answer to {path} is not JSON"))
    }
}
