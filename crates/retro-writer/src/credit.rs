//! Late credit, carried out: the pull request of a run has ended, and memories were applied in it.

use retro_core::id::WorkflowKey;
use retro_core::memory::FoldError;
use retro_core::outcome::{CreditFacts, PullRequestRef, credit};
use retro_events::Verdict;
use retro_store::{Step, StoreError};
use retro_trace::{Cause, Kind, Work};
use retro_watchdog::caught;
use tracing::{debug, error, info};

use crate::{CLOSINGS_PER_SWEEP, OVERDUE_S, STORE_AWAY, Writer};

/// Uses of memories credited in one transaction, by a few dozen milliseconds of work under the lock of the workflow: a pull
/// request may have any number of runs behind it. The rest waits for a message of its own.
const USES_PER_CREDIT: u32 = 500;

impl Writer {
    /// Credits what a lost wake-up left. Returns how many pull requests were taken up.
    pub(crate) async fn sweep_credits(&self) -> Result<usize, StoreError> {
        let overdue = self.store.overdue_credits(OVERDUE_S, CLOSINGS_PER_SWEEP).await?;
        for (key, pull_request) in &overdue {
            info!("the credit of {pull_request} in {key} was due without a wake-up");
            let work = Work::begin("sweep credits", Kind::Internal, Cause::Nothing);
            // What is wrong with one is no reason to leave the others.
            match caught(work.around(self.credit(key, pull_request))).await {
                Ok(Err(away @ StoreError::Unavailable(_))) => return Err(away),
                Ok(Err(problem)) => error!("the credit of {pull_request} in {key}: {problem}"),
                Ok(Ok(Err(problem))) => error!("the credit of {pull_request} in {key}: {problem}"),
                Err(panicked) => error!("the credit of {pull_request} in {key} failed: {panicked}"),
                Ok(Ok(Ok(_))) => {}
            }
        }
        Ok(overdue.len())
    }

    async fn credit(
        &self,
        key: &WorkflowKey,
        pull_request: &PullRequestRef,
    ) -> Result<Result<Step, FoldError>, StoreError> {
        let now = self.clock.now();
        let decide = |facts: &CreditFacts| {
            let credited = credit(facts, &self.policies.of(key), now)?;
            for change in &credited.changes {
                retro_meter::CHANGES.add(1, [change.effect.kind()]);
            }
            Ok(credited)
        };
        let done = self.store.credit(key, pull_request, USES_PER_CREDIT, &decide).await?;
        if matches!(done, Ok(Step::Done)) {
            info!(tenant = %key.tenant, workflow = %key.workflow, "credited what was applied behind {pull_request}");
            self.outbox.notify_one();
        }
        Ok(done)
    }

    pub(crate) async fn answer_credit(&self, key: &WorkflowKey, pull_request: &PullRequestRef) -> Verdict {
        match self.credit(key, pull_request).await {
            Ok(Ok(Step::Done)) => Verdict::Done,
            Ok(Ok(Step::AlreadyDone | Step::Unknown)) => {
                debug!("nothing waits for credit behind {pull_request} in {key}");
                Verdict::Known
            }
            Ok(Err(problem)) => Verdict::RetryAfter { wait: STORE_AWAY, reason: problem.to_string() },
            Err(StoreError::Unavailable(reason)) => Verdict::Snooze { wait: STORE_AWAY, reason },
            Err(problem) => Verdict::RetryAfter { wait: STORE_AWAY, reason: problem.to_string() },
        }
    }
}
