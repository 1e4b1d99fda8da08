//! Sends replays of dead letters, in the relay's process. Each pass first lets the batches release their next
//! dead letters, then sends the replays that are due. Every pass reads all state from the database, so a
//! crash of the command or of this process stops nothing.

use std::sync::Arc;
use std::time::Duration;

use retro_bus::backoff::Backoff;
use retro_bus::{ReplayPublishError, ReplayPublisher};
use retro_core::policy::Policies;
use retro_core::replay;
use retro_core::retrospective::{Retrospective, WorkflowState};
use retro_core::time::Clock;
use retro_store::{ReplayStore, StoreError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Interval between passes, equal to the time between two dead letters at the default rate.
const PASS_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of replays sent per pass.
const REPLAYS_PER_PASS: u32 = 50;

/// Sends due replays and advances replay batches.
pub(super) struct Replayer {
    pub(super) store: Arc<dyn ReplayStore>,
    pub(super) policies: Arc<dyn Policies>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) resender: ReplayPublisher,
    /// Notified if a batch has released dead letters, which may write messages to the outbox.
    pub(super) outbox: Arc<Notify>,
    /// Time after which a sent replay without an outcome is presumed lost, in seconds.
    pub(super) lost_after_s: u64,
}

impl Replayer {
    /// Runs passes until `stop` is cancelled. Backs off while the database or the broker is unavailable.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut backoff = Backoff::new(PASS_INTERVAL, Duration::from_secs(5));
        loop {
            // A pass may be dropped while it waits for the database: a replay that was sent but not marked is
            // sent again under the same id.
            let Some(look) = Box::pin(stop.run_until_cancelled(self.run_pass())).await else { return };
            let wait = match look {
                Ok(()) => {
                    backoff.reset();
                    PASS_INTERVAL
                }
                Err(problem) => {
                    let wait = backoff.next_wait();
                    warn!(wait_ms = wait.as_millis(), "dead letters could not be replayed: {problem}");
                    wait
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn run_pass(&self) -> Result<(), String> {
        self.advance_batches().await.map_err(|problem| problem.to_string())?;
        self.send_due_replays().await
    }

    /// Advances every open batch by one step.
    async fn advance_batches(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let reopen = |failed: &Retrospective, mut state: WorkflowState| {
            let opening = state.reopen_after(failed, &self.policies.policy_for(&failed.key), now)?;
            Ok((state, opening))
        };
        for batch in self.store.list_open_batches().await? {
            match self.store.step_replay_batch(batch, &replay::decide_batch_action, &reopen).await? {
                Some(replay::BatchAction::Release(_)) => self.outbox.notify_one(),
                Some(replay::BatchAction::Stop(why)) => {
                    warn!(batch.id = %batch, "replay batch {batch} stopped: {why}")
                }
                Some(replay::BatchAction::Done) => info!(batch.id = %batch, "replay batch {batch} is done"),
                Some(replay::BatchAction::Wait) | None => {}
            }
        }
        Ok(())
    }

    /// Sends the replays that are due. A replay that the broker refuses is marked as failed; one that the
    /// broker may not have received is sent again in a later pass.
    async fn send_due_replays(&self) -> Result<(), String> {
        let store = &self.store;
        let due = store
            .list_due_replays(REPLAYS_PER_PASS, self.lost_after_s)
            .await
            .map_err(|error| error.to_string())?;
        for sending in due {
            let id = sending.id;
            // Publish before marking: a crash in between sends the replay twice under one id, not never.
            let stored = match self.resender.publish_replay(&sending).await {
                Ok(()) => store.mark_replay_sent(id).await,
                Err(ReplayPublishError::Refused(why)) => {
                    warn!(replay.id = %id, "replay {id} was refused: {why}");
                    retro_telemetry::metrics::REPLAYS_ENDED.add(1, ["refused"]);
                    store.refuse_replay(id, &why.to_string()).await
                }
                // The remaining replays would fail as well; the next pass retries after the backoff.
                Err(ReplayPublishError::Unavailable(why)) => return Err(why.to_string()),
            };
            stored.map_err(|error| error.to_string())?;
            info!(replay.id = %id, subject = sending.subject, "sent replay {id}");
        }
        Ok(())
    }
}
