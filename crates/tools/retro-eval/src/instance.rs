//! Starts a `retro up` process for one task and runs commands against it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::http_client::configure_client;

/// Timeout for each operation on the instance.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the state of the instance is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A running `retro up` with its own data folder.
pub struct Instance {
    binary: PathBuf,
    folder: PathBuf,
    pipelines: PathBuf,
    process: Child,
    http: reqwest::Client,
    http_url: String,
}

impl Instance {
    /// Starts `retro up` in a fresh folder with these environment variables. First stops any process that an
    /// interrupted task left running in the folder.
    pub async fn start(
        binary: &Path,
        folder: &Path,
        pipelines: &Path,
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        stop_leftover_instance(folder).await?;
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
        }
        std::fs::create_dir_all(folder)?;
        let log = std::fs::File::create(folder.join("retro.log"))?;
        let process = Command::new(binary)
            .args(["up", "--http-listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder)
            .env("RETRO_PIPELINES", pipelines)
            .env("RETRO_SWEEP_INTERVAL_MS", "500")
            .env("RETRO_STREAMS_MIB", "1216")
            // An inherited address would connect the instance to another broker.
            .env_remove("NATS_URL")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            // A task that fails must not leave the process behind with the folder's lock.
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let mut instance = Self {
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            pipelines: pipelines.to_owned(),
            process,
            http: configure_client().timeout(OPERATION_TIMEOUT).build()?,
            http_url: String::new(),
        };
        instance.http_url = instance.wait_for_address().await?;
        Ok(instance)
    }

    /// Returns the URL of the HTTP API.
    pub fn http_url(&self) -> &str {
        &self.http_url
    }

    /// Returns the process ID of `retro up`, or `None` if the process has ended.
    pub fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Returns a value that the process recorded in `instance.json`. Fails if there is no such value.
    pub fn recorded_value(&self, key: &str) -> Result<String> {
        let value = read_recorded(&self.folder, key).and_then(|value| value.as_str().map(str::to_owned));
        value.with_context(|| format!("`retro up` recorded no {key} in {}", self.folder.display()))
    }

    async fn wait_for_address(&mut self) -> Result<String> {
        for _ in 0..OPERATION_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
            // A process that has already exited never records its address.
            if let Some(status) = self.process.try_wait()? {
                let log = std::fs::read_to_string(self.folder.join("retro.log")).unwrap_or_default();
                bail!("`retro up` ended with {status}:\n{log}");
            }
            if let Some(url) =
                read_recorded(&self.folder, "http_url").and_then(|url| url.as_str().map(str::to_owned))
            {
                return Ok(url);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        bail!(
            "`retro up` did not start within {} s; see {}/retro.log",
            OPERATION_TIMEOUT.as_secs(),
            self.folder.display()
        )
    }

    /// Runs a `retro` command that prints its output on the terminal. Fails if the command fails.
    pub async fn run_command(&self, arguments: &[&str]) -> Result<()> {
        let status = self.build_command(arguments).status().await?;
        if !status.success() {
            bail!("`retro {}` ended with {status}", arguments.join(" "));
        }
        Ok(())
    }

    /// Runs a `retro` command and parses its JSON output. Fails if the command fails.
    pub async fn run_json(&self, arguments: &[&str]) -> Result<Value> {
        let output =
            self.build_command(arguments).args(["-o", "json"]).stderr(Stdio::inherit()).output().await?;
        if !output.status.success() {
            bail!("`retro {}` ended with {}", arguments.join(" "), output.status);
        }
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`retro {}` printed no JSON", arguments.join(" ")))
    }

    /// Runs a `retro` command and returns its text output. Fails if the command fails.
    pub async fn run_text(&self, arguments: &[&str]) -> Result<String> {
        let output = self.build_command(arguments).stderr(Stdio::inherit()).output().await?;
        if !output.status.success() {
            bail!("`retro {}` ended with {}", arguments.join(" "), output.status);
        }
        String::from_utf8(output.stdout).context("`retro` printed invalid UTF-8")
    }

    fn build_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .arg("--data-dir")
            .arg(&self.folder)
            .env("RETRO_PIPELINES", &self.pipelines)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Requests the context of a step, as an agent does at the start of the step.
    pub async fn request_context(&self, workflow: &str, step: &str, run: &str) -> Result<Value> {
        let request = serde_json::json!({"workflow": workflow, "step": step, "run_id": run});
        let answer = self.http.post(format!("{}/v1/context", self.http_url)).json(&request).send().await?;
        Ok(answer.error_for_status()?.json().await?)
    }

    /// Opens a memory, as an agent does to read it in full.
    pub async fn open_memory(&self, memory: &str, run: &str) -> Result<()> {
        let url = format!("{}/v1/memories/{memory}?run={run}", self.http_url);
        self.http.get(url).send().await?.error_for_status()?;
        Ok(())
    }

    /// Waits until no retrospective is open. Fails after a minute.
    pub async fn wait_until_idle(&self) -> Result<()> {
        for _ in 0..OPERATION_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
            let rows = self.run_json(&["retrospectives", "list", "--limit", "1000"]).await?;
            let open = |row: &Value| {
                matches!(row["retrospective"]["state"].as_str(), Some("due" | "investigating" | "settling"))
            };
            if !rows.as_array().is_some_and(|rows| rows.iter().any(open)) {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        bail!(
            "a retrospective is still open after {} s; see {}/retro.log",
            OPERATION_TIMEOUT.as_secs(),
            self.folder.display()
        )
    }

    /// Shuts the process down gracefully and waits for its exit.
    pub async fn stop(mut self) -> Result<()> {
        if let Some(pid) = self.process.id() {
            kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
        }
        let status = self.process.wait().await?;
        if !status.success() {
            bail!("`retro up` ended with {status}");
        }
        Ok(())
    }
}

/// Returns the path of the release build of `retro` in cargo's target folder. Fails if there is no such
/// build.
pub fn find_release_binary() -> Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    let path = metadata.target_directory.join("release/retro").into_std_path_buf();
    ensure!(path.exists(), "{} is missing: run `make demo`, which builds it", path.display());
    Ok(path)
}

/// Reads a value from `instance.json`. Returns `None` if the file or the key does not exist.
fn read_recorded(folder: &Path, key: &str) -> Option<Value> {
    let text = std::fs::read_to_string(folder.join("instance.json")).ok()?;
    serde_json::from_str::<Value>(&text).ok()?.get(key).cloned()
}

/// Stops a `retro up` that a killed task left running, and waits for its exit. The process locks its data
/// folder until it exits.
#[expect(clippy::print_stdout, reason = "says at the terminal why the start takes longer")]
async fn stop_leftover_instance(folder: &Path) -> Result<()> {
    let Ok(lock) = std::fs::File::open(folder.join("lock")) else { return Ok(()) };
    let pid = read_recorded(folder, "pid").and_then(|pid| i32::try_from(pid.as_i64()?).ok());
    for look in 0..OPERATION_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
        if lock.try_lock().is_ok() {
            return Ok(());
        }
        // Signalled only while the lock is held, so the recorded ID still belongs to that process; and only
        // once, because a second signal could cut its graceful shutdown short.
        if let (0, Some(pid)) = (look, pid) {
            println!("Stopping an earlier `retro up` that is still running (pid {pid}).");
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    bail!("{} is in use by another process that does not stop", folder.display())
}
