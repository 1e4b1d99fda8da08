//! Defines the failures to find or start the server.

use std::path::PathBuf;

/// Failure to find or start the server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No binary was found; contains the places that were searched.
    #[error(
        "no nats-server was found (searched {0}): run .ci/install-tools, put nats-server 2.14.1 or newer into PATH, \
         name one in RETRO_NATS_SERVER, or set NATS_URL to a broker that runs already"
    )]
    NotFound(String),
    /// The binary is older than the oldest supported version.
    #[error("{path} is nats-server {found}, and 2.14.1 or newer is needed")]
    TooOld {
        /// Path of the binary.
        path: PathBuf,
        /// Version of the binary.
        found: String,
    },
    /// The binary does not report a version as a nats-server does.
    #[error("{path} does not answer like a nats-server: {problem}")]
    NotAServer {
        /// Path of the binary.
        path: PathBuf,
        /// Reason for the rejection, such as a timeout, an error at start, or the unexpected output.
        problem: String,
    },
    /// Another process already runs a server on the store in this folder.
    #[error("a nats-server already uses {0}; stop it, or choose another data folder")]
    InUse(PathBuf),
    /// The credential file does not contain a valid credential.
    #[error(
        "{0} holds no credential for the broker: 32 to 256 letters, digits, `-` or `_` on one line; delete it, and the next \
         start generates one"
    )]
    Credential(PathBuf),
    /// The file does not contain the seed of an nkey.
    #[error("{0} holds no seed of an nkey; delete it, and a new one is generated")]
    Seed(PathBuf),
    /// The server was started but did not become healthy in time.
    #[error("nats-server did not become healthy: {problem}; its log is {log}")]
    Unhealthy {
        /// The last problem that was observed.
        problem: String,
        /// Path of the server's log file.
        log: PathBuf,
    },
    /// An operation on a file or process failed.
    #[error("could not {action}: {source}")]
    Io {
        /// The action that failed.
        action: String,
        /// Cause of the failure.
        source: std::io::Error,
    },
}

impl ServerError {
    /// Returns a closure for `map_err` that adds the action that failed.
    pub(super) fn io_error(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}
