//! The loop around every consumer: pull, hand over, answer the broker. Written once.
//!
//! **The need.** A consumer decides and commits; here is everything that can go wrong around it. No message may be
//! acknowledged before its effects or its dead letter are stored; none may be dropped; one that breaks its handler,
//! or kills the whole process, must neither stop the stream nor take its neighbours along.
//!
//! **The design.** A batch of messages that come for the first time goes to the handler whole, in a task of its own,
//! since one transaction for many is what makes it fast. Whatever was delivered before is handled *alone*, and its
//! attempt is counted in the database *before* the handler runs: a message that kills the process has left its mark.
//! A batch whose handler panicked is taken apart the same way, so that only the culprit keeps failing. After
//! [`ATTEMPTS_MAX`] attempts it becomes a dead letter. The first delivery is an attempt that is not counted
//! in the database: the common case pays nothing, and the count there is one short. A message that was handled is
//! forgotten there: it may come again as often as its acknowledgement is lost. One that is a dead letter is only
//! acknowledged when it comes again: its count is forgotten, and a killer would begin a second life.
//!
//! A handler that takes too long is ended, which is an attempt. One that cannot be ended, since it computes without end,
//! ends the process ([`Watchdog`]), as one that aborts or takes all memory does; the message comes again to a new one.
//!
//! Acknowledgements are sent after the commit: plain ones, and the last of a batch confirmed by the broker. Even a
//! confirmed one is a hint: after a crash of the broker some messages come again, and the inbox answers for them.
//!
//! **Races accepted.** A message that was prefetched when the process died was never handled, but counts as delivered
//! once: it is handled alone later, with one attempt fewer. That a message was snoozed (which costs no attempt) is
//! remembered here only; a restart forgets it, and the message pays one attempt. A late acknowledgement may take a
//! message away from another process that is handling it again: both commit through the inbox, so nothing is lost.
//!
//! **What failed.** `max_deliver` and the broker's advisories instead of counting in the database: the advisory is a
//! message that can be lost, and the payload is not in it.

mod answer;
mod handle;
mod pull;
pub(crate) mod read;
mod reconcile;

pub use reconcile::run_reconciler;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use retro_events::{Consumer, Delivery, Durable, subject};
use retro_fault::Label;
use retro_store::{DeliveryStore, Position};
use retro_watchdog::Watchdog;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::{Bus, BusError, topology};
use answer::Acks;
use pull::{Incoming, Next, Pull};

/// How often a message is attempted. Transient trouble has its own answer (snooze), so five failures are no accident.
pub const ATTEMPTS_MAX: u32 = 5;
/// Messages that a consumer may hold unanswered at the broker, waiting ones included: several batches, and room for
/// those that were put off without stopping the rest.
const ACK_PENDING_MAX: u32 = 4096;
/// How long a message may be unanswered: far longer than handling takes, short enough to wait for after a crash.
pub const ACK_WAIT: Duration = Duration::from_secs(30);
/// A handler's work is milliseconds; this frees a stage that hangs.
const HANDLE_MAX: Duration = Duration::from_secs(120);
/// The wait after the first failure that names none (a panic); doubled each time.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// How long stopping waits for the broker to have the last acknowledgements. They are hints; the inbox is the truth.
const FLUSH_MAX: Duration = Duration::from_secs(2);
/// The broker, as measurements name it.
pub(crate) const SYSTEM: &str = "nats";

/// What a consumer takes from where.
#[derive(Debug, Clone)]
pub struct Subscription {
    /// The stream, see [`topology`].
    pub stream: String,
    /// What acknowledging one of its messages is called.
    pub acknowledging: Label,
    /// The subjects or patterns of it.
    pub subjects: Vec<String>,
    /// Messages handed to the consumer at once.
    pub batch_max: usize,
    /// Attempts at a message before it becomes a dead letter.
    pub attempts_max: u32,
    /// The wait after the first failure that names none; doubled each time, at most a minute.
    pub retry_first: Duration,
    /// Messages held unanswered at the broker.
    pub ack_pending_max: u32,
    /// How long the broker waits for an answer, or a sign of progress, before it delivers a message again.
    pub ack_wait: Duration,
    /// How long the handler may take; after that it is ended, which counts as an attempt.
    pub handle_max: Duration,
    /// Ends the process over a handler that cannot be ended.
    pub watchdog: Watchdog,
}

impl Subscription {
    /// What a role's durable consumer takes, `batch_max` messages at a time, with the default bounds.
    pub fn of(durable: Durable, batch_max: usize) -> Self {
        Self::new(durable.stream, &[&subject::all_below(durable.prefix)], batch_max, durable.acknowledging)
    }

