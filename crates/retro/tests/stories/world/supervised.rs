//! A process that whoever looks after it starts again each time it ends, as compose and Kubernetes do.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::process::terminate;
use super::{TEST_TIMEOUT, World};

/// More than any poison may cost; a process that only dies is not started for ever.
const DEATHS_MAX: usize = 12;

/// What a process can be limited to, KiB of addresses: far more than it needs, and soon used up by one that hogs.
const ADDRESSES_KIB: u64 = 6 * 1024 * 1024;

/// The roles of one process, at work from its start to [`Supervised::stop`] however often it dies.
pub(crate) struct Supervised {
    deaths: watch::Receiver<Vec<ExitStatus>>,
    stop: CancellationToken,
    task: JoinHandle<ExitStatus>,
}

impl Supervised {
    /// Starts a process with these roles on a world's broker and database, under a limit of memory.
    pub(crate) fn start(world: &World, roles: &str, environment: &[(&str, &str)]) -> Self {
        let arguments = ["serve", "--role", roles, "--http-listen", "127.0.0.1:0"];
        let command = limited(&world.command(&arguments), environment);
        let log = world.path("retro.log");
        let (dying, deaths) = watch::channel(Vec::new());
        let stop = CancellationToken::new();
        let asked = stop.clone();
        let task = tokio::spawn(supervise(command, log, asked, dying));
        Self { deaths, stop, task }
    }

    /// How its processes have died so far.
    pub(crate) fn deaths(&self) -> Vec<ExitStatus> {
        self.deaths.borrow().clone()
    }

    /// Ends it for good; returns how its processes had died before, and how the last one did that did not end in order.
    pub(crate) async fn stop(self) -> Vec<ExitStatus> {
        self.stop.cancel();
        let ended = tokio::time::timeout(TEST_TIMEOUT, self.task).await.expect("it stops").expect("no panic");
        let died = Some(ended).filter(|ended| !ended.success());
        self.deaths.borrow().iter().copied().chain(died).collect()
    }
}

/// The exit codes of processes that ended themselves, and the signals of others, as negative numbers.
pub(crate) fn causes(deaths: &[ExitStatus]) -> Vec<i32> {
    deaths.iter().map(|death| death.code().or(death.signal().map(|signal| -signal)).unwrap_or(0)).collect()
}

impl World {
    /// Starts the program as from a shell with this mask for new files.
    pub(crate) async fn up_under_umask(&mut self, mask: &str) {
        let up = self.command(&["up", "--nats-port", &self.nats_port.to_string()]);
        let mut up = through_shell(&up, &format!("umask {mask}"));
        up.stdin(Stdio::null()).kill_on_drop(true);
        self.start_up(up, &[]).await;
    }

    /// Starts the program so that it and its broker have at most so much private memory each, KiB.
    pub(crate) async fn up_under_limit(&mut self, kib: usize) {
        let up = self.command(&["up", "--nats-port", &self.nats_port.to_string()]);
        let mut up = through_shell(&up, &format!("ulimit -d {kib}"));
        up.stdin(Stdio::null()).kill_on_drop(true);
        self.start_up(up, &[]).await;
    }
}

/// A command as a shell carries it out after a line of its own.
fn through_shell(plain: &Command, line: &str) -> Command {
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

fn limited(plain: &Command, environment: &[(&str, &str)]) -> Command {
    let mut command = through_shell(plain, &format!("ulimit -v {ADDRESSES_KIB}"));
    let quick =
        [("RETRO_SWEEP_MS", "200"), ("RETRO_LEASE_S", "2"), ("RETRO_ACK_WAIT_S", "1"), ("NO_COLOR", "1")];
    command.envs(quick.iter().chain(environment).copied()).stdin(Stdio::null()).stdout(Stdio::null());
    command.kill_on_drop(true);
    command
}

async fn supervise(
    mut command: Command,
    log: std::path::PathBuf,
    stop: CancellationToken,
    dying: watch::Sender<Vec<ExitStatus>>,
) -> ExitStatus {
    loop {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&log);
        let mut process = command.stderr(log.expect("the log can be written")).spawn().expect("it starts");
        let ended = tokio::select! {
            ended = process.wait() => ended.expect("our own child"),
            () = stop.cancelled() => return end(process).await,
        };
        dying.send_modify(|deaths| deaths.push(ended));
        assert!(dying.borrow().len() < DEATHS_MAX, "it only dies: {:?}", *dying.borrow());
    }
}

async fn end(mut process: Child) -> ExitStatus {
    terminate(process.id().expect("it was not waited for"));
    process.wait().await.expect("our own child")
}
