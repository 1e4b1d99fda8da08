//! Compares the messages that the broker considers handled with the messages that were handled.
//!
//! **The need.** A message that was acknowledged is never redelivered. But a message that was never handled may have
//! been acknowledged, terminated or skipped: by an operator at the broker's command line, by someone who edited a
//! consumer, or because of a bug in this program.
//!
//! **The design.** Every message at or below the consumer's ack floor is read once more, in windows. Its
//! event's identity is looked up in the inbox, and its position in the dead letters. A message found in
//! neither is handled like any redelivered message: alone, after its attempt is counted, and as a dead letter
//! once its attempts are used up. Handling a message again does no harm. The database stores the position up
//! to which every message is accounted for; later messages are compared in the next pass. The broker reports
//! in advisories that it gave up on a message. Because advisories can be lost, they only start a pass early.
//!
//! The comparison must not slow down the handling of messages: after each window it pauses four times as long as the
//! window took, so it uses at most a fifth of a core. If a stream fills faster than that, its messages are compared
//! later, but they are compared.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::Subscriber;
use futures::stream::select;
use futures::{FutureExt, StreamExt};
use retro_consumer::{Consumer, Reconcilable};
use retro_core::canonical::sha256_hex;
use retro_core::id::ReplayId;
use retro_core::replay::REPLAY_HEADER;
use retro_events::Delivery;
use retro_store::broker::{RepublishScope, StreamCheck};
use retro_store::{BrokerStore, DeliveryStore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use super::acknowledge::PendingAcks;
use super::direct_get;
use super::pull::Incoming;
use super::subscription::Subscription;
use super::worker::Worker;
use crate::Bus;
use crate::stream_check::{StreamCheckError, check_stream};

/// Number of stream positions compared together, with one request to the broker and two queries to the
/// database.
const WINDOW_MESSAGES: u64 = 500;
/// Maximum number of given-up messages to remember until they are handled.
const GIVEN_UP_MAX: usize = 10_000;
/// Wait between an advisory and the pass that it starts. The broker updates its state only after publishing
/// the advisory, and several advisories then start a single pass.
const ADVISORY_DELAY: Duration = Duration::from_millis(250);

/// Compares a consumer's stream with the messages that the consumer handled, until `stop` is cancelled. A pass runs
/// every `pause` and whenever the broker gives up on a message. If several processes run the reconciler, they take
/// turns.
pub async fn run_reconciler(
    bus: Bus,
    consumer: Arc<dyn Reconcilable>,
    subscription: Subscription,
    stores: (Arc<dyn DeliveryStore>, Arc<dyn BrokerStore>),
    pause: Duration,
    stop: CancellationToken,
) {
    let (deliveries, broker) = stores;
    let handler: Arc<dyn Consumer> = consumer.clone();
    let worker =
        Worker { bus, consumer: handler, subscription, store: deliveries, deferred: Mutex::default() };
    let mut reconciler = Reconciler { worker, consumer, broker, given_up: BTreeSet::new(), stop };
    let mut advisories = Advisories::subscribe(&reconciler.worker).await;
    // Half, so that this process does not skip its pass because of its own previous one.
    let mut within = pause / 2;
    let stop = reconciler.stop.clone();
    loop {
        // Cancelling here is safe, because an uncommitted pass has no effect.
        match stop.run_until_cancelled(reconciler.run_pass(within)).await {
            None => return,
            Some(Ok(_)) => {}
            Some(Err(problem)) => debug!("the stream could not be reconciled: {problem}"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => within = pause / 2,
            positions = advisories.next_positions() => {
                reconciler.record_given_up(positions);
                // An advisory starts a pass at once, even if another process has just run one.
                within = Duration::ZERO;
            }
        }
    }
}

struct Reconciler {
    worker: Worker,
    consumer: Arc<dyn Reconcilable>,
    broker: Arc<dyn BrokerStore>,
    /// Stream positions of messages that the broker has given up on and that are not yet accounted for.
    given_up: BTreeSet<u64>,
    stop: CancellationToken,
}

impl Reconciler {
    fn stream_name(&self) -> &str {
        &self.worker.subscription.stream
    }

    fn record_given_up(&mut self, positions: Vec<u64>) {
        for position in positions {
            warn!(
                stream = self.stream_name(),
                "the broker gave up on message {position}; checking whether it was handled"
            );
            // Beyond the limit, the regular comparison finds the message later.
            if self.given_up.len() < GIVEN_UP_MAX {
                self.given_up.insert(position);
            }
        }
    }

    async fn run_pass(&mut self, pause: Duration) -> Result<(), StreamCheckError> {
        let takers = [self.consumer.name()];
        let seen = check_stream(
            &self.worker.bus,
            &*self.broker,
            self.stream_name(),
            &takers,
            RepublishScope::Nothing,
        )
        .await?;
        let number = match seen.check {
            StreamCheck::Recognized { number, .. } => number,
            StreamCheck::Replaced { number, .. } => {
                self.given_up.clear();
                number
            }
            // This may be another stream, whose positions must not be compared with the handled messages; the
            // next pass can tell.
            StreamCheck::Suspected | StreamCheck::Stale => return Ok(()),
        };
        for position in self.given_up.clone() {
            if self.reconcile_window(position..=position).await? >= position {
                self.given_up.remove(&position);
            }
        }
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        match self.broker.begin_reconciliation(self.stream_name(), number, pause_ms).await? {
            Some(checked) => self.reconcile_up_to(number, checked, seen.handled).await,
            None => Ok(()),
        }
    }

    async fn reconcile_up_to(
        &self,
        number: u64,
        mut checked: u64,
        handled: u64,
    ) -> Result<(), StreamCheckError> {
        while checked < handled && !self.stop.is_cancelled() {
            let (begun, to) = (Instant::now(), handled.min(checked + WINDOW_MESSAGES));
            let settled = self.reconcile_window(checked + 1..=to).await?;
            self.broker.record_reconciled(self.stream_name(), number, settled).await?;
            // The rest is compared in the next pass, when these messages may be handled.
            if settled < to {
                return Ok(());
            }
            checked = to;
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = tokio::time::sleep(begun.elapsed() * 4) => {}
            }
        }
        Ok(())
    }

    /// Handles the messages of a window that were not handled. Returns the position up to which all messages are
    /// accounted for.
    async fn reconcile_window(&self, window: RangeInclusive<u64>) -> Result<u64, StreamCheckError> {
        let (from, to) = window.into_inner();
        let batch = direct_get::read_messages(&self.worker.bus, self.stream_name(), from, to).await?;
        let missing = self.find_unaccounted(batch).await?;
        if missing.is_empty() {
            return Ok(to);
        }
        for delivery in &missing {
            let (name, sequence) = (self.consumer.name(), delivery.sequence);
            error!(
                consumer = name,
                sequence,
                "the broker considers message {sequence} done, but it was never handled; {name} handles it now"
            );
            let mut acks = PendingAcks::new(&self.worker.bus);
            // No reply subject: the broker already considers the message acknowledged.
            self.worker.handle_alone(Incoming { delivery: delivery.clone(), reply: None }, &mut acks).await;
        }
        let left = self.find_unaccounted(missing).await?;
        Ok(left.first().map_or(to, |first| first.sequence - 1))
    }

    /// Returns the messages of a batch that were not handled, have no dead letter, and are not ended replays.
    async fn find_unaccounted(&self, batch: Vec<Delivery>) -> Result<Vec<Delivery>, StreamCheckError> {
        let unhandled = self.consumer.find_unprocessed(&batch).await.map_err(StreamCheckError::Consumer)?;
        let unhandled: Vec<Delivery> =
            unhandled.into_iter().filter_map(|nth| batch.get(nth).cloned()).collect();
        if unhandled.is_empty() {
            return Ok(unhandled);
        }
        let positions: Vec<_> =
            unhandled.iter().map(|one| (one.sequence, sha256_hex(&one.payload))).collect();
        let given_up =
            self.broker.find_dead_lettered(self.consumer.name(), self.stream_name(), &positions).await?;
        let mut left: Vec<Delivery> =
            unhandled.into_iter().filter(|one| !given_up.contains(&one.sequence)).collect();
        let replays: Vec<ReplayId> = left.iter().filter_map(parse_replay_id).collect();
        if !replays.is_empty() {
            let ended = self.broker.find_ended_replays(&replays).await?;
            left.retain(|one| parse_replay_id(one).is_none_or(|id| !ended.contains(&id)));
        }
        Ok(left)
    }
}

/// Returns the id of the replay that a message claims to be; `None` without the header. A forged header hides only the
/// forger's own message from this check.
fn parse_replay_id(delivery: &Delivery) -> Option<ReplayId> {
    delivery.header(REPLAY_HEADER)?.parse().ok()
}

/// Subscription to the broker's advisories about messages that it gave up on.
struct Advisories(Option<futures::stream::Select<Subscriber, Subscriber>>);

impl Advisories {
    /// Subscribes to the advisories if possible. Without a subscription, passes run only at their normal interval.
    async fn subscribe(worker: &Worker) -> Self {
        let [one, two] =
            retro_events::permissions::advisory_subjects(&worker.subscription.stream, worker.consumer.name());
        let client = &worker.bus.client;
        match (client.subscribe(one).await, client.subscribe(two).await) {
            (Ok(one), Ok(two)) => Self(Some(select(one, two))),
            (Err(problem), _) | (_, Err(problem)) => {
                warn!("could not subscribe to the broker's advisories: {problem}");
                Self(None)
            }
        }
    }

    /// Waits for the next advisories and returns the stream positions in them. Never returns if there is no
    /// subscription.
    async fn next_positions(&mut self) -> Vec<u64> {
        let first = match &mut self.0 {
            Some(messages) => messages.next().await,
            None => None,
        };
        let Some(first) = first else { return std::future::pending().await };
        tokio::time::sleep(ADVISORY_DELAY).await;
        let mut positions: Vec<u64> = parse_position(&first.payload).into_iter().collect();
        while let Some(Some(message)) = self.0.as_mut().and_then(|messages| messages.next().now_or_never()) {
            positions.extend(parse_position(&message.payload));
        }
        positions
    }
}

fn parse_position(advisory: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(advisory).ok()?.get("stream_seq")?.as_u64()
}
