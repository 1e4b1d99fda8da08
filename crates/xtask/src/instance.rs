//! A `retro up` of a task's own, and its commands.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::process::{Child, Command};

/// How long anything may take before it is called stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A running `retro up`.
pub(crate) struct Instance {
    binary: PathBuf,
    folder: PathBuf,
    pipelines: PathBuf,
    process: Child,
    http: reqwest::Client,
    http_url: String,
}

impl Instance {
    /// Starts in a fresh folder, with these variables; what an interrupted task left running there is stopped first.
    pub(crate) async fn start(
        binary: &Path,
        folder: &Path,
        pipelines: &Path,
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        stop_left_over(folder).await?;
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
        }
        std::fs::create_dir_all(folder)?;
        let log = std::fs::File::create(folder.join("retro.log"))?;
        let process = Command::new(binary)
            .args(["up", "--http-listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder)
            .env("RETRO_PIPELINES", pipelines)
            .env("RETRO_SWEEP_MS", "500")
            .env_remove("NATS_URL")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let mut instance = Self {
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            pipelines: pipelines.to_owned(),
            process,
            http: reqwest::Client::builder().timeout(PATIENCE).build()?,
            http_url: String::new(),
        };
        instance.http_url = instance.wait_for_address().await?;
        Ok(instance)
    }

    pub(crate) fn http_url(&self) -> &str {
        &self.http_url
    }

    /// The process's id.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// What it recorded about itself under this key.
    pub(crate) fn recorded(&self, key: &str) -> Result<String> {
        let value = recorded(&self.folder, key).and_then(|value| value.as_str().map(str::to_owned));
        value.with_context(|| format!("`retro up` recorded no {key} in {}", self.folder.display()))
    }

    async fn wait_for_address(&mut self) -> Result<String> {
        for _ in 0..PATIENCE.as_millis() / LOOK_EVERY.as_millis() {
            if let Some(status) = self.process.try_wait()? {
                let log = std::fs::read_to_string(self.folder.join("retro.log")).unwrap_or_default();
                bail!("`retro up` ended with {status}:\n{log}");
            }
            if let Some(url) =
                recorded(&self.folder, "http_url").and_then(|url| url.as_str().map(str::to_owned))
            {
                return Ok(url);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        bail!(
            "`retro up` did not start within {} s; see {}/retro.log",
            PATIENCE.as_secs(),
            self.folder.display()
        )
    }

    /// Carries out a command with what it prints going to the terminal.
    pub(crate) async fn say(&self, arguments: &[&str]) -> Result<()> {
        let status = self.command(arguments).status().await?;
        if !status.success() {
            bail!("`retro {}` ended with {status}", arguments.join(" "));
        }
        Ok(())
    }

    /// Carries out a command and reads its JSON.
    pub(crate) async fn ask(&self, arguments: &[&str]) -> Result<Value> {
        let output = self.command(arguments).args(["-o", "json"]).stderr(Stdio::inherit()).output().await?;
        if !output.status.success() {
            bail!("`retro {}` ended with {}", arguments.join(" "), output.status);
        }
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`retro {}` printed no JSON", arguments.join(" ")))
    }

    /// Carries out a command and returns what it prints for people.
    pub(crate) async fn tell(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments).stderr(Stdio::inherit()).output().await?;
        if !output.status.success() {
            bail!("`retro {}` ended with {}", arguments.join(" "), output.status);
        }
        String::from_utf8(output.stdout).context("`retro` prints UTF-8")
    }

    fn command(&self, arguments: &[&str]) -> Command {
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

    /// Asks for what the next run of a step is handed, as an agent does at the step's start.
    pub(crate) async fn context(&self, workflow: &str, step: &str, run: &str) -> Result<Value> {
        let request = serde_json::json!({"workflow": workflow, "step": step, "run_id": run});
        let answer = self.http.post(format!("{}/v1/context", self.http_url)).json(&request).send().await?;
        Ok(answer.error_for_status()?.json().await?)
    }

    /// Opens a memory, as an agent does that wants to know more.
    pub(crate) async fn read(&self, memory: &str, run: &str) -> Result<()> {
        let url = format!("{}/v1/memories/{memory}?run={run}", self.http_url);
        self.http.get(url).send().await?.error_for_status()?;
        Ok(())
    }

    /// Waits until no retrospective is open and no full window waits for one.
    pub(crate) async fn wait_until_still(&self) -> Result<()> {
        for _ in 0..PATIENCE.as_millis() / LOOK_EVERY.as_millis() {
            let rows = self.ask(&["retrospectives", "list", "--limit", "1000"]).await?;
            let open = |row: &Value| {
                matches!(row["retrospective"]["state"].as_str(), Some("due" | "investigating" | "settling"))
            };
            if !rows.as_array().is_some_and(|rows| rows.iter().any(open)) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        bail!(
            "a retrospective is still open after {} s; see {}/retro.log",
            PATIENCE.as_secs(),
            self.folder.display()
        )
    }

    /// Stops in order.
    pub(crate) async fn stop(mut self) -> Result<()> {
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

/// A value that `retro up` recorded about itself.
fn recorded(folder: &Path, key: &str) -> Option<Value> {
    let text = std::fs::read_to_string(folder.join("instance.json")).ok()?;
    serde_json::from_str::<Value>(&text).ok()?.get(key).cloned()
}

/// A task that was killed may have left its `retro up` behind; its data folder is held by a lock until it ends.
async fn stop_left_over(folder: &Path) -> Result<()> {
    let Ok(lock) = std::fs::File::open(folder.join("lock")) else { return Ok(()) };
    let pid = recorded(folder, "pid").and_then(|pid| i32::try_from(pid.as_i64()?).ok());
    for look in 0..PATIENCE.as_millis() / LOOK_EVERY.as_millis() {
        if lock.try_lock().is_ok() {
            return Ok(());
        }
        if let (0, Some(pid)) = (look, pid) {
            println!("An earlier one is still running (pid {pid}): it is stopped first.");
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    bail!("{} is in use by another process and it does not end", folder.display())
}
