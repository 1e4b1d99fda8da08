//! Watching the server and starting it again.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::HEALTHY_WITHIN;
use super::child::{Installation, ServerChild};
use super::{health, room};
use crate::backoff::Backoff;

const CHECK_EVERY: Duration = Duration::from_secs(1);
/// This many failed checks in a row and it is started again: five seconds of a server that says that it is not well,
/// fifteen of one that says nothing.
const UNHEALTHY_CHECKS_MAX: u32 = 5;
/// Having been well for this long, a server that dies is started again at once.
const WELL_AFTER: u32 = 30;

/// What is known of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It runs and answers.
    Healthy {
        /// Its process.
        pid: u32,
    },
    /// It runs and cannot write. It is started again once its disk has room.
    Frozen {
        /// Its process.
        pid: u32,
        /// Where its disk is, what it says, and what to do.
        problem: String,
    },
    /// It is being started again.
    Down,
}

/// Watches `child` and its successors until `stop`.
pub(super) async fn run(
    mut installation: Installation,
    mut child: ServerChild,
    state: watch::Sender<State>,
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
        state.send_replace(State::Healthy { pid: child.pid() });
        let watched = tokio::select! {
            () = stop.cancelled() => None,
            reason = until_unwell(&mut child, &installation, &mut backoff, &state) => Some(reason),
        };
        let Some(reason) = watched else {
            child.stop().await;
            return;
        };
        error!(pid = child.pid(), "nats-server has to be started again: {reason}");
        state.send_replace(State::Down);
        child.kill().await;
        let Some(successor) = start_again(&mut installation, &mut backoff, &stop).await else { return };
        child = successor;
    }
}

/// Waits until the server ends or stays unhealthy; returns what it was.
async fn until_unwell(
    child: &mut ServerChild,
    installation: &Installation,
    backoff: &mut Backoff,
    state: &watch::Sender<State>,
) -> String {
    let (mut well, mut unwell) = (0, 0);
    let monitoring_port = installation.monitoring_port();
    loop {
        tokio::select! {
            status = child.ended() => return format!("it ended with {status}"),
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
        match health::check(monitoring_port).await {
            Ok(()) => {
                (well, unwell) = (well + 1, 0);
                if well == WELL_AFTER {
                    backoff.reset();
                }
                if let Some(problem) = health::cannot_write(monitoring_port).await
                    && let Some(reason) = frozen(child.pid(), installation, &problem, state)
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

/// What is to be done with a server that cannot write: nothing while its disk has no room, since a successor could not
/// write either, and this one still hands out what it has. Returns why it is to be started again, if it is.
fn frozen(
    pid: u32,
    installation: &Installation,
    problem: &str,
    state: &watch::Sender<State>,
) -> Option<String> {
    let store = installation.store();
    if room::is_there(&store) {
        return Some(format!("it could not write, and {} has room by now: {problem}", store.display()));
    }
    let problem = format!(
        "the broker's disk has no room: free some under {}; nothing that was taken is lost, nothing more is taken, and it \
         is started again as soon as it can write ({problem})",
        store.display()
    );
    let is_news = !matches!(&*state.borrow(), State::Frozen { .. });
    if is_news {
        error!(pid, "nats-server cannot write: {problem}");
        state.send_replace(State::Frozen { pid, problem });
    }
    None
}

/// Starts the server again on the same port and store, as often as it takes; `None` when told to stop.
async fn start_again(
    installation: &mut Installation,
    backoff: &mut Backoff,
    stop: &CancellationToken,
) -> Option<ServerChild> {
    loop {
        let attempt = async {
            tokio::time::sleep(backoff.next_wait()).await;
            installation.choose_monitoring_port()?;
            installation.start(HEALTHY_WITHIN).await
        };
        tokio::select! {
            () = stop.cancelled() => return None,
            started = attempt => match started {
                Ok(child) => return Some(child),
                Err(problem) => error!("nats-server could not be started again: {problem}"),
            }
        }
    }
}
