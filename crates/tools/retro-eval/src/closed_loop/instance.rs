//! Starts a `retro up` process and uses its public interface: sends events, requests context, and fetches
//! lists and reports.

use crate::closed_loop::repositories::SimulatedRepository;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::http_client::configure_client;

/// Timeout of every operation but waiting for a retrospective. Even on a busy machine, none takes a minute.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which the data folder is polled for the address of a starting process.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Value of `RETRO_CONTEXT_TIMEOUT_MS`, the timeout of a context request in milliseconds. High enough that a
/// slow machine never changes the memories that a run is handed.
const CONTEXT_TIMEOUT_MS: &str = "60000";
/// Maximum number of memories or proposals in one list. A world that creates more is rejected.
const LIST_MAX: usize = 1000;
/// Maximum number of listed retrospectives among which a manual one is searched for.
const RETROSPECTIVES_MAX: usize = 20;

/// Microseconds spent on operations of each kind, summed over all concurrent workflows.
#[derive(Debug, Default)]
pub(crate) struct TimeSpent {
    pub(crate) context: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) lists: AtomicU64,
}

/// A `retro up` process with its own temporary folder.
pub(crate) struct Instance {
    process: Child,
    folder: tempfile::TempDir,
    http: reqwest::Client,
    url: String,
    close_timeout: Duration,
    pub(crate) time_spent: TimeSpent,
}

/// Retrospective that closed without failing or being cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClosedRetrospective {
    pub(crate) id: String,
}

impl Instance {
    /// Starts `binary` with this policy file text and this many investigators. The process stores its data in
    /// a new folder in `parent`. Waits at most `close_timeout` for a retrospective.
    ///
    /// Fails with the end of the process's log if it does not start.
    pub(crate) async fn start(
        binary: &Path,
        parent: &Path,
        policy: &str,
        investigators: u32,
        close_timeout: Duration,
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
            .env("RETRO_CONTEXT_TIMEOUT_MS", CONTEXT_TIMEOUT_MS)
            .env("RETRO_LOG", "warn")
            .env("RETRO_STREAMS_MIB", "1216")
            // An inherited address would connect the process to another broker or database.
            .env_remove("NATS_URL")
            .env_remove("DATABASE_URL")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // A simulation that fails must not leave the process behind.
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", binary.display()))?;
        let http = configure_client().timeout(OPERATION_TIMEOUT).build()?;
        let mut instance = Self {
            process,
            folder,
            http,
            url: String::new(),
            close_timeout,
            time_spent: TimeSpent::default(),
        };
        instance.url = instance.wait_for_address().await?;
        Ok(instance)
    }

