//! One process of the server: its files, its start, its end.

use std::fs::{self, File, TryLockError};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::Instant;

use super::credential::Credential;
use super::private::{append_private, create_private_folder, overwrite_private};
use super::{ServerError, config, health};

/// `$1` is the server, the rest its arguments. Descriptor 3 is the pipe from the supervising process: POSIX gives a
/// background command `/dev/null` as its standard input, so the pipe has to be somewhere else. The server makes its files
/// readable by its group; the mask keeps them for their owner.
const START: &str = r#"umask 077
exec 3<&0 </dev/null
{ while read -r _; do :; done <&3; kill -KILL $$; } >/dev/null 2>&1 &
exec 3<&-
exec "$@""#;
/// How long the store may still be held by the server of a process that was just killed.
const LOCK_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the server may take to write what it has and go; its store survives a kill as well.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// A binary with its folder and ports: whatever is needed to start it again the same.
#[derive(Debug)]
pub(super) struct Installation {
    binary: PathBuf,
    folder: PathBuf,
    port: u16,
    monitoring_port: u16,
    credential: Credential,
    /// Locked; every server inherits it as its output.
    output: File,
}

impl Installation {
    /// Makes the folder, takes its lock, loads or generates the credential and chooses ports.
    pub(super) async fn prepare(
        binary: PathBuf,
        folder: &Path,
        port: Option<u16>,
    ) -> Result<Self, ServerError> {
        create_private_folder(folder)?;
        // The server runs with the folder as it is, not relative to a directory that may change.
        let folder =
            folder.canonicalize().map_err(ServerError::io(format!("resolve {}", folder.display())))?;
        let output = lock(&folder).await?;
        // Under the lock, so that two that start at once have the same one.
        let credential = Credential::load_or_generate(&folder)?;
        let mut installation = Self { binary, folder, port: 0, monitoring_port: 0, credential, output };
        installation.choose_ports(port)?;
        Ok(installation)
    }

    pub(super) fn choose_ports(&mut self, given: Option<u16>) -> Result<(), ServerError> {
        let free = || -> std::io::Result<(TcpListener, u16)> {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let port = listener.local_addr()?.port();
            Ok((listener, port))
        };
        // Both are held until both are chosen, so that they differ.
        let one = free().map_err(ServerError::io("find a free port"))?;
        let other = free().map_err(ServerError::io("find a free port"))?;
        self.port = given.unwrap_or(one.1);
        self.monitoring_port = other.1;
        Ok(())
    }

    /// Where clients connect to, without who they are.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Chooses another port to ask for the server's health. While no server ran on the old one, anybody may have taken it.
    pub(super) fn choose_monitoring_port(&mut self) -> Result<(), ServerError> {
        self.choose_ports(Some(self.port))
    }

    /// Where and as whom clients connect.
    pub(super) fn url(&self) -> String {
        self.credential.url(&self.address())
    }

    pub(super) const fn monitoring_port(&self) -> u16 {
        self.monitoring_port
    }

    pub(super) fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("nats-server.log")
    }

    /// Starts a server and waits until it is healthy; it is killed when it is not in time.
    pub(super) async fn start(&self, healthy_within: Duration) -> Result<ServerChild, ServerError> {
        let mut child = self.spawn()?;
        let unhealthy = |problem: String| ServerError::Unhealthy { problem, log: self.log() };
        let deadline = Instant::now() + healthy_within;
        loop {
            let problem = match health::check(self.monitoring_port).await {
                Ok(()) => return Ok(child),
                Err(problem) => problem,
            };
            if let Some(status) = child.try_wait() {
                return Err(unhealthy(format!("it ended with {status}: {}", self.last_words())));
            }
            if Instant::now() >= deadline {
                return Err(unhealthy(format!("{problem} after {} s", healthy_within.as_secs())));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn spawn(&self) -> Result<ServerChild, ServerError> {
        let config_file = self.folder.join("nats-server.conf");
        let text =
            config::text(&self.store(), &self.log(), self.port, self.monitoring_port, &self.credential);
        overwrite_private(&config_file, text.as_bytes())?;
        let inherit = || self.output.try_clone().map_err(ServerError::io("share the server's output file"));
        let mut child = Command::new("/bin/sh")
            .args(["-c", START, "sh"])
            .arg(&self.binary)
            .arg("--config")
            .arg(&config_file)
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(inherit()?)
            .stderr(inherit()?)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(ServerError::io(format!("start {}", self.binary.display())))?;
        let lifeline = child.stdin.take();
        Ok(ServerChild { group: group_of(&child), child, _lifeline: lifeline })
    }

    /// The last line that the server wrote, to say at once why it is gone.
    fn last_words(&self) -> String {
        let last = |path: PathBuf| {
            let text = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&text).lines().last().map(str::to_owned)
        };
        last(self.log())
            .or_else(|| last(output_file(&self.folder)))
            .unwrap_or_else(|| "it said nothing".to_owned())
    }
}

/// A running server. Killed when dropped.
#[derive(Debug)]
pub(super) struct ServerChild {
    child: Child,
    group: Pid,
    /// The pipe whose closing kills the server. Apart from `child`, since waiting for a child closes its input.
    _lifeline: Option<ChildStdin>,
}

impl ServerChild {
    pub(super) fn pid(&self) -> u32 {
        self.group.as_raw().unsigned_abs()
    }

    /// Waits for the server to end by itself.
    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Asks it to end, waits a bounded time, then kills it.
    pub(super) async fn stop(mut self) {
        let _ = kill(self.group, Signal::SIGTERM);
        if tokio::time::timeout(STOP_WITHIN, self.child.wait()).await.is_err() {
            tracing::warn!("nats-server did not stop within {} s and is killed", STOP_WITHIN.as_secs());
        }
        self.kill().await;
    }

    /// Kills it with its watcher and waits until it is gone.
    pub(super) async fn kill(mut self) {
        kill_group(self.pid());
        let _ = self.child.wait().await;
    }

    fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

/// Kills a server with its watcher at once, without waiting for their end.
pub(super) fn kill_group(pid: u32) {
    if let Ok(group) = i32::try_from(pid) {
        // It fails when they are gone already.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
}

fn group_of(child: &Child) -> Pid {
    let id =
        child.id().and_then(|id| i32::try_from(id).ok()).expect("a child that was not waited for has an id");
    Pid::from_raw(id)
}

fn output_file(folder: &Path) -> PathBuf {
    folder.join("nats-server.out")
}

/// Opens and locks the server's output file. The server of a process that was killed a moment ago may still hold it.
async fn lock(folder: &Path) -> Result<File, ServerError> {
    let path = output_file(folder);
    let file = append_private(&path)?;
    let deadline = Instant::now() + LOCK_WITHIN;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                tokio::time::sleep(LOOK_EVERY).await
            }
            Err(TryLockError::WouldBlock) => return Err(ServerError::InUse(folder.to_owned())),
            Err(TryLockError::Error(error)) => {
                return Err(ServerError::io(format!("lock {}", path.display()))(error));
            }
        }
    }
}
