#![doc = include_str!("../README.md")]

mod read;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::keep::Seen;
use retro_events::{Consumer, Delivery, Verdict, github, subject};
use retro_store::track::{Heard, Tracked};
use retro_store::{StoreError, TrackerStore};
use tokio::sync::Notify;
use tracing::debug;

/// How long a message waits when the database is away.
const STORE_AWAY: Duration = Duration::from_secs(2);
/// Runs followed in one transaction: milliseconds of work, so that no counter waits for long.
const RUNS_PER_STEP: u32 = 500;
/// Workflows looked at in one sweep; the next sweep takes the next ones.
const WORKFLOWS_PER_SWEEP: u32 = 100;
/// Transactions in one sweep for one workflow: one that never ends leaves the others their turn.
const STEPS_PER_WORKFLOW: usize = 20;

/// Follows pull requests.
pub struct Tracker {
    store: Arc<dyn TrackerStore>,
    outbox: Arc<Notify>,
}

impl Tracker {
    /// A tracker over its port; `outbox` is rung when there may be something to send.
    pub fn new(store: Arc<dyn TrackerStore>, outbox: Arc<Notify>) -> Self {
        Self { store, outbox }
    }

    /// Follows the runs that were recorded since. Returns how many.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let mut followed = 0;
        for key in self.store.unfollowed(WORKFLOWS_PER_SWEEP).await? {
            for _ in 0..STEPS_PER_WORKFLOW {
                let runs = self.store.follow(&key, RUNS_PER_STEP).await?;
                followed += runs;
                if runs < RUNS_PER_STEP as usize {
                    break;
                }
            }
        }
        if followed > 0 {
            self.outbox.notify_one();
        }
        Ok(followed)
    }

    async fn answer(&self, delivery: &Delivery) -> Verdict {
        let event = match github::read(delivery) {
            Ok(event) => event,
            Err(rejection) => return Verdict::DeadLetter(rejection),
        };
        let Some(heard) = read::heard(event) else { return Verdict::Done };
        match self.store.track(&heard).await {
            Ok(Tracked::Now) => {
                self.outbox.notify_one();
                if let Some((pull_request, _)) = &heard.pull_request {
                    debug!(tenant = %heard.event.tenant, "heard of pull request {pull_request}");
                }
                Verdict::Done
            }
            Ok(Tracked::Before) => Verdict::Known,
            Ok(Tracked::Conflict(seen)) => Verdict::DeadLetter(conflict(&heard, &seen)),
            Err(StoreError::Unavailable(reason)) => Verdict::Snooze { wait: STORE_AWAY, reason },
            Err(problem) => Verdict::RetryAfter { wait: STORE_AWAY, reason: problem.to_string() },
        }
    }
}

fn conflict(heard: &Heard, seen: &Seen) -> Rejection {
    let detail = format!(
        "event {} of source {} was seen before with other content ({seen}, now {}); give the changed event an id of its own",
        heard.event.id, heard.event.source, heard.content_hash
    );
    Rejection::at(Code::IdentityConflict, "id", detail)
}

#[async_trait]
impl Consumer for Tracker {
    fn name(&self) -> &'static str {
        "tracker"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for delivery in batch {
            let work = retro_trace::process(delivery, self.name(), subject::GITHUB);
            let verdict = work.around(self.answer(delivery)).await;
            retro_trace::answered(&work, &verdict);
            verdicts.push(verdict);
        }
        verdicts
    }
}