    async fn wait_for_address(&mut self) -> Result<String> {
        let began = Instant::now();
        while began.elapsed() < OPERATION_TIMEOUT {
            if let Some(status) = self.process.try_wait()? {
                bail!("`retro up` ended with {status}:\n{}", self.log_tail());
            }
            let text =
                std::fs::read_to_string(self.folder.path().join("data/instance.json")).unwrap_or_default();
            let recorded = serde_json::from_str::<Value>(&text).unwrap_or_default();
            if let Some(url) = recorded["http_url"].as_str() {
                return Ok(url.to_owned());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        bail!("`retro up` did not start within {} s:\n{}", OPERATION_TIMEOUT.as_secs(), self.log_tail())
    }

    /// Returns the last 30 lines of the process's log.
    fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("retro.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Requests the context of a step of a run. Fails if the program gave no memories because it was too
    /// slow.
    pub(crate) async fn request_context(
        &self,
        tenant: &str,
        workflow: &str,
        step: &str,
        run: &str,
        repository: Option<&SimulatedRepository>,
    ) -> Result<Value> {
        let began = Instant::now();
        let mut asked = json!({"workflow": workflow, "step": step, "run_id": run});
        if let Some(repository) = repository {
            repository.add_to(&mut asked);
        }
        let answer = self.post_json(tenant, "/v1/context", &[], asked.to_string()).await?;
        // A run without memories because the program was slow would differ the next time, so this is an
        // error.
        let reason = answer["reason"].as_str().unwrap_or_default();
        let slow = reason.starts_with("no memories: ") || answer["recorded"] == "unknown";
        ensure!(!slow, "no context for {workflow}, step {step}: {reason}");
        add_elapsed(&self.time_spent.context, began);
        Ok(answer)
    }

    /// Sends the runs of a window as one batch.
    pub(crate) async fn send_events(&self, tenant: &str, events: &[Value]) -> Result<()> {
        let began = Instant::now();
        let form = [("content-type", "application/cloudevents-batch+json")];
        let answer = self.post_json(tenant, "/v1/events", &form, Value::from(events).to_string()).await?;
        ensure!(answer["accepted"] == events.len(), "some events were not accepted: {answer}");
        add_elapsed(&self.time_spent.events, began);
        Ok(())
    }

    /// Waits until a retrospective has closed. Fails if it failed or was cancelled.
    pub(crate) async fn wait_until_closed(
        &self,
        tenant: &str,
        workflow: &str,
        which: &RetrospectiveKey,
        pause: Duration,
    ) -> Result<ClosedRetrospective> {
        let began = Instant::now();
        // The automatic retrospective waited for is the newest one; a manual one may be further down the
        // list.
        let limit = if matches!(which, RetrospectiveKey::Epoch(_)) { 1 } else { RETROSPECTIVES_MAX };
        let path = format!("/v1/retrospectives?workflow={workflow}&limit={limit}");
        let mut looks = tokio::time::interval(pause);
        while began.elapsed() < self.close_timeout {
            looks.tick().await;
            let listed = self.get_json(tenant, &path).await?;
            let rows = listed["items"].as_array().into_iter().flatten().map(|row| &row["retrospective"]);
            let found = rows.into_iter().find(|row| match which {
                RetrospectiveKey::Epoch(epoch) => row["epoch"].as_u64() == Some(u64::from(*epoch)),
                RetrospectiveKey::Id(id) => row["id"] == id.as_str(),
            });
            let Some(row) = found else { continue };
            match row["state"].as_str() {
                Some("closed") => {
                    add_elapsed(&self.time_spent.waiting, began);
                    return Ok(ClosedRetrospective { id: string_or_empty(&row["id"]) });
                }
                Some("failed" | "cancelled") => {
                    bail!("a retrospective of {tenant} {workflow} did not succeed: {row}")
                }
                _ => {}
            }
        }
        bail!(
            "{which:?} of {tenant} {workflow} did not close within {} s:\n{}",
            self.close_timeout.as_secs(),
            self.log_tail()
        )
    }

    /// Lists the memories of a workflow, in every status.
    pub(crate) async fn list_memories(&self, tenant: &str, workflow: &str) -> Result<Vec<Value>> {
        let began = Instant::now();
        let listed =
            self.get_json(tenant, &format!("/v1/memories?workflow={workflow}&limit={LIST_MAX}")).await?;
        ensure!(
            listed["more"] == false,
            "{tenant} {workflow} has more than {LIST_MAX} memories: too noisy a world"
        );
        add_elapsed(&self.time_spent.lists, began);
        Ok(listed["items"].as_array().cloned().unwrap_or_default())
    }

    /// Fetches the report of a retrospective.
    pub(crate) async fn fetch_report(&self, tenant: &str, id: &str) -> Result<Value> {
        let began = Instant::now();
        let report = self.get_json(tenant, &format!("/v1/reports/{id}")).await?;
        add_elapsed(&self.time_spent.lists, began);
        Ok(report)
    }

    /// Opens a manual retrospective over these runs and returns its ID.
    pub(crate) async fn open_manual_retrospective(
        &self,
        tenant: &str,
        workflow: &str,
        runs: &[String],
    ) -> Result<String> {
        let asked = json!({"workflow": workflow, "runs": runs, "by": "a person"});
        let answer = self.post_json(tenant, "/v1/retrospectives", &[], asked.to_string()).await?;
        Ok(string_or_empty(&answer["retrospective"]))
    }

    /// Lists the proposals of a manual retrospective.
    pub(crate) async fn list_proposals(&self, tenant: &str, retrospective: &str) -> Result<Vec<Value>> {
        let listed = self
            .get_json(tenant, &format!("/v1/proposals?retrospective={retrospective}&limit={LIST_MAX}"))
            .await?;
        ensure!(listed["more"] == false, "{retrospective} of {tenant} has more than {LIST_MAX} proposals");
        Ok(listed["items"].as_array().cloned().unwrap_or_default())
    }

    /// Accepts a proposal, even if a tombstone suppresses its lesson.
    pub(crate) async fn accept_proposal(&self, tenant: &str, proposal: &str) -> Result<()> {
        let asked = json!({"by": "a person", "override_tombstone": "it is planted"});
        self.post_json(tenant, &format!("/v1/proposals/{proposal}/accept"), &[], asked.to_string()).await?;
        Ok(())
    }

    async fn get_json(&self, tenant: &str, path: &str) -> Result<Value> {
        let request = self.http.get(format!("{}{path}", self.url)).header("Retro-Tenant", tenant);
        send_request(request, path).await
    }

    async fn post_json(
        &self,
        tenant: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<Value> {
        let mut request = self.http.post(format!("{}{path}", self.url)).header("Retro-Tenant", tenant);
        if headers.is_empty() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        send_request(request.body(body), path).await
    }

    /// Shuts the program down gracefully and removes its folder.
    pub(crate) async fn stop(mut self) -> Result<()> {
        if let Some(pid) = self.process.id() {
            kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
        }
        let status = self.process.wait().await?;
        ensure!(status.success(), "`retro up` ended with {status}:\n{}", self.log_tail());
        Ok(())
    }
}

/// Identifies a retrospective to wait for.
#[derive(Debug, Clone)]
pub(crate) enum RetrospectiveKey {
    /// Epoch of an automatic retrospective.
    Epoch(u32),
    /// ID of a manual retrospective.
    Id(String),
}

async fn send_request(request: reqwest::RequestBuilder, path: &str) -> Result<Value> {
    let answer = request.send().await.with_context(|| format!("no answer to {path}"))?;
    let status = answer.status();
    let body = answer.text().await.with_context(|| format!("incomplete answer to {path}"))?;
    // 207 is a success status, but means that some events of the batch were rejected.
    ensure!(
        status.is_success() && status != reqwest::StatusCode::MULTI_STATUS,
        "{path} was answered with {status}: {body}"
    );
    serde_json::from_str(&body).with_context(|| format!("the answer to {path} is not JSON: {body}"))
}

fn add_elapsed(to: &AtomicU64, began: Instant) {
    to.fetch_add(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Returns the value of a JSON string, or an empty string for any other value.
pub(crate) fn string_or_empty(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl TimeSpent {
    /// Returns the seconds spent on context requests, on sending events, on waiting, and on lists and
    /// reports, in this order.
    pub(crate) fn as_seconds(&self) -> [f64; 4] {
        [&self.context, &self.events, &self.waiting, &self.lists]
            .map(|one| one.load(Ordering::Relaxed) as f64 / 1e6)
    }
}
