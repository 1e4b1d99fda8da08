//! Sending dead letters again, in the relay's process: letters of batches are taken up, and what is due is sent. Everything
//! is read from the database each time, so that a crash of whoever asked, or of this, stops nothing.

use std::sync::Arc;
use std::time::Duration;

use retro_bus::backoff::Backoff;
use retro_bus::{ResendError, Resender};
use retro_core::policy::Policies;
use retro_core::replay;
use retro_core::retrospective::{Retrospective, WorkflowState};
use retro_core::time::Clock;
use retro_store::{ReplayStore, StoreError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Pause between two looks: the time between two letters at the usual pace.
const EVERY: Duration = Duration::from_millis(200);
/// Replays sent in one look; the next look comes at once when there are more.
const SENT_AT_ONCE: u32 = 50;

/// What replaying works with.
pub(super) struct Replayer {
    pub(super) store: Arc<dyn ReplayStore>,
    pub(super) policies: Arc<dyn Policies>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) resender: Resender,
    /// Rung when a batch has opened a retrospective.
    pub(super) outbox: Arc<Notify>,
    /// What was sent so long ago without anything coming of it was lost.
    pub(super) lost_after_s: u64,
}

impl Replayer {
    /// Works until stopped. A database or broker that is away is waited for.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut backoff = Backoff::new(EVERY, Duration::from_secs(5));
        loop {
            // A look that waits for its database may be left: what it sent and has not marked is sent again under its id.
            let Some(look) = Box::pin(stop.run_until_cancelled(self.look())).await else { return };
            let wait = match look {
                Ok(()) => {
                    backoff.reset();
                    EVERY
                }
                Err(problem) => {
                    let wait = backoff.next_wait();
                    warn!(wait_ms = wait.as_millis(), "dead letters could not be sent again: {problem}");
                    wait
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn look(&self) -> Result<(), String> {
        self.take_up().await.map_err(|problem| problem.to_string())?;
        self.send().await
    }

    /// Goes on with every batch.
    async fn take_up(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let reopen = |failed: &Retrospective, mut state: WorkflowState| {
            let opening = state.reopen(failed, &self.policies.of(&failed.key), now)?;
            Ok((state, opening))
        };
        for batch in self.store.open_batches().await? {
            match self.store.step_batch(batch, &replay::next, &reopen).await? {
                Some(replay::Next::Release(_)) => self.outbox.notify_one(),
                Some(replay::Next::Stop(why)) => {
                    warn!(batch.id = %batch, "batch {batch} of replays stopped: {why}")
                }
                Some(replay::Next::Done) => info!(batch.id = %batch, "batch {batch} of replays is done"),
                Some(replay::Next::Wait) | None => {}
            }
        }
        Ok(())
    }

    /// Sends what is due. One that the broker does not take ends; one that it may not have got is sent again.
    async fn send(&self) -> Result<(), String> {
        let store = &self.store;
        let due =
            store.due_replays(SENT_AT_ONCE, self.lost_after_s).await.map_err(|error| error.to_string())?;
        for sending in due {
            let id = sending.id;
            let stored = match self.resender.send(&sending).await {
                Ok(()) => store.mark_replay_sent(id).await,
                Err(ResendError::Refused(why)) => {
                    warn!(replay.id = %id, "replay {id} was refused: {why}");
                    retro_meter::REPLAYED.add(1, ["refused"]);
                    store.refuse_replay(id, &why.to_string()).await
                }
                Err(ResendError::Unavailable(why)) => return Err(why.to_string()),
            };
            stored.map_err(|error| error.to_string())?;
            info!(replay.id = %id, subject = sending.subject, "sent replay {id}");
        }
        Ok(())
    }
}
