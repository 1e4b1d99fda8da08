#![doc = include_str!("../README.md")]

mod parse;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::retention::SeenContent;
use retro_events::{Consumer, Delivery, HandlerOutcome, github, subject};
use retro_store::track::{PullRequestEvent, TrackResult};
use retro_store::{StoreError, TrackerStore};
use tokio::sync::Notify;
use tracing::debug;

/// Delay before a message is retried if the database is unavailable.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(2);
/// Maximum number of runs tracked per transaction. Such a transaction takes milliseconds, so counters hardly
/// wait for its locks.
const RUNS_PER_STEP: u32 = 500;
/// Maximum number of workflows checked per sweep; the next sweep continues with the following ones.
const WORKFLOWS_PER_SWEEP: u32 = 100;
/// Maximum number of transactions per workflow in one sweep, so that a busy workflow does not delay the
/// others.
const STEPS_PER_WORKFLOW: usize = 20;

/// Consumer that tracks the pull requests that runs belong to.
pub struct Tracker {
    store: Arc<dyn TrackerStore>,
    outbox: Arc<Notify>,
}

impl Tracker {
    /// Creates a tracker over a store. `outbox` is notified when there may be messages to send.
    pub fn new(store: Arc<dyn TrackerStore>, outbox: Arc<Notify>) -> Self {
        Self { store, outbox }
    }

    /// Tracks the runs recorded since the last sweep, and returns their number.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let mut followed = 0;
        for key in self.store.list_untracked_workflows(WORKFLOWS_PER_SWEEP).await? {
            for _ in 0..STEPS_PER_WORKFLOW {
                let runs = self.store.track_runs(&key, RUNS_PER_STEP).await?;
                followed += runs;
                // A short page is the last one: the workflow is tracked up to its newest run.
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

    async fn handle_delivery(&self, delivery: &Delivery) -> HandlerOutcome {
        let event = match github::parse_event(delivery) {
            Ok(event) => event,
            Err(rejection) => return HandlerOutcome::DeadLetter(rejection),
        };
        let Some(pull_request_event) = parse::parse_pull_request_event(event) else {
            return HandlerOutcome::Done;
        };
        match self.store.record_pull_request_event(&pull_request_event).await {
            Ok(TrackResult::Recorded) => {
                self.outbox.notify_one();
                if let Some((pull_request, _)) = &pull_request_event.pull_request {
                    debug!(tenant = %pull_request_event.event.tenant, "recorded pull request {pull_request}");
                }
                HandlerOutcome::Done
            }
            Ok(TrackResult::Duplicate) => HandlerOutcome::Duplicate,
            Ok(TrackResult::Conflict(seen)) => {
                HandlerOutcome::DeadLetter(identity_conflict(&pull_request_event, &seen))
            }
            Err(StoreError::Unavailable(reason)) => {
                HandlerOutcome::Snooze { wait: STORE_RETRY_DELAY, reason }
            }
            Err(problem) => {
                HandlerOutcome::RetryAfter { wait: STORE_RETRY_DELAY, reason: problem.to_string() }
            }
        }
    }
}

fn identity_conflict(pull_request_event: &PullRequestEvent, seen: &SeenContent) -> Rejection {
    let detail = format!(
        "event {} of source {} was seen before with other content ({seen}, now {}); give the changed event an id of its own",
        pull_request_event.event.id, pull_request_event.event.source, pull_request_event.content_hash
    );
    Rejection::of_field(DeadLetterCode::IdentityConflict, "id", detail)
}

#[async_trait]
impl Consumer for Tracker {
    fn name(&self) -> &'static str {
        "tracker"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for delivery in batch {
            let work = retro_trace::start_process_span(delivery, self.name(), subject::GITHUB);
            let verdict = work.instrument(self.handle_delivery(delivery)).await;
            retro_trace::record_outcome(&work, &verdict);
            verdicts.push(verdict);
        }
        verdicts
    }
}
