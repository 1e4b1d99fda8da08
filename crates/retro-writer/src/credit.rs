//! Applies late credit, which becomes due when the pull request of a run that applied memories ends.

use retro_core::id::WorkflowKey;
use retro_core::memory::FoldError;
use retro_core::outcome::{CreditFacts, PullRequestRef, credit_outcome};
use retro_events::HandlerOutcome;
use retro_store::{CommitResult, StoreError};
use retro_trace::{Kind, Span, SpanParent};
use retro_watchdog::catch_panic;
use tracing::{debug, error, info};

use crate::{CLOSINGS_PER_SWEEP, OVERDUE_S, STORE_RETRY_DELAY, Writer};

/// Maximum number of memory uses credited per transaction, because a pull request may have any number of
/// runs. Such a transaction takes a few dozen milliseconds under the workflow's lock. The remaining uses get
/// a message of their own.
const USES_PER_CREDIT: u32 = 500;

impl Writer {
    /// Applies due credits whose wake-up message was lost. Returns the number of pull requests processed.
    pub(crate) async fn sweep_credits(&self) -> Result<usize, StoreError> {
        let overdue = self.store.list_overdue_credits(OVERDUE_S, CLOSINGS_PER_SWEEP).await?;
        for (key, pull_request) in &overdue {
            info!("the credit of {pull_request} in {key} was due without a wake-up");
            let work = Span::start("sweep credits", Kind::Internal, SpanParent::Root);
            // A failure of one item must not stop the sweep.
            match catch_panic(work.instrument(self.credit_pull_request(key, pull_request))).await {
                Ok(Err(away @ StoreError::Unavailable(_))) => return Err(away),
                Ok(Err(problem)) => error!("cannot credit memories for {pull_request} in {key}: {problem}"),
                Ok(Ok(Err(problem))) => {
                    error!("cannot credit memories for {pull_request} in {key}: {problem}")
                }
                Err(panicked) => error!("crediting memories for {pull_request} in {key} failed: {panicked}"),
                Ok(Ok(Ok(_))) => {}
            }
        }
        Ok(overdue.len())
    }

    async fn credit_pull_request(
        &self,
        key: &WorkflowKey,
        pull_request: &PullRequestRef,
    ) -> Result<Result<CommitResult, FoldError>, StoreError> {
        let now = self.clock.now();
        let decide = |facts: &CreditFacts| {
            let credited = credit_outcome(facts, &self.policies.policy_for(key), now)?;
            for change in &credited.changes {
                retro_meter::MEMORY_CHANGES.add(1, [change.effect.kind()]);
            }
            Ok(credited)
        };
        let done = self.store.credit_memories(key, pull_request, USES_PER_CREDIT, &decide).await?;
        if matches!(done, Ok(CommitResult::Done)) {
            info!(tenant = %key.tenant, workflow = %key.workflow, "credited the memories applied for {pull_request}");
            self.outbox.notify_one();
        }
        Ok(done)
    }

    pub(crate) async fn handle_outcomes_due(
        &self,
        key: &WorkflowKey,
        pull_request: &PullRequestRef,
    ) -> HandlerOutcome {
        match self.credit_pull_request(key, pull_request).await {
            Ok(Ok(CommitResult::Done)) => HandlerOutcome::Done,
            Ok(Ok(CommitResult::AlreadyDone | CommitResult::NotFound)) => {
                debug!("no credit is due for {pull_request} in {key}");
                HandlerOutcome::Duplicate
            }
            Ok(Err(problem)) => {
                HandlerOutcome::RetryAfter { wait: STORE_RETRY_DELAY, reason: problem.to_string() }
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
