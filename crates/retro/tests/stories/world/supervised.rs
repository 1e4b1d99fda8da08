//! Runs a process that is restarted whenever it ends, as by Compose and Kubernetes.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::process::terminate;
use super::{TEST_TIMEOUT, World};

/// Maximum number of deaths, more than any poisoned message may cause. A process that always dies is not
/// restarted forever.
const DEATHS_MAX: usize = 12;

/// Limit of a process's address space, in KiB: far more than it needs, but soon exhausted by a process that
/// leaks.
const ADDRESS_SPACE_KIB: u64 = 6 * 1024 * 1024;

/// A process that is kept running until [`SupervisedProcess::stop`], however often it dies.
pub(crate) struct SupervisedProcess {
    deaths: watch::Receiver<Vec<ExitStatus>>,
    stop: CancellationToken,
    task: JoinHandle<ExitStatus>,
}

impl SupervisedProcess {
    /// Starts a process with these roles on a world's broker and database, with limited memory.
    pub(crate) fn start(world: &World, roles: &str, environment: &[(&str, &str)]) -> Self {
        let arguments = ["serve", "--role", roles, "--http-listen", "127.0.0.1:0"];
        let command = limit_memory(&world.command(&arguments), environment);
        let log = world.path("retro.log");
        let (dying, deaths) = watch::channel(Vec::new());
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let task = tokio::spawn(supervise_process(command, log, stopping, dying));
        Self { deaths, stop, task }
    }

    /// Returns the exit statuses of all processes that have died so far.
    pub(crate) fn deaths(&self) -> Vec<ExitStatus> {
        self.deaths.borrow().clone()
    }

    /// Stops the process permanently. Returns the exit statuses of all that died, including the last one if
    /// it did not end gracefully.
    pub(crate) async fn stop(self) -> Vec<ExitStatus> {
        self.stop.cancel();
        let ended = tokio::time::timeout(TEST_TIMEOUT, self.task)
            .await
            .expect("the process stops")
            .expect("no panic");
        let last_death = Some(ended).filter(|ended| !ended.success());
        self.deaths.borrow().iter().copied().chain(last_death).collect()
    }
}

/// Returns the exit codes of processes that exited, and the negated signal numbers of those that were killed.
pub(crate) fn exit_causes(deaths: &[ExitStatus]) -> Vec<i32> {
    deaths.iter().map(|death| death.code().or(death.signal().map(|signal| -signal)).unwrap_or(0)).collect()
}

impl World {
    /// Starts `retro up` with this umask.
    pub(crate) async fn up_with_umask(&mut self, mask: &str) {
        let up = self.command(&["up", "--nats-port", &self.nats_port.to_string()]);
        let mut up = wrap_in_shell(&up, &format!("umask {mask}"));
        up.stdin(Stdio::null()).kill_on_drop(true);
        self.start_and_wait(up, "127.0.0.1:0", &[]).await;
    }

    /// Starts `retro up` with a limit on the private memory of the program and of its broker, in KiB each.
    pub(crate) async fn up_with_memory_limit(&mut self, kib: usize) {
        let up = self.command(&["up", "--nats-port", &self.nats_port.to_string()]);
        let mut up = wrap_in_shell(&up, &format!("ulimit -d {kib}"));
        up.stdin(Stdio::null()).kill_on_drop(true);
        self.start_and_wait(up, "127.0.0.1:0", &[]).await;
    }
}

/// Returns a command that a shell runs after this line of shell code.
fn wrap_in_shell(plain: &Command, line: &str) -> Command {
    let plain = plain.as_std();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{line}; exec \"$0\" \"$@\""));
    command.arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn limit_memory(plain: &Command, environment: &[(&str, &str)]) -> Command {
    let mut command = wrap_in_shell(plain, &format!("ulimit -v {ADDRESS_SPACE_KIB}"));
    let quick = [
        ("RETRO_SWEEP_INTERVAL_MS", "200"),
        ("RETRO_LEASE_S", "2"),
        ("RETRO_ACK_WAIT_S", "1"),
        ("NO_COLOR", "1"),
    ];
    command.envs(quick.iter().chain(environment).copied()).stdin(Stdio::null()).stdout(Stdio::null());
    command.kill_on_drop(true);
    command
}

async fn supervise_process(
    mut command: Command,
    log: std::path::PathBuf,
    stop: CancellationToken,
    dying: watch::Sender<Vec<ExitStatus>>,
) -> ExitStatus {
    loop {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&log);
        let mut process =
            command.stderr(log.expect("the log can be written")).spawn().expect("the command starts");
        let ended = tokio::select! {
            ended = process.wait() => ended.expect("our own child"),
            () = stop.cancelled() => return terminate_and_wait(process).await,
        };
        dying.send_modify(|deaths| deaths.push(ended));
        assert!(dying.borrow().len() < DEATHS_MAX, "the process always dies: {:?}", *dying.borrow());
    }
}

async fn terminate_and_wait(mut process: Child) -> ExitStatus {
    terminate(process.id().expect("the process was not reaped"));
    process.wait().await.expect("our own child")
}
