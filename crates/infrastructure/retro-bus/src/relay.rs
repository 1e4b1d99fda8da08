//! Relays the outbox: publishes the messages that transactions wrote, each at least once and under a stable
//! id.
//!
//! The relay publishes a message, waits for the acknowledgement, and then marks the row as sent. After a
//! crash in between, the message is published again under the same id. Within its deduplication window the
//! broker drops the copy; later, every consumer recognizes it. For the same reason several relays may run
//! concurrently.

use std::sync::Arc;
use std::time::Duration;

use retro_core::id::MessageId;
use retro_core::message::Message;
use retro_events::Publisher;
use retro_fault::{Guard, is_broken};
use retro_store::OutboxStore;
use retro_telemetry::trace::Span;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::backoff::Backoff;
use crate::consume::MESSAGING_SYSTEM;

/// Maximum time that a message waits if nobody notifies the relay, because the notification of another process was lost
/// (see [`outbox_wake`](crate::outbox_wake)). A poll that finds nothing costs one index read.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of messages in a batch, equal to the number that the publisher keeps in flight.
const BATCH_MAX: u32 = 256;

/// Publishes the outbox's messages until `stop` is cancelled. Callers notify `wake` after a transaction that wrote
/// messages.
pub async fn run_relay(
    store: Arc<dyn OutboxStore>,
    publisher: Arc<dyn Publisher>,
    wake: Arc<Notify>,
    stop: CancellationToken,
) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    let mut wait = Duration::ZERO;
    // While publishing fails, notifications do not shorten the wait.
    let mut failing = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = wake.notified(), if !failing => {}
            () = tokio::time::sleep(wait) => {}
        }
        // Nothing is attempted while the broker is away, so no backoff delays the first attempt after its return.
        if stop.run_until_cancelled(publisher.wait_until_ready()).await.is_none() {
            return;
        }
        let outcome = relay_batch(&*store, &*publisher).await;
        failing = outcome.is_err();
        wait = match outcome {
            Ok(sent) => {
                backoff.reset();
                if sent == 0 { POLL_INTERVAL } else { Duration::ZERO }
            }
            Err(reason) => {
                retro_telemetry::metrics::RELAY_FAILURES.add(1, []);
                let wait = backoff.next_wait();
                warn!(wait_ms = wait.as_millis(), "the outbox could not be relayed: {reason}");
                wait
            }
        };
    }
}

/// Publishes one batch and returns the number of messages.
async fn relay_batch(store: &dyn OutboxStore, publisher: &dyn Publisher) -> Result<usize, String> {
    let mut messages = store.list_unsent_messages(BATCH_MAX).await.map_err(|error| error.to_string())?;
    if messages.is_empty() {
        return Ok(0);
    }
    // Kept until the batch is published: dropping it ends the spans.
    let _sending = start_send_spans(&mut messages);
    let ids: Vec<MessageId> = messages.iter().map(|message| message.id).collect();
    // Fault injection: marks messages as sent too early, to prove that the checker detects it.
    if is_broken(Guard::Outbox) {
        store.mark_sent(&ids).await.map_err(|error| error.to_string())?;
    }
    publisher.publish(&messages).await.map_err(|error| error.to_string())?;
    retro_telemetry::metrics::MESSAGES_SENT.add(messages.len() as u64, [MESSAGING_SYSTEM, "publish"]);
    store.mark_sent(&ids).await.map_err(|error| error.to_string())?;
    debug!(messages = ids.len(), "relayed {} messages", ids.len());
    Ok(ids.len())
}

/// Starts a span for sending each message; the receiver continues its trace. The spans end when the result is
/// dropped.
fn start_send_spans(messages: &mut [Message]) -> Vec<Span> {
    let mut works = Vec::new();
    for message in messages {
        if let Some(work) = retro_telemetry::trace::start_send_span(message) {
            message.trace = work.trace_context();
            works.push(work);
        }
    }
    works
}