    /// The subjects of a stream, `batch_max` messages at a time, with the default bounds.
    pub fn new(stream: impl Into<String>, subjects: &[&str], batch_max: usize, acknowledging: Label) -> Self {
        Self {
            stream: stream.into(),
            acknowledging,
            subjects: subjects.iter().map(|subject| (*subject).to_owned()).collect(),
            batch_max: batch_max.max(1),
            attempts_max: ATTEMPTS_MAX,
            retry_first: RETRY_FIRST,
            ack_pending_max: ACK_PENDING_MAX,
            ack_wait: ACK_WAIT,
            handle_max: HANDLE_MAX,
            watchdog: Watchdog::default(),
        }
    }
}

/// Runs a consumer until `stop`, then finishes what it has asked for: nothing is left to come again. Creates streams and
/// the durable consumer when they are missing (or waits for them, see [`topology::Upkeep`]), and comes back by itself
/// from whatever happens to the broker or the database.
pub async fn run_consumer(
    bus: Bus,
    consumer: Arc<dyn Consumer>,
    subscription: Subscription,
    store: Arc<dyn DeliveryStore>,
    stop: CancellationToken,
) {
    let name = consumer.name();
    let worker = Worker { bus, consumer, subscription, store, put_off: Mutex::default() };
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    while !stop.is_cancelled() {
        match worker.consume(&stop, &mut backoff).await {
            Ok(Ended::Stopped) => break,
            Ok(Ended::Silent) => {
                info!(consumer = name, "{name} heard nothing from the broker and subscribes again")
            }
            Err(error) => {
                let wait = backoff.next_wait();
                warn!(consumer = name, wait_ms = wait.as_millis(), "{name} has to subscribe again: {error}");
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
    }
    if let Err(error) = worker.bus.flush(FLUSH_MAX).await {
        warn!(
            consumer = name,
            "{name} stopped without its last acknowledgements; those messages come again: {error}"
        );
    }
}

/// Why a subscription was left without an error.
enum Ended {
    Stopped,
    Silent,
}

/// A consumer at work.
struct Worker {
    bus: Bus,
    consumer: Arc<dyn Consumer>,
    subscription: Subscription,
    store: Arc<dyn DeliveryStore>,
    /// Positions in the stream that were put off without spending an attempt. At most as many as may be pending.
    put_off: Mutex<HashMap<u64, PutOff>>,
}

/// How a message comes back that was put off without spending an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PutOff {
    /// As if for the first time: its handler answered.
    Snoozed,
    /// Alone, as whatever was delivered before: nothing says that its handler can answer.
    Suspect,
}

impl Worker {
    /// Subscribes and handles batches; returns when stopped, or with what broke the subscription.
    async fn consume(&self, stop: &CancellationToken, backoff: &mut Backoff) -> Result<Ended, BusError> {
        let name = self.consumer.name();
        topology::prepare(&self.bus).await?;
        let durable = topology::durable(&self.bus, name, &self.subscription).await?;
        let mut messages = Pull::open(&self.bus, &durable, self.subscription.batch_max).await?;
        info!(consumer = name, "{name} takes messages from {}", self.subscription.stream);
        loop {
            match messages.next(stop).await {
                Next::Batch(batch) => {
                    backoff.reset();
                    self.work(batch).await;
                }
                Next::Silence => return Ok(Ended::Silent),
                Next::Ended(reason) => return Err(BusError::unavailable(format!("pull for {name}"), reason)),
                Next::Stopped => return Ok(Ended::Stopped),
            }
        }
    }

    /// Handles a batch to the end: every message of it is answered.
    async fn work(&self, batch: Vec<Incoming>) {
        self.measure_taken(&batch);
        let (fresh, suspects): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|one| self.is_fresh(&one.delivery));
        let mut acks = Acks::new(&self.bus);
        let broken = if fresh.is_empty() { Vec::new() } else { self.handle_together(fresh, &mut acks).await };
        for one in broken.into_iter().chain(suspects) {
            acks.send_all().await;
            self.handle_alone(one, &mut acks).await;
        }
        acks.confirm().await;
    }

    fn measure_taken(&self, batch: &[Incoming]) {
        let name = self.consumer.name();
        retro_meter::CONSUMED.add(batch.len() as u64, [SYSTEM, "fetch", name]);
        let again = batch.iter().filter(|one| one.delivery.delivered > 1).count();
        retro_meter::REDELIVERED.add(again as u64, [name]);
    }

    fn is_fresh(&self, delivery: &Delivery) -> bool {
        let put_off = self.messages_put_off().remove(&delivery.sequence);
        delivery.delivered <= 1 || put_off == Some(PutOff::Snoozed)
    }

    fn messages_put_off(&self) -> std::sync::MutexGuard<'_, HashMap<u64, PutOff>> {
        self.put_off.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn position(&self, delivery: &Delivery) -> Position {
        Position {
            consumer: self.consumer.name().to_owned(),
            stream: delivery.stream.clone(),
            sequence: delivery.sequence,
        }
    }
}
