//! Stores presentations after the agent has its answer, many in one transaction.
//!
//! What was accepted is stored once, however often a transaction fails, and also when the process stops in order. A
//! process that is killed loses what it has accepted and not yet stored: at most [`QUEUED_MAX`] and the batch under way,
//! on an ordinary day those of some milliseconds. The runs report what they were handed when they end.
//!
//! A transaction begins at most every [`BATCH_INTERVAL`], so that it has many rows when many agents ask.
//!
//! An answer is stored in one row first, because its memories are counted on pages all over the database. These rows are
//! applied when agents leave time for it, and during a tenth of the time if they do not. Whoever asks about a run knows
//! both, so only the counts of memories are late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use retro_store::{Presentation, RecallStore, StoreError};
use retro_telemetry::metrics;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::scopes::ContextCache;

/// Maximum number of runs whose presentations wait to be stored.
pub(super) const QUEUED_MAX: usize = 4_096;
/// Maximum number of runs whose presentations are stored in one transaction. A transaction must take much less time than
/// an agent waits, because nothing more is accepted until it has made room in a full queue.
const BATCH_MAX: usize = 512;
/// Shortest time from one transaction to the next, unless somebody waits for it. A transaction costs as much as the rows of
/// dozens of answers, and what a killed process loses is at most twice this time.
const BATCH_INTERVAL: Duration = Duration::from_millis(10);
/// Time without a request after which agents leave time to apply answers.
const IDLE: Duration = Duration::from_millis(50);
/// Maximum number of answers that are applied in one transaction: some 2,500 rows, during which nothing is stored.
const APPLIED_MAX: u32 = 128;
/// Pause after an application while agents ask, as a multiple of the time that it took.
const APPLY_PAUSE_FACTOR: u32 = 9;
/// Number of answers that wait to be applied, above which as many are applied as are stored: half a gigabyte.
const PENDING_MAX: u64 = 1_000_000;
/// Interval at which a gateway that stores nothing looks for what others have left.
const LEFT_LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// Pause after a failed application.
const APPLY_RETRY_WAIT: Duration = Duration::from_secs(2);
/// First and longest pause after a failed transaction.
const RETRY_WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Time that a process that stops waits for the database.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// Time during which a process that stops applies what it has stored. Another one, or the next start, applies the rest.
const STOP_APPLY_TIME: Duration = Duration::from_secs(1);

/// Accepts presentations to be stored. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PresentationQueue {
    sender: mpsc::Sender<Presentation>,
    /// Number of presentations that were stored or given up.
    settled: watch::Receiver<u64>,
    /// Number of accepted ones.
    accepted: Arc<AtomicU64>,
    /// Notified when somebody waits for the next transaction.
    wanted: Arc<Notify>,
}

/// Whether a presentation was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Enqueued {
    Accepted,
    /// The queue stayed full until the deadline.
    Full,
    /// The process stops and accepts nothing more.
    Closed(Presentation),
}

pub(super) struct PresentationWriter {
    store: Arc<dyn RecallStore>,
    cache: Arc<ContextCache>,
    wanted: Arc<Notify>,
    receiver: mpsc::Receiver<Presentation>,
    settled: watch::Sender<u64>,
    /// Upper bound of the number of answers that are stored and not applied.
    pending_max: u64,
    /// Time of the next transaction that stores what was accepted.
    next_batch: Instant,
    /// Time of the next application.
    next_application: Instant,
}

impl PresentationQueue {
    /// Accepts a presentation, or waits until the deadline for a place in the queue.
    pub(crate) async fn enqueue(&self, presentation: Presentation, deadline: Instant) -> Enqueued {
        let place = match self.sender.try_reserve() {
            Ok(place) => place,
            Err(mpsc::error::TrySendError::Closed(())) => return Enqueued::Closed(presentation),
            Err(mpsc::error::TrySendError::Full(())) => {
                match timeout_at(deadline, self.sender.reserve()).await {
                    Ok(Ok(place)) => place,
                    Ok(Err(_)) => return Enqueued::Closed(presentation),
                    Err(_) => return Enqueued::Full,
                }
            }
        };
        // Counted first, or a flush could miss it.
        self.accepted.fetch_add(1, Ordering::SeqCst);
        place.send(presentation);
        Enqueued::Accepted
    }

    /// Waits until everything is settled that was accepted before, or until the deadline.
    pub(crate) async fn flush(&self, deadline: Instant) {
        let accepted = self.accepted.load(Ordering::SeqCst);
        let mut settled = self.settled.clone();
        if *settled.borrow_and_update() < accepted {
            self.wanted.notify_one();
        }
        let _ = timeout_at(deadline, settled.wait_for(|settled| *settled >= accepted)).await;
    }
}

