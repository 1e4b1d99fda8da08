//! Starts and stops one process of the server, and prepares its files.

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
use super::error::ServerError;
use super::private_files::{append_private_file, create_private_folder, overwrite_private_file};
use super::{config, health};

/// Timeout for a server to become healthy. After a crash, the server reads its whole store first.
pub(super) const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);
/// Shell script that starts the watcher and then the server. `$1` is the server's path, followed by its arguments.
/// Descriptor 3 is the pipe from the supervising process: POSIX gives a background command `/dev/null` as its standard
/// input, so the pipe needs another descriptor. The server creates files that its group can read; the umask keeps them
/// private to the owner.
const START_SCRIPT: &str = r#"umask 077
exec 3<&0 </dev/null
{ while read -r _; do :; done <&3; kill -KILL $$; } >/dev/null 2>&1 &
exec 3<&-
exec "$@""#;
/// Timeout for a server to release the store after its supervising process was killed.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Timeout for the server to flush and exit before it is killed. The store also survives a kill.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A binary with its folder and ports: everything needed to start the same server again.
#[derive(Debug)]
pub(super) struct Installation {
    binary: PathBuf,
    folder: PathBuf,
    port: u16,
    monitoring_port: u16,
    credential: Credential,
    /// The locked output file, which every process of the server inherits.
    output: File,
}

impl Installation {
    /// Creates the folder, locks it, loads or generates the credential, and chooses the ports.
    pub(super) async fn prepare(
        binary: PathBuf,
        folder: &Path,
        port: Option<u16>,
    ) -> Result<Self, ServerError> {
        create_private_folder(folder)?;
        // An absolute path for the server, because the current directory may change.
        let folder =
            folder.canonicalize().map_err(ServerError::io_error(format!("resolve {}", folder.display())))?;
        let output = lock_output_file(&folder).await?;
        // Under the lock, so that two processes that start concurrently get the same credential.
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
        // Both listeners are held until both ports are chosen, so that the ports differ.
        let one = free().map_err(ServerError::io_error("find a free port"))?;
        let other = free().map_err(ServerError::io_error("find a free port"))?;
        self.port = given.unwrap_or(one.1);
        self.monitoring_port = other.1;
        Ok(())
    }

    /// Returns the host and port that clients connect to, without the credential.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Chooses another monitoring port, because another process may have taken the previous one while no server ran.
    pub(super) fn choose_monitoring_port(&mut self) -> Result<(), ServerError> {
        self.choose_ports(Some(self.port))
    }

    /// Returns the URL that clients connect to, with the credential.
    pub(super) fn url(&self) -> String {
        self.credential.url(&self.address())
    }

    pub(super) const fn monitoring_port(&self) -> u16 {
        self.monitoring_port
    }

    pub(super) fn store_folder(&self) -> PathBuf {
        self.folder.join("store")
    }

    pub(super) fn log_file(&self) -> PathBuf {
        self.folder.join("nats-server.log")
    }

    /// Starts a server and waits until it is healthy. A server that is not healthy in time is killed.
    pub(super) async fn start(&self, healthy_within: Duration) -> Result<ServerChild, ServerError> {
        let mut child = self.spawn()?;
        let unhealthy = |problem: String| ServerError::Unhealthy { problem, log: self.log_file() };
        let deadline = Instant::now() + healthy_within;
        loop {
            let problem = match health::check_health(self.monitoring_port).await {
                Ok(()) => return Ok(child),
                Err(problem) => problem,
            };
            if let Some(status) = child.try_wait() {
                return Err(unhealthy(format!("it ended with {status}: {}", self.last_log_line())));
            }
            if Instant::now() >= deadline {
                return Err(unhealthy(format!("{problem} after {} s", healthy_within.as_secs())));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn spawn(&self) -> Result<ServerChild, ServerError> {
        let config_file = self.folder.join("nats-server.conf");
        let text = config::render_config(
            &self.store_folder(),
            &self.log_file(),
            self.port,
            self.monitoring_port,
            &self.credential,
        );
        overwrite_private_file(&config_file, text.as_bytes())?;
        let inherit =
            || self.output.try_clone().map_err(ServerError::io_error("share the server's output file"));
        let mut child = Command::new("/bin/sh")
            .args(["-c", START_SCRIPT, "sh"])
            .arg(&self.binary)
            .arg("--config")
            .arg(&config_file)
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(inherit()?)
            .stderr(inherit()?)
            // A separate process group, so that a Ctrl-C in the terminal does not reach the server.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(ServerError::io_error(format!("start {}", self.binary.display())))?;
        let lifeline = child.stdin.take();
        Ok(ServerChild { group: group_of(&child), child, _lifeline: lifeline })
    }

    /// Returns the last line that the server logged, which shows why it ended.
    fn last_log_line(&self) -> String {
        let last = |path: PathBuf| {
            let text = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&text).lines().last().map(str::to_owned)
        };
        last(self.log_file())
            .or_else(|| last(output_file(&self.folder)))
            .unwrap_or_else(|| "it said nothing".to_owned())
    }
}

/// A running server, which is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct ServerChild {
    child: Child,
    group: Pid,
    /// Pipe that keeps the server alive: closing it kills the server. It is separate from `child`, because
    /// waiting for a child closes its stdin.
    _lifeline: Option<ChildStdin>,
}

impl ServerChild {
    pub(super) fn pid(&self) -> u32 {
        self.group.as_raw().unsigned_abs()
    }

    /// Waits until the server exits on its own.
    pub(super) async fn wait_until_exit(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Asks the server to exit, waits for a limited time, and then kills it.
    pub(super) async fn stop(mut self) {
        // Only to the server: without its watcher, a server that hangs could outlive this process.
        let _ = kill(self.group, Signal::SIGTERM);
        if tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await.is_err() {
            tracing::warn!("nats-server did not stop within {} s and is killed", STOP_TIMEOUT.as_secs());
        }
        self.kill_and_wait().await;
    }

    /// Kills the server together with its watcher and waits until the server has exited.
    pub(super) async fn kill_and_wait(mut self) {
        kill_group(self.pid());
        let _ = self.child.wait().await;
    }

    fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

/// Kills a server together with its watcher, without waiting for them to exit.
pub(super) fn kill_group(pid: u32) {
    if let Ok(group) = i32::try_from(pid) {
        // Fails if they are already gone.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
}

fn group_of(child: &Child) -> Pid {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).expect("an unreaped child has a pid");
    Pid::from_raw(id)
}

fn output_file(folder: &Path) -> PathBuf {
    folder.join("nats-server.out")
}

/// Opens and locks the server's output file. Waits for the lock, because the server of a process that was just killed
/// may still have it.
async fn lock_output_file(folder: &Path) -> Result<File, ServerError> {
    let path = output_file(folder);
    let file = append_private_file(&path)?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                tokio::time::sleep(POLL_INTERVAL).await
            }
            Err(TryLockError::WouldBlock) => return Err(ServerError::InUse(folder.to_owned())),
            Err(TryLockError::Error(error)) => {
                return Err(ServerError::io_error(format!("lock {}", path.display()))(error));
            }
        }
    }
}
