//! Signals, and stopping in order.

use std::time::Duration;

use anyhow::bail;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::warn;

use super::{END_WITHIN, Running};
use crate::commands::Exit;
use crate::output;

/// How long the last acknowledgements are waited for. They are hints; the inbox is the truth.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// The signals that ask for an end. None is lost from the moment this is made.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        }
    }
}

impl Running {
    /// Lets every task end. A second signal ends at once; too long a wait fails.
    pub(super) async fn stop_in_order(self, signals: &mut Signals) -> anyhow::Result<Exit> {
        output::told("stopping; a second signal ends at once");
        self.stop.cancel();
        self.tasks.close();
        let patience = Duration::from_secs(self.process.config.finish_s) + END_WITHIN;
        let drained = async {
            self.tasks.wait().await;
            if let Err(problem) = self.process.bus.flush(FLUSH_MAX).await {
                warn!("stopped without the last acknowledgements; those messages come again: {problem}");
            }
        };
        tokio::select! {
            () = drained => Ok(Exit::Done),
            again = signals.next() => Ok(Exit::Signalled(again)),
            () = tokio::time::sleep(patience) => bail!(
                "stopped before everything was drained, after {} s; nothing is lost, another process or the next start \
                 takes it up",
                patience.as_secs()
            ),
        }
    }
}
