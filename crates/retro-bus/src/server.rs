//! The supervised nats-server behind `retro up`.
//!
//! **The need.** One command starts everything, and the broker has to be there as long as we are: started again when
//! it dies or hangs, on the same port and store, since clients reconnect to the address that they know; and gone when
//! we are gone, even by SIGKILL, or the next start would find its port taken and its store in use.
//!
//! **The design.** `sh` starts a watcher in the background and then *becomes* the server (`exec`), as the leader of a
//! process group of its own. The watcher blocks reading a pipe whose other end only this process holds. However this
//! process ends, the kernel closes that end, and the watcher kills the server. The pid cannot be somebody else's by
//! then: it is the group's id, and the kernel does not give it out while the watcher is in the group. The group of
//! its own also keeps a Ctrl-C in the terminal away from the server, so that consumers can still answer their messages.
//!
//! The server's output file is its lock: an exclusive `flock` that the server itself inherits and holds until it is
//! really gone, so that no second one is started on the same store, not even beside one that is dying.
//!
//! **Who may connect.** Loopback is open to everybody on the machine. So the server takes only whoever has the credential in
//! its folder, which only the folder's owner can read (`credential.rs`). Its monitoring port tells who asks how it is and what its
//! streams are called, and no message.
//!
//! **A full disk.** The server stops writing to the stream that it could not write to, goes on answering, and does not
//! begin again when there is room: it has to be started again then, and not before.
//!
//! **What we did not do.** `PR_SET_PDEATHSIG` follows the *thread* that started the child, not the process, so an idle
//! worker thread of the runtime that retires takes the broker along; it exists on Linux only, and it has to be set
//! between `fork` and `exec`, which takes `unsafe` or a hidden mode of our own `main`. The pipe needs none of that.
//!
//! **Races accepted.** A free port is chosen by binding it for a moment; somebody else may take it before the server
//! does. Then the start fails, and it is tried again with another one. A port that is given stays; the one for
//! looking at the server's health is always chosen.

mod binary;
mod child;
mod config;
mod credential;
mod health;
mod private;
mod room;
mod supervise;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use child::Installation;
pub use supervise::State;

/// How long a server may take until it is healthy: after a crash it reads its store again.
const HEALTHY_WITHIN: Duration = Duration::from_secs(60);
/// A free port that we chose may be taken by somebody else before the server binds it; not this often.
const PORT_ATTEMPTS: u32 = 3;

/// What the server is started with.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The binary; otherwise `RETRO_NATS_SERVER`, then `PATH`, then `.tools/bin` above the executable or the current
    /// directory. The first one found decides.
    pub binary: Option<PathBuf>,
    /// The server's own folder, for its owner alone: its store, configuration, credential, log and lock.
    pub data_dir: PathBuf,
    /// The port on the loopback interface; `None` takes a free one.
    pub port: Option<u16>,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No binary was found.
    #[error(
        "no nats-server was found (looked at {0}): run .ci/install-tools, put nats-server 2.14.1 or newer into PATH, \
         name one in RETRO_NATS_SERVER, or set NATS_URL to a broker that runs already"
    )]
    NotFound(String),
    /// The binary is older than what we need.
    #[error("{path} is nats-server {found}, and 2.14.1 or newer is needed")]
    TooOld {
        /// The binary.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// The binary does not say which version it is.
    #[error("{path} does not answer like a nats-server: {problem}")]
    NotAServer {
        /// The binary.
        path: PathBuf,
        /// What it did instead.
        problem: String,
    },
    /// Another process has a server on this store.
    #[error("a nats-server is already at work on {0}; stop it, or choose another data folder")]
    InUse(PathBuf),
    /// The file of the credential holds none.
    #[error(
        "{0} holds no credential for the broker: 32 to 256 letters, digits, `-` or `_` on one line; delete it, and the next \
         start generates one"
    )]
    Credential(PathBuf),
    /// It was started and did not become healthy.
    #[error("nats-server did not become healthy: {problem}; its log is {log}")]
    Unhealthy {
        /// What happened.
        problem: String,
        /// Where to look.
        log: PathBuf,
    },
    /// A file or process could not be made.
    #[error("could not {action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl ServerError {
    fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}

/// A nats-server that runs as long as this value, and never longer than this process.
pub struct NatsServer {
    address: String,
    url: String,
    state: watch::Receiver<State>,
    stop: CancellationToken,
    supervisor: Option<JoinHandle<()>>,
}

impl NatsServer {
    /// The server that [`NatsServer::start`] would take, and its version. Fails like it when there is none, or one that
    /// is too old.
    pub async fn usable(configured: Option<&Path>) -> Result<(PathBuf, String), ServerError> {
        let path = binary::find(configured)?;
        let version = binary::check_version(&path).await?;
        Ok((path, version))
    }

    /// Starts a server and returns when it is healthy; from then on it is watched and started again when it dies.
    pub async fn start(config: ServerConfig) -> Result<Self, ServerError> {
        let (binary, _) = Self::usable(config.binary.as_deref()).await?;
        let mut installation = Installation::prepare(binary, &config.data_dir, config.port).await?;
        let mut attempt = 1;
        let child = loop {
            match installation.start(HEALTHY_WITHIN).await {
                Ok(child) => break child,
                Err(error) if attempt == PORT_ATTEMPTS => return Err(error),
                Err(error) => {
                    // With a given port it is the monitoring port that may have been taken.
                    tracing::warn!(attempt, "trying another port: {error}");
                    attempt += 1;
                    installation.choose_ports(config.port)?;
                }
            }
        };
        let stop = CancellationToken::new();
        let (sender, state) = watch::channel(State::Healthy { pid: child.pid() });
        let (address, url) = (installation.address(), installation.url());
        let supervisor = tokio::spawn(supervise::run(installation, child, sender, stop.clone()));
        Ok(Self { address, url, state, stop, supervisor: Some(supervisor) })
    }

    /// Where and as whom clients connect: an address with the credential in it, which no log may have. Stays the same when the
    /// server is started again.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where clients connect to, as host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The server's process, unless it is being started again at this moment.
    pub fn pid(&self) -> Option<u32> {
        match *self.state.borrow() {
            State::Healthy { pid } | State::Frozen { pid, .. } => Some(pid),
            State::Down => None,
        }
    }

    /// What is known of the server, to wait for a change of it.
    pub fn watch(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Waits until the server is healthy.
    pub async fn wait_healthy(&self) {
        let mut state = self.state.clone();
        // It fails only when the supervisor has ended, and then there is nothing to wait for.
        let _ = state.wait_for(|state| matches!(state, State::Healthy { .. })).await;
    }

    /// Asks the server to shut down, waits a bounded time, then kills it.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.await;
        }
    }
}

impl fmt::Debug for NatsServer {
    /// Without the credential in its URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for NatsServer {
    /// Kills the server. The supervisor first, so that it starts no other one; what it holds goes with its task.
    fn drop(&mut self) {
        let Some(supervisor) = &self.supervisor else { return };
        supervisor.abort();
        if let Some(pid) = self.pid() {
            child::kill_group(pid);
        }
    }
}
