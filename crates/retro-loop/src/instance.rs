//! A running `retro`, and its public interface: events in, context out, lists and reports.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

/// How long anything may take before it is called stuck: a busy machine is slow, and nothing here takes a minute.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the start is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What an agent waits for its context, in milliseconds: long enough that no busy machine changes what a run was handed.
const ANSWER_MS: &str = "60000";
/// Memories asked for in one list; a world that makes more is told so.
const LIST_MAX: usize = 1000;
/// How many retrospectives a list may hold that a manual one is looked for in.
const RETROSPECTIVES_MAX: usize = 20;

/// Where the time went, in microseconds of waiting, summed over everything that went on side by side.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    pub(crate) context: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) lists: AtomicU64,
}

/// A `retro up` of our own, in a folder that vanishes with it.
pub(crate) struct Instance {
    process: Child,
    folder: tempfile::TempDir,
    http: reqwest::Client,
    url: String,
    pub(crate) spent: Spent,
}

/// A retrospective that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) id: String,
}

impl Instance {
    /// Starts `binary` under a policy file's text, with so many investigators, its data in a new folder of `parent`.
    ///
    /// Fails with the end of its log when it does not come up.
    pub(crate) async fn start(
        binary: &Path,
        parent: &Path,
        policy: &str,
        investigators: u32,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("retro-loop-").tempdir_in(parent)?;
        let pipelines = folder.path().join("pipelines");
        std::fs::create_dir_all(pipelines.join("retrospective"))?;
        std::fs::write(pipelines.join("retrospective/pipeline.toml"), policy)?;
        let log = std::fs::File::create(folder.path().join("retro.log"))?;
        let process = Command::new(binary)
            .args(["up", "--http-listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.path().join("data"))
            .env("RETRO_PIPELINES", &pipelines)
            .env("RETRO_INVESTIGATORS", investigators.to_string())
            .env("RETRO_ANSWER_MS", ANSWER_MS)
            .env("RETRO_LOG", "warn")
            .env_remove("NATS_URL")
            .env_remove("DATABASE_URL")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", binary.display()))?;
        let http = reqwest::Client::builder().timeout(PATIENCE).build()?;
        let mut instance = Self { process, folder, http, url: String::new(), spent: Spent::default() };
        instance.url = instance.address().await?;
        Ok(instance)
    }

    async fn address(&mut self) -> Result<String> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.process.try_wait()? {
                bail!("`retro up` ended with {status}:\n{}", self.log());
            }
            let text =
                std::fs::read_to_string(self.folder.path().join("data/instance.json")).unwrap_or_default();
            let recorded = serde_json::from_str::<Value>(&text).unwrap_or_default();
            if let Some(url) = recorded["http_url"].as_str() {
                return Ok(url.to_owned());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        bail!("`retro up` did not start within {} s:\n{}", PATIENCE.as_secs(), self.log())
    }

    /// The end of its log.
    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("retro.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// What a run's step is handed.
    pub(crate) async fn context(&self, tenant: &str, workflow: &str, step: &str, run: &str) -> Result<Value> {
        let began = Instant::now();
        let asked = json!({"workflow": workflow, "step": step, "run_id": run});
        let answer = self.post(tenant, "/v1/context", &[], asked.to_string()).await?;
        // A run that was handed nothing because the program was slow would be another run the next time.
        let reason = answer["reason"].as_str().unwrap_or_default();
        let slow = reason.starts_with("no memories: ") || answer["recorded"] == "unknown";
        ensure!(!slow, "no context for {workflow} {step}: {reason}");
        add(&self.spent.context, began);
        Ok(answer)
    }

    /// Sends a window's runs as one batch.
    pub(crate) async fn events(&self, tenant: &str, events: &[Value]) -> Result<()> {
        let began = Instant::now();
        let form = [("content-type", "application/cloudevents-batch+json")];
        let answer = self.post(tenant, "/v1/events", &form, Value::from(events).to_string()).await?;
        ensure!(answer["accepted"] == events.len(), "not every event was accepted: {answer}");
        add(&self.spent.events, began);
        Ok(())
    }

    /// Waits until a retrospective of a workflow has closed: its number, or for a manual one its id.
    pub(crate) async fn closed(
        &self,
        tenant: &str,
        workflow: &str,
        which: &Which,
        pause: Duration,
    ) -> Result<Ended> {
        let began = Instant::now();
        let limit = if matches!(which, Which::Epoch(_)) { 1 } else { RETROSPECTIVES_MAX };
        let path = format!("/v1/retrospectives?workflow={workflow}&limit={limit}");
        let mut looks = tokio::time::interval(pause);
        while began.elapsed() < PATIENCE {
            looks.tick().await;
            let listed = self.get(tenant, &path).await?;
            let rows = listed["items"].as_array().into_iter().flatten().map(|row| &row["retrospective"]);
            let found = rows.into_iter().find(|row| match which {
                Which::Epoch(epoch) => row["epoch"].as_u64() == Some(u64::from(*epoch)),
                Which::Id(id) => row["id"] == id.as_str(),
            });
            let Some(row) = found else { continue };
            match row["state"].as_str() {
                Some("closed") => {
                    add(&self.spent.waiting, began);
                    return Ok(Ended { id: text(&row["id"]) });
                }
                Some("failed" | "cancelled") => {
                    bail!("a retrospective of {tenant} {workflow} did not succeed: {row}")
                }
                _ => {}
            }
        }
        bail!(
            "{which:?} of {tenant} {workflow} did not close within {} s:\n{}",
            PATIENCE.as_secs(),
            self.log()
        )
    }

    /// Every memory of a workflow, of any status.
    pub(crate) async fn memories(&self, tenant: &str, workflow: &str) -> Result<Vec<Value>> {
        let began = Instant::now();
        let listed = self.get(tenant, &format!("/v1/memories?workflow={workflow}&limit={LIST_MAX}")).await?;
        ensure!(
            listed["more"] == false,
            "{tenant} {workflow} has more than {LIST_MAX} memories: too noisy a world"
        );
        add(&self.spent.lists, began);
        Ok(listed["items"].as_array().cloned().unwrap_or_default())
    }

    /// A retrospective's report.
    pub(crate) async fn report(&self, tenant: &str, id: &str) -> Result<Value> {
        let began = Instant::now();
        let report = self.get(tenant, &format!("/v1/reports/{id}")).await?;
        add(&self.spent.lists, began);
        Ok(report)
    }

    /// Opens a manual retrospective over runs and answers its id.
    pub(crate) async fn look_into(&self, tenant: &str, workflow: &str, runs: &[String]) -> Result<String> {
        let asked = json!({"workflow": workflow, "runs": runs, "by": "a person"});
        let answer = self.post(tenant, "/v1/retrospectives", &[], asked.to_string()).await?;
        Ok(text(&answer["retrospective"]))
    }

    /// What a manual retrospective proposes.
    pub(crate) async fn proposals(&self, tenant: &str, retrospective: &str) -> Result<Vec<Value>> {
        let listed =
            self.get(tenant, &format!("/v1/proposals?retrospective={retrospective}&limit=100")).await?;
        Ok(listed["items"].as_array().cloned().unwrap_or_default())
    }

    /// Accepts a proposal as a person who does not mind tombstones.
    pub(crate) async fn accept(&self, tenant: &str, proposal: &str) -> Result<()> {
        let asked = json!({"by": "a person", "despite_tombstone": "it is planted"});
        self.post(tenant, &format!("/v1/proposals/{proposal}/accept"), &[], asked.to_string()).await?;
        Ok(())
    }

    async fn get(&self, tenant: &str, path: &str) -> Result<Value> {
        let request = self.http.get(format!("{}{path}", self.url)).header("Retro-Tenant", tenant);
        answered(request, path).await
    }

    async fn post(&self, tenant: &str, path: &str, headers: &[(&str, &str)], body: String) -> Result<Value> {
        let mut request = self.http.post(format!("{}{path}", self.url)).header("Retro-Tenant", tenant);
        if headers.is_empty() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        answered(request.body(body), path).await
    }

    /// Stops it in order; its folder is removed.
    pub(crate) async fn stop(mut self) -> Result<()> {
        if let Some(pid) = self.process.id() {
            kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
        }
        let status = self.process.wait().await?;
        ensure!(status.success(), "`retro up` ended with {status}:\n{}", self.log());
        Ok(())
    }
}

/// A retrospective that is waited for.
#[derive(Debug, Clone)]
pub(crate) enum Which {
    /// Its number within the workflow.
    Epoch(u32),
    /// Its id.
    Id(String),
}

async fn answered(request: reqwest::RequestBuilder, path: &str) -> Result<Value> {
    let answer = request.send().await.with_context(|| format!("no answer to {path}"))?;
    let status = answer.status();
    let body = answer.text().await.with_context(|| format!("half an answer to {path}"))?;
    ensure!(
        status.is_success() && status != reqwest::StatusCode::MULTI_STATUS,
        "{path} was answered {status}: {body}"
    );
    serde_json::from_str(&body).with_context(|| format!("{path} was answered with no JSON: {body}"))
}

fn add(to: &AtomicU64, began: Instant) {
    to.fetch_add(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// A text of an answer; empty when it is none.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Spent {
    /// Context, events, waiting, lists; in seconds.
    pub(crate) fn seconds(&self) -> [f64; 4] {
        [&self.context, &self.events, &self.waiting, &self.lists]
            .map(|one| one.load(Ordering::Relaxed) as f64 / 1e6)
    }
}
