//! Ends the wait for an answer of the broker when the connection is lost.
//!
//! **The need.** The broker answers a request on the connection that brought it. After a crash of the broker the client
//! is connected again within a fraction of a second, but a request that waits for its answer would time out only seconds
//! later. Until then the relay would send nothing, and all work in the system would wait for it.
//!
//! **Accepted race.** A request that the client sends only after it has reconnected may be considered lost although its
//! answer will arrive. Every caller treats the outcome of a lost request as unknown and sends it again.

use std::sync::Arc;

use async_nats::Event;
use tokio::sync::watch;

/// Counts how often the connection was lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionLosses {
    count: Arc<watch::Sender<u64>>,
}

impl ConnectionLosses {
    /// Records a loss that the client reports.
    pub(crate) fn record_event(&self, event: &Event) {
        if matches!(event, Event::Disconnected) {
            self.count.send_modify(|count| *count += 1);
        }
    }

    /// Watches the connection. Must be called before the request is sent.
    pub(crate) fn watch(&self) -> ConnectionWatch {
        ConnectionWatch(self.count.subscribe())
    }
}

/// Notices whether the connection is lost after the start of the watch.
#[derive(Debug)]
pub(crate) struct ConnectionWatch(watch::Receiver<u64>);

/// The connection was lost while a request waited for its answer, so the outcome of the request is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection was lost before the broker's answer")]
pub(crate) struct ConnectionLost;

impl ConnectionWatch {
    /// Waits for an answer. Fails as soon as the connection is lost.
    pub(crate) async fn unless_lost<T>(
        mut self,
        answer: impl Future<Output = T>,
    ) -> Result<T, ConnectionLost> {
        tokio::select! {
            // An answer that arrived before the loss counts.
            biased;
            answer = answer => Ok(answer),
            // An error means that nobody counts any more, and then no loss is noticed.
            Ok(()) = self.0.changed() => Err(ConnectionLost),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_loss_ends_the_wait_and_an_earlier_loss_or_a_new_connection_does_not() {
        let losses = ConnectionLosses::default();
        losses.record_event(&Event::Disconnected);
        let (watch, other) = (losses.watch(), losses.watch());
        losses.record_event(&Event::Connected);
        assert_eq!(watch.unless_lost(tokio::task::yield_now()).await, Ok(()));
        losses.record_event(&Event::Disconnected);
        assert_eq!(other.unless_lost(pending::<()>()).await, Err(ConnectionLost));
    }

    #[tokio::test]
    async fn an_answer_that_arrived_before_the_loss_counts() {
        let losses = ConnectionLosses::default();
        let watch = losses.watch();
        losses.record_event(&Event::Disconnected);
        assert_eq!(watch.unless_lost(ready(1)).await, Ok(1));
    }
}
