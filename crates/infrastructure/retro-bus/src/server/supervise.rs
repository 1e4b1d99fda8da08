//! Supervises the server and restarts it if it dies or hangs.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::child::{Installation, STARTUP_TIMEOUT, ServerChild};
use super::{disk_space, health};
use crate::backoff::Backoff;

const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of consecutive failed checks before the server is restarted: after five seconds if the server
/// reports that it is unhealthy, and after fifteen if it does not respond.
const UNHEALTHY_CHECKS_MAX: u32 = 5;
/// Number of healthy checks after which the backoff is reset, so the server is restarted immediately after a
/// later failure.
const STABLE_AFTER_CHECKS: u32 = 30;

/// State of the supervised server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// The server runs and is healthy.
    Healthy {
        /// Process id of the server.
        pid: u32,
    },
    /// The server runs but cannot write. It is restarted once its disk has space.
    WriteBlocked {
        /// Process id of the server.
        pid: u32,
        /// Description of the problem: the server's store, its error, and the remedy.
        problem: String,
    },
    /// The server does not run or is unhealthy, and is being restarted.
    Down,
}

/// Supervises `child`, and the servers that replace it, until `stop` is cancelled.
pub(super) async fn supervise_server(
    mut installation: Installation,
    mut child: ServerChild,
    state: watch::Sender<ServerState>,
    stop: CancellationToken,
) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
    loop {
        info!(
            pid = child.pid(),
            address = installation.address(),
            "nats-server is healthy at {}",
            installation.address()
        );
        state.send_replace(ServerState::Healthy { pid: child.pid() });
        let watched = tokio::select! {
            () = stop.cancelled() => None,
            reason = wait_until_unhealthy(&mut child, &installation, &mut backoff, &state) => Some(reason),
        };
        let Some(reason) = watched else {
            child.stop().await;
            return;
        };
        error!(pid = child.pid(), "nats-server is restarted: {reason}");
        state.send_replace(ServerState::Down);
        child.kill_and_wait().await;
        let Some(successor) = restart_server(&mut installation, &mut backoff, &stop).await else { return };
        child = successor;
    }
}

/// Waits until the server exits or stays unhealthy, and returns the reason.
async fn wait_until_unhealthy(
    child: &mut ServerChild,
    installation: &Installation,
    backoff: &mut Backoff,
    state: &watch::Sender<ServerState>,
) -> String {
    let (mut well, mut unwell) = (0, 0);
    let monitoring_port = installation.monitoring_port();
    loop {
        tokio::select! {
            status = child.wait_until_exit() => return format!("it ended with {status}"),
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
        match health::check_health(monitoring_port).await {
            Ok(()) => {
                (well, unwell) = (well + 1, 0);
                if well == STABLE_AFTER_CHECKS {
                    backoff.reset();
                }
                if let Some(problem) = health::find_write_error(monitoring_port).await
                    && let Some(reason) = handle_write_error(child.pid(), installation, &problem, state)
                {
                    return reason;
                }
            }
            Err(problem) => {
                unwell += 1;
                warn!(checks = unwell, "nats-server is not healthy: {problem}");
                if unwell == UNHEALTHY_CHECKS_MAX {
                    return format!("{problem}, {unwell} checks in a row");
                }
            }
        }
    }
}

/// Handles a server that cannot write. While its disk is full the server keeps running, because it still serves its
/// stored messages, and a restarted server could not write either. Returns the reason for a restart once there is
/// space.
fn handle_write_error(
    pid: u32,
    installation: &Installation,
    problem: &str,
    state: &watch::Sender<ServerState>,
) -> Option<String> {
    let store = installation.store_folder();
    if disk_space::has_free_space(&store) {
        return Some(format!("it could not write, and {} has free space again: {problem}", store.display()));
    }
    let problem = format!(
        "the broker's disk is full: free space under {}; no acknowledged message is lost, no new one is accepted, and the broker \
         is restarted as soon as it can write ({problem})",
        store.display()
    );
    let is_news = !matches!(&*state.borrow(), ServerState::WriteBlocked { .. });
    if is_news {
        error!(pid, "nats-server cannot write: {problem}");
        state.send_replace(ServerState::WriteBlocked { pid, problem });
    }
    None
}

/// Restarts the server on the same port and store, with backoff, until it is healthy. Returns `None` if
/// stopped.
async fn restart_server(
    installation: &mut Installation,
    backoff: &mut Backoff,
    stop: &CancellationToken,
) -> Option<ServerChild> {
    loop {
        let attempt = async {
            tokio::time::sleep(backoff.next_wait()).await;
            installation.choose_monitoring_port()?;
            installation.start(STARTUP_TIMEOUT).await
        };
        tokio::select! {
            () = stop.cancelled() => return None,
            started = attempt => match started {
                Ok(child) => return Some(child),
                Err(problem) => error!("nats-server could not be restarted: {problem}"),
            }
        }
    }
}
