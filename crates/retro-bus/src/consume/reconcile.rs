//! The reconciler: what the broker believes to be done is compared with what was done.
//!
//! **The need.** A message that was acknowledged never comes again. Somebody may have acknowledged, terminated or skipped what was
//! never handled: an operator at the broker's command line, a consumer that was edited, a bug of ours.
//!
//! **The design.** Everything at or below the consumer's acknowledgements is read once more, in windows, and compared by the
//! identity of its event with the inbox, and by its position with the dead letters. What is in neither is handed to the
//! handler, as any message that was delivered before: alone, its attempt counted first, a dead letter in the end. So a message
//! that is handed over for nothing does no harm. How far everything is accounted for stands in the database; what is not
//! accounted for is looked at again the next time. The advisories by which the broker says that it gave up on a message only wake
//! the look: they are messages that can be lost.
//!
//! A backstop must not get in the way: between two windows it rests four times as long as the last one took, so that it
//! takes a fifth of one core at most. A stream that is filled faster than that is compared later, not never.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::Subscriber;
use futures::stream::select;
use futures::{FutureExt, StreamExt};
use retro_core::canonical::sha256_hex;
use retro_core::id::ReplayId;
use retro_core::replay::REPLAY_HEADER;
use retro_events::{Accountable, Consumer, Delivery};
use retro_store::broker::{Feed, Look};
use retro_store::{BrokerStore, DeliveryStore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use super::answer::Acks;
use super::pull::Incoming;
use super::{Subscription, Worker, read};
use crate::Bus;
use crate::backstop::{LookError, look};

/// Positions compared at once: one question to the broker and two to the database.
const WINDOW: u64 = 500;
/// Messages that the broker gave up on and that could not be handled yet, remembered until they are.
const GIVEN_UP_MAX: usize = 10_000;
/// The broker's word is followed by its books; and many words at once are one look.
const AFTER_ADVISORY: Duration = Duration::from_millis(250);

/// Compares a consumer's stream with what it did, every `pause` and when the broker gives up on a message, until `stop`. Several
/// processes share the looks.
pub async fn run_reconciler(
    bus: Bus,
    consumer: Arc<dyn Accountable>,
    subscription: Subscription,
    stores: (Arc<dyn DeliveryStore>, Arc<dyn BrokerStore>),
    pause: Duration,
    stop: CancellationToken,
) {
    let (deliveries, broker) = stores;
    let handler: Arc<dyn Consumer> = consumer.clone();
    let worker =
        Worker { bus, consumer: handler, subscription, store: deliveries, put_off: Mutex::default() };
    let mut reconciler = Reconciler { worker, consumer, broker, given_up: BTreeSet::new(), stop };
    let mut advisories = Advisories::listen(&reconciler.worker).await;
    // Half, so that this process is not kept waiting by its own pass before.
    let mut within = pause / 2;
    let stop = reconciler.stop.clone();
    loop {
        // A pass that waits for its database may be left: whatever it has not committed has not happened.
        match stop.run_until_cancelled(reconciler.pass(within)).await {
            None => return,
            Some(Ok(_)) => {}
            Some(Err(problem)) => debug!("the stream was not compared with what was done: {problem}"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => within = pause / 2,
            positions = advisories.next() => {
                reconciler.told(positions);
                within = Duration::ZERO;
            }
        }
    }
}

struct Reconciler {
    worker: Worker,
    consumer: Arc<dyn Accountable>,
    broker: Arc<dyn BrokerStore>,
    /// Positions that the broker has given up on.
    given_up: BTreeSet<u64>,
    stop: CancellationToken,
}

impl Reconciler {
    fn stream(&self) -> &str {
        &self.worker.subscription.stream
    }

    fn told(&mut self, positions: Vec<u64>) {
        for position in positions {
            warn!(stream = self.stream(), "the broker gave up on message {position}; it is looked at");
            if self.given_up.len() < GIVEN_UP_MAX {
                self.given_up.insert(position);
            }
        }
    }

    async fn pass(&mut self, pause: Duration) -> Result<(), LookError> {
        let takers = [self.consumer.name()];
        let seen = look(&self.worker.bus, &*self.broker, self.stream(), &takers, Feed::Nothing).await?;
        let number = match seen.look {
            Look::Recognized { number, .. } => number,
            Look::Replaced { number, .. } => {
                self.given_up.clear();
                number
            }
            // Another stream's positions must not be compared with what was done; the next pass knows more.
            Look::Suspected | Look::Stale => return Ok(()),
        };
        for position in self.given_up.clone() {
            if self.settle(position..=position).await? >= position {
                self.given_up.remove(&position);
            }
        }
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        match self.broker.begin_comparing(self.stream(), number, pause_ms).await? {
            Some(checked) => self.compare(number, checked, seen.handled).await,
            None => Ok(()),
        }
    }

    async fn compare(&self, number: u64, mut checked: u64, handled: u64) -> Result<(), LookError> {
        while checked < handled && !self.stop.is_cancelled() {
            let (begun, to) = (Instant::now(), handled.min(checked + WINDOW));
            let settled = self.settle(checked + 1..=to).await?;
            self.broker.checked(self.stream(), number, settled).await?;
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

    /// Hands over what was not handled in a window. Returns up to where everything in it is accounted for.
    async fn settle(&self, window: RangeInclusive<u64>) -> Result<u64, LookError> {
        let (from, to) = window.into_inner();
        let batch = read::messages(&self.worker.bus, self.stream(), from, to).await?;
        let missing = self.unaccounted(batch).await?;
        if missing.is_empty() {
            return Ok(to);
        }
        for delivery in &missing {
            let (name, sequence) = (self.consumer.name(), delivery.sequence);
            error!(
                consumer = name,
                sequence,
                "message {sequence} is done for the broker and was never handled; {name} is handed it again"
            );
            let mut acks = Acks::new(&self.worker.bus);
            self.worker.handle_alone(Incoming { delivery: delivery.clone(), reply: None }, &mut acks).await;
        }
        let left = self.unaccounted(missing).await?;
        Ok(left.first().map_or(to, |first| first.sequence - 1))
    }

    /// Those of some messages that were neither handled nor given up.
    async fn unaccounted(&self, batch: Vec<Delivery>) -> Result<Vec<Delivery>, LookError> {
        let unhandled = self.consumer.unhandled(&batch).await.map_err(LookError::Consumer)?;
        let unhandled: Vec<Delivery> =
            unhandled.into_iter().filter_map(|nth| batch.get(nth).cloned()).collect();
        if unhandled.is_empty() {
            return Ok(unhandled);
        }
        let asked: Vec<_> = unhandled.iter().map(|one| (one.sequence, sha256_hex(&one.payload))).collect();
        let given_up = self.broker.given_up(self.consumer.name(), self.stream(), &asked).await?;
        let mut left: Vec<Delivery> =
            unhandled.into_iter().filter(|one| !given_up.contains(&one.sequence)).collect();
        let replays: Vec<ReplayId> = left.iter().filter_map(replay).collect();
        if !replays.is_empty() {
            let ended = self.broker.ended_replays(&replays).await?;
            left.retain(|one| replay(one).is_none_or(|id| !ended.contains(&id)));
        }
        Ok(left)
    }
}

/// The replay that a message says it is. Whoever forges it hides a message of their own from this look, and nobody else's.
fn replay(delivery: &Delivery) -> Option<ReplayId> {
    delivery.header(REPLAY_HEADER)?.parse().ok()
}

/// What the broker says when it gives up on a message of a consumer.
struct Advisories(Option<futures::stream::Select<Subscriber, Subscriber>>);

impl Advisories {
    /// Listens, if it can: without them the looks come as often as they come.
    async fn listen(worker: &Worker) -> Self {
        let [one, two] =
            retro_events::rights::advisories(&worker.subscription.stream, worker.consumer.name());
        let client = &worker.bus.client;
        match (client.subscribe(one).await, client.subscribe(two).await) {
            (Ok(one), Ok(two)) => Self(Some(select(one, two))),
            (Err(problem), _) | (_, Err(problem)) => {
                warn!("the broker's advisories are not heard: {problem}");
                Self(None)
            }
        }
    }

    /// Waits for the next ones and returns the positions that they name. Never returns without any to hear.
    async fn next(&mut self) -> Vec<u64> {
        let first = match &mut self.0 {
            Some(messages) => messages.next().await,
            None => None,
        };
        let Some(first) = first else { return std::future::pending().await };
        tokio::time::sleep(AFTER_ADVISORY).await;
        let mut positions: Vec<u64> = position(&first.payload).into_iter().collect();
        while let Some(Some(message)) = self.0.as_mut().and_then(|messages| messages.next().now_or_never()) {
            positions.extend(position(&message.payload));
        }
        positions
    }
}

fn position(advisory: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(advisory).ok()?.get("stream_seq")?.as_u64()
}