impl PresentationWriter {
    pub(super) fn new(store: Arc<dyn RecallStore>, cache: Arc<ContextCache>) -> (PresentationQueue, Self) {
        let (sender, receiver) = mpsc::channel(QUEUED_MAX);
        let (settled, seen) = watch::channel(0);
        let wanted = Arc::<Notify>::default();
        let queue =
            PresentationQueue { sender, settled: seen, accepted: Arc::default(), wanted: wanted.clone() };
        // What another process has left is applied at once.
        let (next_batch, next_application) = (Instant::now(), Instant::now());
        let pending_max = 0;
        let writer =
            Self { store, cache, wanted, receiver, settled, pending_max, next_batch, next_application };
        (queue, writer)
    }

    /// Stores what is accepted until `stop` is cancelled, and then what is left.
    pub(super) async fn run(self, stop: CancellationToken) {
        let out_of_time = async {
            stop.cancelled().await;
            sleep(STOP_PATIENCE).await;
        };
        tokio::select! {
            () = self.store_all(&stop) => {}
            () = out_of_time => {
                error!("presentations of some runs were not stored, because the database does not answer");
            }
        }
    }

    async fn store_all(mut self, stop: &CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            let next_application = self.next_application;
            tokio::select! {
                () = stop.cancelled(), if !self.receiver.is_closed() => self.receiver.close(),
                received = self.receive_batch(&mut batch) => {
                    if received == 0 {
                        break;
                    }
                    self.next_batch = Instant::now() + BATCH_INTERVAL;
                    self.store_batch(&batch).await;
                    batch.clear();
                }
                () = sleep_until(next_application), if !self.receiver.is_closed() => {
                    self.apply_pending(APPLIED_MAX).await;
                }
            }
        }
        let stopped = Instant::now();
        while self.pending_max > 0
            && stopped.elapsed() < STOP_APPLY_TIME
            && self.next_application <= Instant::now()
        {
            self.apply_pending(APPLIED_MAX).await;
        }
    }

    /// Receives what was accepted until the next transaction is due or wanted, and waits for something if it is nothing.
    /// Returns 0 if nothing will be accepted any more.
    async fn receive_batch(&mut self, batch: &mut Vec<Presentation>) -> usize {
        if !self.receiver.is_closed() && self.receiver.len() < BATCH_MAX {
            tokio::select! {
                () = sleep_until(self.next_batch) => {}
                () = self.wanted.notified() => {}
            }
        }
        self.receiver.recv_many(batch, BATCH_MAX).await
    }

    /// Applies answers that are stored, and decides when the next ones are.
    async fn apply_pending(&mut self, limit: u32) {
        let began = Instant::now();
        let pause = match self.store.apply_presentations(limit).await {
            Ok(applied) => {
                self.pending_max = applied.waiting_max;
                match applied.waiting_max {
                    0 => LEFT_LOOK_INTERVAL,
                    _ if !self.cache.was_asked_within(IDLE) => Duration::ZERO,
                    _ => began.elapsed() * APPLY_PAUSE_FACTOR,
                }
            }
            Err(StoreError::Unavailable(reason)) => {
                warn!(reason, "presentations wait to be counted: {reason}");
                APPLY_RETRY_WAIT
            }
            Err(other) => {
                error!("what was presented to runs is not counted: {other}");
                LEFT_LOOK_INTERVAL
            }
        };
        self.next_application = Instant::now() + pause;
    }

    /// Stores a batch, again and again while the database is not available, and in smaller parts, for the case that the
    /// batch takes longer than a statement may. What the database refuses otherwise is stored run by run, and only what
    /// it refuses then is given up.
    async fn store_batch(&mut self, batch: &[Presentation]) {
        let mut left = batch;
        let mut part_max = batch.len();
        let mut pause = RETRY_WAIT.0;
        while !left.is_empty() {
            let part = &left[..part_max.min(left.len())];
            match self.store.record_presentations(part).await {
                Ok(()) => {
                    part.iter().for_each(count_stored);
                    left = &left[part.len()..];
                    pause = RETRY_WAIT.0;
                }
                Err(StoreError::Unavailable(reason)) => {
                    warn!(reason, "presentations of {} runs wait to be stored: {reason}", left.len());
                    part_max = part.len().div_ceil(2);
                    sleep(pause).await;
                    pause = (pause * 2).min(RETRY_WAIT.1);
                }
                Err(_) if part.len() > 1 => part_max = 1,
                Err(problem) => {
                    let Presentation { key, run, .. } = &part[0];
                    error!("what was presented to run {run} of {key} is not recorded: {problem}");
                    left = &left[1..];
                }
            }
        }
        self.settled.send_modify(|settled| *settled += batch.len() as u64);
        if self.pending_max == 0 {
            self.next_application = Instant::now();
        }
        self.pending_max += batch.len() as u64;
        if self.pending_max > PENDING_MAX {
            self.apply_pending(u32::try_from(batch.len()).unwrap_or(u32::MAX)).await;
        }
    }
}

/// Counts a stored presentation.
pub(crate) fn count_stored(one: &Presentation) {
    metrics::MEMORIES_PRESENTED.add(one.memories.len() as u64, []);
    let withheld = one.assignments.iter().filter(|assignment| assignment.withheld).count();
    metrics::MEMORIES_WITHHELD.add(withheld as u64, []);
}

#[cfg(test)]
mod tests;
