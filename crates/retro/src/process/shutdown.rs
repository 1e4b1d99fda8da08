//! Shuts the process down gracefully on a signal.

use std::time::Duration;

use anyhow::bail;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::warn;

use super::running::RunningProcess;
use crate::exit::Exit;
use crate::output;

/// Timeout for flushing the last acknowledgements. They only prevent redeliveries; the inbox decides which
/// messages were handled.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Extra time for the shutdown beyond `shutdown_grace_s`, to release leases, flush acknowledgements and allow
/// for a slow database.
const SHUTDOWN_MARGIN: Duration = Duration::from_secs(8);

/// Signals that end the process. No signal is lost once this value exists.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal and returns its kind.
    pub(crate) async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        }
    }
}

impl RunningProcess {
    /// Waits until all tasks have finished. A second signal ends the process immediately. Fails if the tasks
    /// take longer than `shutdown_grace_s` plus [`SHUTDOWN_MARGIN`].
    pub(super) async fn shut_down(self, signals: &mut Signals) -> anyhow::Result<Exit> {
        output::print_notice("shutting down; a second signal exits at once");
        self.stop.cancel();
        // `wait` returns only after the tracker is closed.
        self.tasks.close();
        let limit = Duration::from_secs(self.process.config.shutdown_grace_s) + SHUTDOWN_MARGIN;
        let drained = async {
            self.tasks.wait().await;
            // Flushed after the tasks, which send their last acknowledgements while they end.
            if let Err(problem) = self.process.bus.flush(FLUSH_TIMEOUT).await {
                warn!(
                    "shut down without the last acknowledgements; those messages will be redelivered: {problem}"
                );
            }
        };
        tokio::select! {
            () = drained => Ok(Exit::Done),
            again = signals.next() => Ok(Exit::Signalled(again)),
            () = tokio::time::sleep(limit) => bail!(
                "the shutdown did not finish within {} s; nothing is lost, another process or the next start \
                 continues the work",
                limit.as_secs()
            ),
        }
    }
}
