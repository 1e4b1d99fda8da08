//! Stores presentations after the agent has its answer, many in one transaction.
//!
//! What was accepted is stored once, however often a transaction fails, and also when the process stops in order. A
//! process that is killed loses what it has accepted and not yet stored: at most [`QUEUED_MAX`] and the batch under way,
//! on an ordinary day those of some milliseconds. The runs report what they were handed when they end.

use std::sync::Arc;
use std::time::Duration;

use retro_store::{Presentation, RecallStore, StoreError};
use retro_telemetry::metrics;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// Maximum number of runs whose presentations wait to be stored.
pub(super) const QUEUED_MAX: usize = 4_096;
/// Maximum number of runs whose presentations are stored in one transaction. A transaction must take much less time than
/// an agent waits, because nothing more is accepted until it has made room in a full queue.
const BATCH_MAX: usize = 64;
/// First and longest pause after a failed transaction.
const RETRY_WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Time that a process that stops waits for the database.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Accepts presentations to be stored. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PresentationQueue {
    sender: mpsc::Sender<Presentation>,
    /// Number of presentations that were stored or given up.
    settled: watch::Receiver<u64>,
    /// Number of accepted ones.
    accepted: Arc<watch::Sender<u64>>,
}

/// Whether a presentation was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enqueued {
    Accepted,
    /// The queue stayed full until the deadline.
    Full,
    /// The process stops and accepts nothing more.
    Closed,
}

pub(super) struct PresentationWriter {
    store: Arc<dyn RecallStore>,
    receiver: mpsc::Receiver<Presentation>,
    settled: watch::Sender<u64>,
}

impl PresentationQueue {
    /// Accepts a presentation, or waits until the deadline for a place in the queue.
    pub(crate) async fn enqueue(&self, presentation: Presentation, deadline: Instant) -> Enqueued {
        let place = match timeout_at(deadline, self.sender.reserve()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Enqueued::Closed,
            Err(_) => return Enqueued::Full,
        };
        // Counted first, or a flush could miss it.
        self.accepted.send_modify(|accepted| *accepted += 1);
        place.send(presentation);
        Enqueued::Accepted
    }

    /// Waits until everything is settled that was accepted before, or until the deadline.
    pub(crate) async fn flush(&self, deadline: Instant) {
        let accepted = *self.accepted.borrow();
        let mut settled = self.settled.clone();
        let _ = timeout_at(deadline, settled.wait_for(|settled| *settled >= accepted)).await;
    }
}

impl PresentationWriter {
    pub(super) fn new(store: Arc<dyn RecallStore>) -> (PresentationQueue, Self) {
        let (sender, receiver) = mpsc::channel(QUEUED_MAX);
        let (settled, seen) = watch::channel(0);
        let queue = PresentationQueue { sender, settled: seen, accepted: Arc::new(watch::Sender::new(0)) };
        (queue, Self { store, receiver, settled })
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
            tokio::select! {
                () = stop.cancelled(), if !self.receiver.is_closed() => self.receiver.close(),
                received = self.receiver.recv_many(&mut batch, BATCH_MAX) => {
                    if received == 0 {
                        return;
                    }
                    self.store_batch(&batch).await;
                    batch.clear();
                }
            }
        }
    }

    /// Stores a batch, again and again while the database is not available. What the database refuses otherwise is
    /// stored run by run, and only what it refuses then is given up.
    async fn store_batch(&self, batch: &[Presentation]) {
        if self.store_until_answered(batch).await.is_err() {
            for one in batch.chunks(1) {
                if let Err(problem) = self.store_until_answered(one).await {
                    let Presentation { key, run, .. } = &one[0];
                    error!("what was presented to run {run} of {key} is not recorded: {problem}");
                }
            }
        }
        self.settled.send_modify(|settled| *settled += batch.len() as u64);
    }

    async fn store_until_answered(&self, batch: &[Presentation]) -> Result<(), StoreError> {
        let mut pause = RETRY_WAIT.0;
        loop {
            match self.store.record_presentations(batch).await {
                Ok(()) => {
                    batch.iter().for_each(count_stored);
                    return Ok(());
                }
                Err(StoreError::Unavailable(reason)) => {
                    warn!(reason, "presentations of {} runs wait to be stored: {reason}", batch.len());
                    sleep(pause).await;
                    pause = (pause * 2).min(RETRY_WAIT.1);
                }
                Err(other) => return Err(other),
            }
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
mod tests {
    use std::sync::Mutex;

    use retro_core::id::{RunId, Tenant, Workflow, WorkflowKey};

    use super::*;
    use crate::testing::{FakeStore, Trouble, active_memory};

    fn presentation(run: usize) -> Presentation {
        let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("shop").unwrap() };
        let run = RunId::new(format!("run-{run}")).unwrap();
        Presentation { key, run, memories: vec![active_memory("select", 0).id], assignments: Vec::new() }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(200)
    }

    fn recorded(store: &FakeStore) -> usize {
        store.records.lock().unwrap().len()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_accepted_is_stored_once_though_the_database_was_away() {
        let store = Arc::new(FakeStore { recording_fails: Mutex::new(3), ..FakeStore::default() });
        let (queue, writer) = PresentationWriter::new(store.clone());
        let stop = CancellationToken::new();
        let running = tokio::spawn(writer.run(stop.clone()));
        for run in 0..10 {
            assert_eq!(queue.enqueue(presentation(run), soon()).await, Enqueued::Accepted);
        }
        queue.flush(Instant::now() + Duration::from_secs(9)).await;
        assert_eq!(recorded(&store), 10);
        stop.cancel();
        running.await.unwrap();
        assert_eq!(queue.enqueue(presentation(11), soon()).await, Enqueued::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_is_stored_when_the_process_stops() {
        let store = Arc::new(FakeStore { recording_fails: Mutex::new(1), ..FakeStore::default() });
        let (queue, writer) = PresentationWriter::new(store.clone());
        for run in 0..BATCH_MAX + 1 {
            assert_eq!(queue.enqueue(presentation(run), soon()).await, Enqueued::Accepted);
        }
        let stop = CancellationToken::new();
        stop.cancel();
        writer.run(stop).await;
        assert_eq!(recorded(&store), BATCH_MAX + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_accepts_nothing_more_and_a_hanging_database_does_not_hold_up_the_stop() {
        let store = Arc::new(FakeStore { trouble: Trouble::OnlyRecordingHangs, ..FakeStore::default() });
        let (queue, writer) = PresentationWriter::new(store);
        for run in 0..QUEUED_MAX {
            assert_eq!(queue.enqueue(presentation(run), soon()).await, Enqueued::Accepted);
        }
        assert_eq!(queue.enqueue(presentation(QUEUED_MAX), soon()).await, Enqueued::Full);
        let (stop, began) = (CancellationToken::new(), Instant::now());
        stop.cancel();
        writer.run(stop).await;
        assert_eq!(began.elapsed(), STOP_PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_database_refuses_spoils_nothing_else() {
        let store = Arc::new(FakeStore { refused_run: Some("run-3"), ..FakeStore::default() });
        let (queue, writer) = PresentationWriter::new(store.clone());
        for run in 0..5 {
            assert_eq!(queue.enqueue(presentation(run), soon()).await, Enqueued::Accepted);
        }
        let stop = CancellationToken::new();
        stop.cancel();
        writer.run(stop).await;
        assert_eq!(recorded(&store), 4);
    }
}
