//! Runs a consumer: pulls messages, calls the handler, and acknowledges the messages.
//!
//! **The need.** A consumer decides what a message means and commits the effects; this module handles everything else
//! that can go wrong. No message may be acknowledged before its effects or its dead letter are stored, and none may be
//! dropped. A message that makes its handler panic, or kills the whole process, must neither stop the stream nor affect
//! other messages.
//!
//! **The design.** Messages delivered for the first time go to the handler as one batch, because one
//! transaction for many messages is fast. The handler runs in a separate task. A message that was delivered
//! before is handled *alone*, and its attempt is counted in the database *before* the handler runs, so a
//! message that kills the process is recognized as a suspect. If the handler panics on a batch, its messages
//! are handled alone in the same way, so only the message that causes the panic fails again. After
//! [`ATTEMPTS_MAX`] attempts that message becomes a dead letter. The first delivery is an attempt that is not
//! counted in the database. The common case therefore costs nothing, and the count in the database is one too
//! low. The count of a handled message is deleted, because the message may be redelivered each time its
//! acknowledgement is lost. A message that is already a dead letter is acknowledged without handling it when
//! it is redelivered. Handling it would start a new count of its attempts, and a message that kills the
//! process would do so again.
//!
//! While one batch is stored, the next one is already parsed, if its consumer can do so
//! ([`Consumer::handle_in_order`]). Batches are stored in the order in which they arrived. A batch with a message that is
//! handled alone shares its time with no other.
//!
//! A handler that takes too long is cancelled, which counts as an attempt. If it cannot be cancelled because
//! it never yields, the [`Watchdog`](retro_consumer::Watchdog) ends the process. A handler that aborts or
//! exhausts memory ends the process as well. In both cases the message is redelivered to a new process.
//!
//! Acknowledgements are sent after the commit; the last one of a batch is confirmed by the broker. Even a confirmed
//! acknowledgement may be lost: after a crash of the broker some messages are redelivered, and the inbox recognizes
//! them.
//!
//! **Accepted races.** A message that was prefetched when the process died was never handled, but counts as delivered
//! once: it is handled alone later, with one attempt fewer. Only this process knows that a message was snoozed (which
//! costs no attempt); after a restart it costs one attempt. A late acknowledgement may remove a message that another
//! process is handling again. Both processes commit through the inbox, so nothing is lost.
//!
//! **Rejected.** `max_deliver` and the broker's advisories could limit the attempts without counting them in
//! the database. But an advisory is itself a message that can be lost, and it does not contain the payload of
//! the failed message.

mod acknowledge;
mod batches;
pub(crate) mod direct_get;
mod handle;
mod pull;
mod reconcile;
mod subscription;
mod worker;

pub use reconcile::run_reconciler;
pub use subscription::{ACK_WAIT, ATTEMPTS_MAX, Subscription};

use std::sync::{Arc, Mutex};
use std::time::Duration;

use retro_consumer::{Consumer, EarlierBatch};
use retro_store::DeliveryStore;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::{Bus, BusError, topology};
use acknowledge::PendingAcks;
use batches::OpenBatches;
use pull::{Incoming, PullEvent, PullSubscription};
use worker::Worker;

/// Timeout at shutdown for flushing the last acknowledgements. A lost acknowledgement is harmless, because
/// the inbox recognizes a redelivered message.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// Name of the messaging system in metric labels.
pub(crate) const MESSAGING_SYSTEM: &str = "nats";

