//! Starts and supervises the nats-server behind `retro up`.
//!
//! **The need.** One command starts everything, and the broker has to run as long as this process does. If
//! the broker dies or hangs, it is restarted on the same port and store, because clients reconnect to the
//! same address. It must end when this process ends, even after SIGKILL. Otherwise its port and its store
//! would still be in use at the next start.
//!
//! **The design.** `sh` starts a watcher in the background and then *becomes* the server (`exec`), as the leader of its
//! own process group. The watcher blocks while it reads a pipe whose other end is open only in this process. However
//! this process ends, the kernel closes its end of the pipe, and the watcher kills the server. The pid cannot belong to
//! another process by then: it is the id of the group, and the kernel does not reuse it while the watcher is in the
//! group. The separate group also keeps a Ctrl-C in the terminal away from the server, so that consumers can still
//! acknowledge their messages.
//!
//! The server's output file is its lock: the server inherits an exclusive `flock` and keeps it until its
//! process has ended. No second server can start on the same store, not even while the first one is ending.
//!
//! **Who may connect.** Loopback is open to everybody on the machine, so the server accepts only clients with
//! the credential in its folder, which only the folder's owner can read (`credential.rs`). On the monitoring
//! port everybody can read the server's health and the names of its streams, but no messages.
//!
//! **A full disk.** When a write to a stream fails, the server stops writing to that stream but keeps
//! responding. It does not resume by itself when there is space again, so it has to be restarted then, and
//! not earlier.
//!
//! **Rejected.** `PR_SET_PDEATHSIG` follows the *thread* that started the child, not the process, so an idle
//! worker thread of the runtime that retires takes the broker down with it. It exists on Linux only, and it has
//! to be set between `fork` and `exec`, which takes `unsafe` or a hidden mode of our own `main`. The pipe needs
//! none of that.
//!
//! **Accepted races.** A free port is chosen by binding it for a moment; another process may take it before the server
//! does. The start then fails and is retried with another port. A configured port is kept; the monitoring port is
//! always chosen this way.

mod binary;
mod child;
mod config;
mod credential;
mod disk_space;
mod error;
mod health;
mod private_files;
mod seed;
mod supervise;

use std::fmt;
use std::path::{Path, PathBuf};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use child::{Installation, STARTUP_TIMEOUT};
pub use error::ServerError;
pub use seed::ensure_seed_file;
pub use supervise::ServerState;

/// Maximum number of attempts to start the server. Another process may take the chosen port before the server binds it,
/// but hardly this often.
const PORT_ATTEMPTS: u32 = 3;

/// Configuration of the supervised server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Path of the binary. If `None`, the first binary found is used: from `RETRO_NATS_SERVER`, from `PATH`, or from
    /// `.tools/bin` in any folder above the executable or the current directory.
    pub binary: Option<PathBuf>,
    /// The server's own folder, which only its owner can access. It contains the store, configuration, credential, log
    /// and lock.
    pub data_dir: PathBuf,
    /// Port on the loopback interface; if `None`, a free port is chosen.
    pub port: Option<u16>,
}

/// A nats-server that runs until this value is dropped, and never longer than this process.
pub struct NatsServer {
    address: String,
    url: String,
    state: watch::Receiver<ServerState>,
    stop: CancellationToken,
    supervisor: Option<JoinHandle<()>>,
}

impl NatsServer {
    /// Returns the binary that [`NatsServer::start`] would use, and its version. Fails if no binary is found,
    /// or if the binary is too old or not a nats-server.
    pub async fn find_usable(configured: Option<&Path>) -> Result<(PathBuf, String), ServerError> {
        let path = binary::find_binary(configured)?;
        let version = binary::check_version(&path).await?;
        Ok((path, version))
    }

    /// Starts a server and returns when it is healthy. From then on, the server is supervised and restarted
    /// if it dies or hangs.
    pub async fn start(config: ServerConfig) -> Result<Self, ServerError> {
        let (binary, _) = Self::find_usable(config.binary.as_deref()).await?;
        let mut installation = Installation::prepare(binary, &config.data_dir, config.port).await?;
        let mut attempt = 1;
        let child = loop {
            match installation.start(STARTUP_TIMEOUT).await {
                Ok(child) => break child,
                Err(error) if attempt == PORT_ATTEMPTS => return Err(error),
                Err(error) => {
                    // If the port is configured, the monitoring port may have been taken.
                    tracing::warn!(attempt, "trying another port: {error}");
                    attempt += 1;
                    installation.choose_ports(config.port)?;
                }
            }
        };
        let stop = CancellationToken::new();
        let (sender, state) = watch::channel(ServerState::Healthy { pid: child.pid() });
        let (address, url) = (installation.address(), installation.url());
        let supervisor = tokio::spawn(supervise::supervise_server(installation, child, sender, stop.clone()));
        Ok(Self { address, url, state, stop, supervisor: Some(supervisor) })
    }

    /// Returns the URL that clients connect to. The URL contains the credential and must not be logged. It
    /// stays the same across restarts.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address that clients connect to, as host and port, without the credential.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the server's process id; `None` while the server is being restarted.
    pub fn pid(&self) -> Option<u32> {
        match *self.state.borrow() {
            ServerState::Healthy { pid } | ServerState::WriteBlocked { pid, .. } => Some(pid),
            ServerState::Down => None,
        }
    }

    /// Returns a receiver that observes changes of the server's state.
    pub fn subscribe_state(&self) -> watch::Receiver<ServerState> {
        self.state.clone()
    }

    /// Waits until the server is healthy.
    pub async fn wait_until_healthy(&self) {
        let mut state = self.state.clone();
        // Fails only if the supervisor has ended, and then there is nothing to wait for.
        let _ = state.wait_for(|state| matches!(state, ServerState::Healthy { .. })).await;
    }

    /// Asks the server to shut down, waits for a limited time, and then kills it.
    pub async fn shut_down(mut self) {
        self.stop.cancel();
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.await;
        }
    }
}

impl fmt::Debug for NatsServer {
    /// Formats the server without its URL, which contains the credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for NatsServer {
    /// Kills the server. The supervisor is aborted first, so that it does not restart the server.
    fn drop(&mut self) {
        let Some(supervisor) = &self.supervisor else { return };
        supervisor.abort();
        if let Some(pid) = self.pid() {
            child::kill_group(pid);
        }
    }
}
