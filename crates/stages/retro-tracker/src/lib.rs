#![doc = include_str!("../README.md")]

mod parse;

use std::sync::Arc;

use async_trait::async_trait;
use retro_consumer::{HandlerError, HandlerOutcome, ITEMS_PER_SWEEP, MessageHandler, Sweep, process_item};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::WorkflowKey;
use retro_core::retention::SeenContent;
use retro_events::{Delivery, github, subject};
use retro_store::track::{PullRequestEvent, TrackResult};
use retro_store::{StoreError, TrackerStore};
use retro_telemetry::trace::Span;
use tokio::sync::Notify;
use tracing::{debug, error};

/// Maximum number of runs tracked per transaction. Such a transaction takes milliseconds, so counters hardly
/// wait for its locks.
const RUNS_PER_STEP: u32 = 500;
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

    /// Tracks the runs of one workflow recorded since the last sweep, and returns their number.
    async fn track_workflow(&self, key: &WorkflowKey) -> Result<usize, StoreError> {
        let mut followed = 0;
        for _ in 0..STEPS_PER_WORKFLOW {
            let runs = self.store.track_runs(key, RUNS_PER_STEP).await?;
            followed += runs;
            // A short page is the last one: the workflow is tracked up to its newest run.
            if runs < RUNS_PER_STEP as usize {
                break;
            }
        }
        Ok(followed)
    }
}

#[async_trait]
impl MessageHandler for Tracker {
    fn name(&self) -> &'static str {
        "tracker"
    }

    fn subject(&self) -> &'static str {
        subject::GITHUB
    }

    async fn handle_message(&self, delivery: &Delivery, _: &Span) -> Result<HandlerOutcome, HandlerError> {
        let event = github::parse_event(delivery)?;
        let Some(pull_request_event) = parse::parse_pull_request_event(event) else {
            return Ok(HandlerOutcome::Done);
        };
        match self.store.record_pull_request_event(&pull_request_event).await? {
            TrackResult::Recorded => {
                self.outbox.notify_one();
                if let Some((pull_request, _)) = &pull_request_event.pull_request {
                    debug!(tenant = %pull_request_event.event.tenant, "recorded pull request {pull_request}");
                }
                Ok(HandlerOutcome::Done)
            }
            TrackResult::Duplicate => Ok(HandlerOutcome::Duplicate),
            TrackResult::Conflict(seen) => Err(identity_conflict(&pull_request_event, &seen).into()),
        }
    }
}

#[async_trait]
impl Sweep for Tracker {
    /// Tracks the runs recorded since the last sweep, and returns their number.
    async fn sweep(&self) -> Result<usize, StoreError> {
        let mut followed = 0;
        for key in self.store.list_untracked_workflows(ITEMS_PER_SWEEP).await? {
            let tracked = process_item(self.track_workflow(&key), |problem| {
                error!(tenant = %key.tenant, "the runs of {key} cannot be tracked: {problem}");
            });
            followed += tracked.await?.unwrap_or_default();
        }
        if followed > 0 {
            self.outbox.notify_one();
        }
        Ok(followed)
    }
}

fn identity_conflict(pull_request_event: &PullRequestEvent, seen: &SeenContent) -> Rejection {
    let detail = format!(
        "event {} of source {} was seen before with other content ({seen}, now {}); give the changed event an id of its own",
        pull_request_event.event.id, pull_request_event.event.source, pull_request_event.content_hash
    );
    Rejection::of_field(DeadLetterCode::IdentityConflict, "id", detail)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use retro_core::id::{Tenant, Workflow};

    use super::*;

    /// A store of workflows with untracked runs, one of which cannot be read.
    #[derive(Default)]
    struct FakeStore {
        tracked: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl TrackerStore for FakeStore {
        async fn record_pull_request_event(&self, _: &PullRequestEvent) -> retro_store::Result<TrackResult> {
            Ok(TrackResult::Duplicate)
        }

        async fn list_untracked_workflows(&self, _: u32) -> retro_store::Result<Vec<WorkflowKey>> {
            let key = |name: &str| WorkflowKey {
                tenant: Tenant::default_tenant(),
                workflow: Workflow::new(name).expect("a name"),
            };
            Ok(["build", "damaged", "release"].map(key).to_vec())
        }

        async fn track_runs(&self, key: &WorkflowKey, _: u32) -> retro_store::Result<usize> {
            let workflow = key.workflow.as_str().to_owned();
            if workflow == "damaged" {
                return Err(StoreError::Damaged { place: "runs".to_owned(), problem: "no JSON".to_owned() });
            }
            self.tracked.lock().unwrap().push(workflow);
            Ok(2)
        }
    }

    #[tokio::test]
    async fn a_workflow_that_cannot_be_tracked_does_not_stop_the_others() {
        let store = Arc::new(FakeStore::default());
        let tracker = Tracker::new(store.clone(), Arc::default());
        assert_eq!(tracker.sweep().await.unwrap(), 4);
        assert_eq!(*store.tracked.lock().unwrap(), ["build", "release"]);
    }
}
