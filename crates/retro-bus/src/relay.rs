//! The outbox relay: what a transaction promised to say is said, at least once, under an id that makes once of it.
//!
//! Publish, wait for the broker's acknowledgement, mark as sent. A crash between the two publishes again under the
//! same id, which the broker drops within its window and every consumer survives after it. Several relays at once
//! are harmless for the same reason.

use std::sync::Arc;
use std::time::Duration;

use retro_core::id::MessageId;
use retro_core::message::Message;
use retro_events::Publisher;
use retro_fault::{Guard, broken};
use retro_store::OutboxStore;
use retro_trace::Work;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::backoff::Backoff;
use crate::consume::SYSTEM;

/// How long a message waits at most when nobody rings, as in a fleet, where other processes write it: a run's way has
/// about a dozen such steps. A look that finds nothing is one read of an index.
const POLL_EVERY: Duration = Duration::from_millis(200);
/// As many as the publisher keeps in flight.
const BATCH_MAX: u32 = 256;

/// Feeds the broker from the outbox until `stop`. Ring `wake` after a transaction that wrote messages.
pub async fn run_relay(
    store: Arc<dyn OutboxStore>,
    publisher: Arc<dyn Publisher>,
    wake: Arc<Notify>,
    stop: CancellationToken,
) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    let mut wait = Duration::ZERO;
    // While it fails, ringing does not shorten the wait.
    let mut failing = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = wake.notified(), if !failing => {}
            () = tokio::time::sleep(wait) => {}
        }
        let outcome = relay_batch(&*store, &*publisher).await;
        failing = outcome.is_err();
        wait = match outcome {
            Ok(sent) => {
                backoff.reset();
                if sent == 0 { POLL_EVERY } else { Duration::ZERO }
            }
            Err(reason) => {
                retro_meter::RELAY_FAILED.add(1, []);
                let wait = backoff.next_wait();
                warn!(wait_ms = wait.as_millis(), "the outbox could not be relayed: {reason}");
                wait
            }
        };
    }
}

/// Sends one batch; returns how many.
async fn relay_batch(store: &dyn OutboxStore, publisher: &dyn Publisher) -> Result<usize, String> {
    let mut messages = store.unsent(BATCH_MAX).await.map_err(|error| error.to_string())?;
    if messages.is_empty() {
        return Ok(0);
    }
    let _sending = sending(&mut messages);
    let ids: Vec<MessageId> = messages.iter().map(|message| message.id).collect();
    if broken(Guard::Outbox) {
        store.mark_sent(&ids).await.map_err(|error| error.to_string())?;
    }
    publisher.publish(&messages).await.map_err(|error| error.to_string())?;
    retro_meter::SENT.add(messages.len() as u64, [SYSTEM, "publish"]);
    store.mark_sent(&ids).await.map_err(|error| error.to_string())?;
    debug!(messages = ids.len(), "relayed {} messages", ids.len());
    Ok(ids.len())
}

/// The spans of sending, which whoever receives a message continues. They end when this is dropped.
fn sending(messages: &mut [Message]) -> Vec<Work> {
    let mut works = Vec::new();
    for message in messages {
        if let Some(work) = retro_trace::send(message) {
            message.trace = work.trace();
            works.push(work);
        }
    }
    works
}
