//! Keeps the order of the intake stream, which several counters count at once.
//!
//! Batches go to whichever counter asks, so a later one may be counted first. A retrospective opens only over runs
//! that nothing uncounted precedes (see [`retro_core::count`]), for which the counter has to know how far all counters
//! together are. A batch that continues what this process knows to be handled is in order by itself, as all batches of
//! a single counter are; before any other one, the broker is asked. Retrospectives that are put off are checked again
//! soon, and after [`PUT_OFF_MAX`] they open over whatever is counted, because a message that is retried must not hold
//! them up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use retro_core::count::IntakeProgress;
use retro_core::id::WorkflowKey;
use retro_events::{Delivery, StreamProgress};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::debug;

/// Time after which a retrospective that was put off no longer waits for the order of the stream.
pub(crate) const PUT_OFF_MAX: Duration = Duration::from_secs(5);
/// Maximum number of remembered workflows whose retrospective is put off. The sweep finds the others.
const PUT_OFF_WORKFLOWS_MAX: usize = 10_000;

/// What this process knows about the order of the intake stream.
pub(crate) struct IntakeOrder {
    /// Progress of all counters together; `None` if this process is known to be the only one.
    progress: Option<Arc<dyn StreamProgress>>,
    /// Position up to which all counters together have handled the stream, as far as this process knows.
    handled_up_to: AtomicU64,
    /// Workflows whose retrospective is put off, each with the time since when.
    put_off: Mutex<HashMap<WorkflowKey, Instant>>,
    /// Notified when a retrospective is put off.
    pub(crate) changed: Notify,
}

/// Workflows whose retrospective is put off.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct PutOff {
    /// Those that still wait for the order.
    pub(crate) waiting: Vec<WorkflowKey>,
    /// Those that have waited for [`PUT_OFF_MAX`].
    pub(crate) overdue: Vec<WorkflowKey>,
}

impl IntakeOrder {
    /// Creates the state of a process that has handled nothing yet.
    pub(crate) fn new(progress: Option<Arc<dyn StreamProgress>>) -> Self {
        Self { progress, handled_up_to: AtomicU64::new(0), put_off: Mutex::default(), changed: Notify::new() }
    }

    /// Returns how far the stream has been handled before a batch, whose earlier batches must have ended.
    pub(crate) async fn progress_before(&self, batch: &[Delivery]) -> IntakeProgress {
        if self.progress.is_none() {
            return IntakeProgress::NotAwaited;
        }
        let known = self.handled_up_to.load(Ordering::Relaxed);
        if continues(batch, known) {
            return IntakeProgress::BeforeEachEvent;
        }
        if batch.iter().all(|delivery| delivery.sequence <= known) {
            if batch.iter().all(Delivery::is_repeated) {
                return IntakeProgress::UpTo(known);
            }
            // What was handled cannot be new, so the stream was replaced and begins anew.
            self.handled_up_to.store(0, Ordering::Relaxed);
        }
        match self.ask().await {
            IntakeProgress::UpTo(position) if continues(batch, position) => IntakeProgress::BeforeEachEvent,
            known => known,
        }
    }

    /// Asks the broker how far the stream has been handled.
    pub(crate) async fn ask(&self) -> IntakeProgress {
        let Some(progress) = &self.progress else { return IntakeProgress::NotAwaited };
        match progress.acknowledged_up_to().await {
            // Raised only: acknowledgements are lost, and what this process has handled stays handled.
            Ok(position) => {
                let before = self.handled_up_to.fetch_max(position, Ordering::Relaxed);
                IntakeProgress::UpTo(before.max(position))
            }
            Err(reason) => {
                debug!("nothing new is known about the order of the intake: {reason}");
                IntakeProgress::UpTo(self.handled_up_to.load(Ordering::Relaxed))
            }
        }
    }

    /// Records that a batch was counted, which [`progress_before`](Self::progress_before) was asked about.
    pub(crate) fn note_counted(&self, batch: &[Delivery], progress: IntakeProgress) {
        if let (IntakeProgress::BeforeEachEvent, Some(last)) = (progress, batch.last()) {
            self.handled_up_to.store(last.sequence, Ordering::Relaxed);
        }
    }

    /// Records which of the checked workflows are put off, and forgets the others of them.
    pub(crate) fn note_checked(&self, checked: &[WorkflowKey], put_off: Vec<WorkflowKey>) {
        let mut remembered = self.lock();
        for key in checked {
            if !put_off.contains(key) {
                remembered.remove(key);
            }
        }
        let is_new = !put_off.is_empty();
        for key in put_off {
            if remembered.len() >= PUT_OFF_WORKFLOWS_MAX {
                break;
            }
            remembered.entry(key).or_insert_with(Instant::now);
        }
        drop(remembered);
        if is_new {
            self.changed.notify_one();
        }
    }

