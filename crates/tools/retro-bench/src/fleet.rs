//! Runs every role that leads from an event to a memory, in one process or in one process each.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use retro_eval::http_client::configure_client;
use retro_testkit::free_port;
use serde_json::{Value, json};

use crate::child::MeasuredProcess;
use crate::events::TENANT;
use crate::servers::{Broker, Database};

/// Roles between an event and a memory, and those that belong to every fleet.
const ROLES: [&str; 8] =
    ["gateway", "counter", "sampler", "investigator", "writer", "relay", "reviewer", "tracker"];
/// Timeout for a request, and for the first answer of the gateway.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which the gateway is asked whether it is ready.
const READY_INTERVAL: Duration = Duration::from_millis(50);

/// Distribution of the roles over processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Layout {
    /// All roles in one process.
    One,
    /// Each role in a process of its own.
    Eight,
}

/// Running processes with an HTTP address.
pub(crate) struct Fleet {
    processes: Vec<MeasuredProcess>,
    http: reqwest::Client,
    address: String,
}

impl Fleet {
    /// Starts the processes and waits until the gateway is ready. `investigators` is the number of processes with that
    /// role in a layout of several processes.
    pub(crate) async fn start(
        retro: &Path,
        broker: &Broker,
        database: &Database,
        layout: Layout,
        investigators: usize,
        log: &Path,
    ) -> Result<Self> {
        let address = format!("127.0.0.1:{}", free_port());
        let groups: Vec<Vec<&str>> = match layout {
            Layout::One => vec![ROLES.to_vec()],
            Layout::Eight => {
                let more = std::iter::repeat_n("investigator", investigators.saturating_sub(1));
                ROLES.into_iter().chain(more).map(|role| vec![role]).collect()
            }
        };
        // A line per investigation would be measured too.
        let variables = [("RUST_LOG", "warn")];
        let mut processes = Vec::new();
        for roles in groups {
            let http: &[&str] =
                if roles.contains(&"gateway") { &["--http-listen", address.as_str()] } else { &[] };
            let servers = (broker, database);
            processes.push(MeasuredProcess::start_roles(retro, servers, &roles, http, &variables, log)?);
        }
        let fleet = Self { processes, http: configure_client().timeout(TIMEOUT).build()?, address };
        fleet.wait_until_ready().await.with_context(|| std::fs::read_to_string(log).unwrap_or_default())?;
        Ok(fleet)
    }

    async fn wait_until_ready(&self) -> Result<()> {
        let began = Instant::now();
        let url = format!("http://{}/readyz", self.address);
        while began.elapsed() < TIMEOUT {
            if self.http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
        anyhow::bail!("the gateway did not become ready")
    }

    /// Posts events as one batch and waits until they are accepted.
    pub(crate) async fn post_events(&self, events: &[Value]) -> Result<()> {
        let url = format!("http://{}/v1/events", self.address);
        let body = serde_json::to_vec(events)?;
        let request =
            self.http.post(url).header("content-type", "application/cloudevents-batch+json").body(body);
        request.send().await?.error_for_status()?;
        Ok(())
    }

    /// Posts events as one batch, again and again until they are accepted. Fails if that takes too long.
    pub(crate) async fn post_events_until_accepted(&self, events: &[Value]) -> Result<()> {
        let began = Instant::now();
        loop {
            match self.post_events(events).await {
                Err(_) if began.elapsed() < TIMEOUT => tokio::time::sleep(READY_INTERVAL).await,
                posted => return posted,
            }
        }
    }

    /// Returns the resident memory of all processes in bytes, and the number of their open files.
    pub(crate) fn resources(&self) -> Result<(u64, usize)> {
        let mut total = (0, 0);
        for process in &self.processes {
            total.0 += process.resident_memory()?;
            total.1 += process.count_open_files()?;
        }
        Ok(total)
    }

    /// Returns `true` if a run of this workflow would be handed a memory, or is not by chance.
    pub(crate) async fn has_injectable_memory(&self, workflow: &str, run: &str) -> Result<bool> {
        let url = format!("http://{}/v1/context", self.address);
        let request = json!({"workflow": workflow, "step": "main", "run_id": run});
        let answer = self.http.post(url).json(&request).send().await?.error_for_status()?;
        let answer: Value = answer.json().await?;
        let some = answer["memories"].as_array().is_some_and(|memories| !memories.is_empty());
        Ok(some || answer["withheld_by_chance"].as_u64().unwrap_or(0) > 0)
    }

    /// Returns the CPU time of all processes so far.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        self.processes.iter().map(MeasuredProcess::cpu_time).sum()
    }

    /// Stops all processes.
    pub(crate) async fn stop(self) -> Result<()> {
        for process in self.processes {
            process.stop().await?;
        }
        Ok(())
    }
}

/// Returns the number of closed retrospectives.
pub(crate) async fn count_closed(database: &Database) -> Result<u64> {
    database.query_number("SELECT count(*) FROM retrospectives WHERE state = 'closed'").await
}

/// Composes a run in which a test fails until a package is installed, from which a retrospective learns a memory.
pub(crate) fn compose_failing_run(workflow: &str, nth: usize) -> Value {
    let call = |step: u32, command: String, result: &str| {
        json!({
            "step_id": step,
            "source": "agent",
            "message": "I run the checks.",
            "tool_calls": [{
                "tool_call_id": format!("call-{step}"),
                "function_name": "bash",
                "arguments": {"command": command},
            }],
            "observation": {"results": [{"source_call_id": format!("call-{step}"), "content": result}]},
        })
    };
    let test = || format!("pytest -q tests/test_{nth}.py");
    json!({
        "specversion": "1.0",
        "type": "dev.retrospect.run.completed.v1",
        "source": "/engines/bench",
        "id": format!("{workflow}-{nth}"),
        "tenant": TENANT,
        "data": {
            "workflow": workflow,
            "run_id": format!("{workflow}-{nth}"),
            "outcome": "success",
            "task": format!("Repair service {nth}"),
            "trajectory": {
                "schema_version": "ATIF-v1.4",
                "agent": {"name": "bench-agent", "version": "1.0.0"},
                "steps": [
                    {"step_id": 1, "source": "user", "message": "Make the failing checks pass."},
                    call(2, test(), "Traceback (most recent call last):\nE   ModuleNotFoundError: No module named 'yaml'"),
                    call(3, "pip install pyyaml".to_owned(), "Successfully installed pyyaml-6.0"),
                    call(4, test(), "3 passed in 0.12s"),
                    {"step_id": 5, "source": "agent", "message": "The checks pass now."},
                ],
            },
        },
    })
}
