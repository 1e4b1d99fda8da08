//! Runs the program and the hand-written loops as processes of their own, and reads what they cost.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::servers::{Broker, Database};

/// Timeout for a process to end after it was asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Unit of the CPU times in `/proc`, which Linux fixes for user space (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// A process under measurement, with its log in a file. Killed when dropped.
pub(crate) struct MeasuredProcess {
    child: Child,
}

impl MeasuredProcess {
    /// Starts a program with arguments and environment variables. Its output is appended to `log`.
    pub(crate) fn start(
        program: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
        log: &Path,
    ) -> Result<Self> {
        let log = std::fs::File::options().create(true).append(true).open(log)?;
        let child = Command::new(program)
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child })
    }

    /// Starts `retro serve` with these roles, and with more arguments and environment variables.
    pub(crate) fn start_roles(
        retro: &Path,
        servers: (&Broker, &Database),
        roles: &[&str],
        arguments: &[&str],
        variables: &[(&str, &str)],
        log: &Path,
    ) -> Result<Self> {
        let (broker, database) = servers;
        let (of_database, by_environment) = (database.arguments(), database.variables());
        let mut all_arguments = vec!["serve"];
        roles.iter().for_each(|role| all_arguments.extend(["--role", role]));
        all_arguments.extend(of_database.iter().map(String::as_str));
        all_arguments.extend(arguments);
        let mut all_variables = vec![("NATS_URL", broker.url())];
        all_variables.extend(by_environment.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        all_variables.extend(variables);
        Self::start(retro, &all_arguments, &all_variables, log)
    }

    /// Returns the CPU time that the process has used so far, in its own code and in the kernel.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        cpu_time_of(self.pid()?)
    }

    /// Returns the largest resident size that the process has had, in bytes.
    pub(crate) fn peak_memory(&self) -> Result<u64> {
        self.read_memory("VmHWM:")
    }

    /// Returns the resident size of the process, in bytes.
    pub(crate) fn resident_memory(&self) -> Result<u64> {
        self.read_memory("VmRSS:")
    }

    fn read_memory(&self, key: &str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix(key)).context("no such size")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    }

    /// Returns the number of open files of the process.
    pub(crate) fn count_open_files(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.pid()?))?.count())
    }

    /// Fails if the process has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => anyhow::bail!("the measured process ended with {status}"),
        }
    }

    /// Returns the process id. Fails if the process has ended.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("the measured process has ended")
    }

    /// Kills the process and waits until it has ended.
    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Asks the process to end and waits for it.
    pub(crate) async fn stop(mut self) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.pid()?)?), Signal::SIGTERM)?;
        tokio::time::timeout(STOP_TIMEOUT, self.child.wait())
            .await
            .context("the measured process did not end")??;
        Ok(())
    }
}

/// Returns the CPU time of a process from `/proc`.
pub(crate) fn cpu_time_of(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Fields after the name, which may itself contain blanks and parentheses.
    let (_, fields) = stat.rsplit_once(") ").context("/proc/PID/stat has no name")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND))
}