/// Runs a consumer until `stop` is cancelled, then handles the messages that it has already requested, so that none has
/// to be redelivered. Creates missing streams and the durable consumer, or waits for them (see
/// [`topology::TopologyMode`]), and recovers automatically from any failure of the broker or the database.
pub async fn run_consumer(
    bus: Bus,
    consumer: Arc<dyn Consumer>,
    subscription: Subscription,
    store: Arc<dyn DeliveryStore>,
    stop: CancellationToken,
) {
    let name = consumer.name();
    let worker = Worker { bus, consumer, subscription, store, deferred: Mutex::default() };
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    while !stop.is_cancelled() {
        match worker.consume_batches(&stop, &mut backoff).await {
            Ok(SubscriptionEnd::Stopped) => break,
            Ok(SubscriptionEnd::Unresponsive) => {
                info!(consumer = name, "{name} received nothing from the broker and subscribes again")
            }
            Err(error) => {
                let wait = backoff.next_wait();
                warn!(
                    consumer = name,
                    wait_ms = wait.as_millis(),
                    "{name} subscribes again after an error: {error}"
                );
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
    }
    if let Err(error) = worker.bus.flush(FLUSH_TIMEOUT).await {
        warn!(
            consumer = name,
            "{name} stopped without flushing its last acknowledgements; those messages are redelivered: {error}"
        );
    }
}

/// Messages of a batch: those that are handled together, and those that are handled alone.
struct SortedBatch {
    fresh: Vec<Incoming>,
    suspects: Vec<Incoming>,
}

/// Reason why a subscription ended without an error.
enum SubscriptionEnd {
    Stopped,
    Unresponsive,
}

impl Worker {
    /// Subscribes and handles batches. Returns when the consumer is stopped or the broker is unresponsive. Fails if
    /// the subscription breaks.
    async fn consume_batches(
        &self,
        stop: &CancellationToken,
        backoff: &mut Backoff,
    ) -> Result<SubscriptionEnd, BusError> {
        let name = self.consumer.name();
        topology::prepare_streams(&self.bus).await?;
        let durable = topology::prepare_consumer(&self.bus, name, &self.subscription).await?;
        let mut messages =
            PullSubscription::subscribe(&self.bus, &durable, self.subscription.batch_max).await?;
        info!(consumer = name, "{name} reads messages from {}", self.subscription.stream);
        let mut batches = OpenBatches::default();
        let end = loop {
            match batches.drive_until(messages.next(stop)).await {
                PullEvent::Batch(batch) => {
                    backoff.reset();
                    self.record_batch_metrics(&batch);
                    let batch = self.sort_batch(batch);
                    // A suspect may kill the process, so no other batch is open while it is handled.
                    if !batch.suspects.is_empty() {
                        batches.finish().await;
                    }
                    let is_exclusive = !batch.suspects.is_empty();
                    batches.open(|earlier| self.handle_batch(batch, earlier));
                    if is_exclusive {
                        batches.finish().await;
                    }
                    batches.wait_for_room().await;
                }
                PullEvent::Unresponsive => break Ok(SubscriptionEnd::Unresponsive),
                PullEvent::Closed(reason) => {
                    break Err(BusError::unavailable(format!("pull for {name}"), reason));
                }
                PullEvent::Stopped => break Ok(SubscriptionEnd::Stopped),
            }
        };
        batches.finish().await;
        end
    }

    /// Sorts the messages of a batch by the way in which they are handled.
    fn sort_batch(&self, batch: Vec<Incoming>) -> SortedBatch {
        let (fresh, suspects) = batch.into_iter().partition(|one| self.is_fresh(&one.delivery));
        SortedBatch { fresh, suspects }
    }

    /// Handles a batch until each message is acknowledged, deferred or dead-lettered.
    async fn handle_batch(&self, batch: SortedBatch, earlier: EarlierBatch) {
        let SortedBatch { fresh, suspects } = batch;
        let mut acks = PendingAcks::new(&self.bus);
        let broken = if fresh.is_empty() {
            Vec::new()
        } else {
            self.handle_together(fresh, &earlier, &mut acks).await
        };
        earlier.wait_until_ended().await;
        for one in broken.into_iter().chain(suspects) {
            // The next message may kill the process, so the acknowledgements so far must not wait for it.
            acks.send_all().await;
            self.handle_alone(one, &mut acks).await;
        }
        acks.confirm_last().await;
    }

    fn record_batch_metrics(&self, batch: &[Incoming]) {
        let name = self.consumer.name();
        retro_telemetry::metrics::MESSAGES_CONSUMED
            .add(batch.len() as u64, [MESSAGING_SYSTEM, "fetch", name]);
        let again = batch.iter().filter(|one| one.delivery.delivered > 1).count();
        retro_telemetry::metrics::MESSAGES_REDELIVERED.add(again as u64, [name]);
    }
}