    /// Returns at most `limit` workflows that still wait, and as many that are overdue, the longest first.
    pub(crate) fn list_put_off(&self, limit: usize) -> PutOff {
        let now = Instant::now();
        let mut remembered: Vec<(WorkflowKey, Instant)> =
            self.lock().iter().map(|(key, since)| (key.clone(), *since)).collect();
        remembered.sort_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
        let (overdue, waiting): (Vec<_>, Vec<_>) =
            remembered.into_iter().partition(|(_, since)| now.duration_since(*since) >= PUT_OFF_MAX);
        let keys =
            |some: Vec<(WorkflowKey, Instant)>| some.into_iter().take(limit).map(|(key, _)| key).collect();
        PutOff { waiting: keys(waiting), overdue: keys(overdue) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WorkflowKey, Instant>> {
        self.put_off.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `true` if a batch has each message that follows this position, up to its last one.
fn continues(batch: &[Delivery], handled_up_to: u64) -> bool {
    batch.iter().zip(handled_up_to + 1..).all(|(delivery, expected)| delivery.sequence == expected)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use retro_core::id::{Tenant, Workflow};

    use super::*;

    /// Broker that has this many acknowledged messages, or is away.
    struct Broker(Result<u64, String>);

    #[async_trait]
    impl StreamProgress for Broker {
        async fn acknowledged_up_to(&self) -> Result<u64, String> {
            self.0.clone()
        }
    }

    fn order(acknowledged: Result<u64, String>) -> IntakeOrder {
        IntakeOrder::new(Some(Arc::new(Broker(acknowledged))))
    }

    fn batch(sequences: impl IntoIterator<Item = u64>) -> Vec<Delivery> {
        let delivery = |sequence| Delivery {
            stream: "RETRO_INTAKE".to_owned(),
            subject: "retro.run.completed.acme.w".to_owned(),
            sequence,
            headers: Vec::new(),
            payload: "{}".into(),
            delivered: 1,
            stored_at: jiff::Timestamp::UNIX_EPOCH,
        };
        sequences.into_iter().map(delivery).collect()
    }

    fn key(workflow: &str) -> WorkflowKey {
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new(workflow).unwrap() }
    }

    #[tokio::test]
    async fn a_batch_is_in_order_if_it_continues_what_is_handled() {
        use IntakeProgress::{BeforeEachEvent, NotAwaited, UpTo};
        assert_eq!(IntakeOrder::new(None).progress_before(&batch(7..9)).await, NotAwaited);
        assert_eq!(order(Err("away".to_owned())).progress_before(&batch(7..9)).await, UpTo(0));
        assert_eq!(order(Ok(5)).progress_before(&batch(7..9)).await, UpTo(5), "another has message 6");
        assert_eq!(order(Ok(6)).progress_before(&batch([7, 9])).await, UpTo(6), "another has message 8");

        let order = order(Ok(6));
        let first = order.progress_before(&batch(7..9)).await;
        assert_eq!(first, BeforeEachEvent);
        assert_eq!(order.progress_before(&batch(9..12)).await, UpTo(6), "the first batch was not counted");
        order.note_counted(&batch(7..9), first);
        let second = order.progress_before(&batch(9..12)).await;
        assert_eq!(second, BeforeEachEvent, "known without the broker, which still says 6");
        order.note_counted(&batch(9..12), second);
        assert_eq!(order.progress_before(&batch(13..14)).await, UpTo(11));
        order.note_counted(&batch(13..14), UpTo(11));
        assert_eq!(order.progress_before(&batch(14..15)).await, UpTo(11), "what precedes it is not known");
    }

    #[tokio::test]
    async fn what_this_process_has_handled_stays_handled_though_acknowledgements_are_lost() {
        use IntakeProgress::{BeforeEachEvent, UpTo};
        let order = order(Ok(0));
        let first = order.progress_before(&batch(1..4)).await;
        order.note_counted(&batch(1..4), first);
        let again: Vec<Delivery> =
            batch(2..3).into_iter().map(|delivery| Delivery { delivered: 2, ..delivery }).collect();
        assert_eq!(order.progress_before(&again).await, UpTo(3), "delivered again");
        assert_eq!(order.ask().await, UpTo(3), "the broker knows nothing of it");
        assert_eq!(order.progress_before(&batch(4..6)).await, BeforeEachEvent);
        order.note_counted(&batch(4..6), BeforeEachEvent);
        assert_eq!(
            order.progress_before(&batch(1..2)).await,
            BeforeEachEvent,
            "new, so the stream was replaced"
        );
        order.note_counted(&batch(1..2), BeforeEachEvent);
        assert_eq!(order.progress_before(&batch(3..4)).await, UpTo(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_workflow_is_overdue_five_seconds_after_it_was_first_put_off() {
        let order = order(Ok(0));
        order.note_checked(&[], vec![key("a")]);
        tokio::time::advance(Duration::from_secs(3)).await;
        order.note_checked(&[key("a")], vec![key("a"), key("b")]);
        assert_eq!(order.list_put_off(9), PutOff { waiting: vec![key("a"), key("b")], overdue: Vec::new() });
        assert_eq!(order.list_put_off(1).waiting, [key("a")]);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(order.list_put_off(9), PutOff { waiting: vec![key("b")], overdue: vec![key("a")] });
        order.note_checked(&[key("a"), key("b")], vec![key("b")]);
        assert_eq!(order.list_put_off(9), PutOff { waiting: vec![key("b")], overdue: Vec::new() });
    }

    #[test]
    fn only_so_many_workflows_are_remembered() {
        let order = order(Ok(0));
        order.note_checked(&[], (0..=PUT_OFF_WORKFLOWS_MAX).map(|nth| key(&format!("w{nth}"))).collect());
        assert_eq!(order.list_put_off(usize::MAX).waiting.len(), PUT_OFF_WORKFLOWS_MAX);
    }
}
