//! Applies late credit, which becomes due when the pull request of a run that applied memories ends.

use std::sync::{Mutex, PoisonError};

use retro_consumer::{HandlerError, HandlerOutcome, ITEMS_PER_SWEEP, OVERDUE_S, process_item};
use retro_core::id::WorkflowKey;
use retro_core::outcome::{CreditFacts, credit_outcome};
use retro_core::pull_request::PullRequestRef;
use retro_store::{CommitResult, StoreError};
use retro_telemetry::trace::{Kind, Span, SpanParent};
use tracing::{debug, error, info};

use crate::Writer;
use crate::metrics::CountedChanges;

/// Maximum number of memory uses credited per transaction, because a pull request may have any number of
/// runs. Such a transaction takes a few dozen milliseconds under the workflow's lock. The remaining uses get
/// a message of their own.
const USES_PER_CREDIT: u32 = 500;

impl Writer {
    /// Applies due credits whose wake-up message was lost. Returns the number of pull requests processed.
    pub(crate) async fn sweep_credits(&self) -> Result<usize, StoreError> {
        let overdue = self.store.list_overdue_credits(OVERDUE_S, ITEMS_PER_SWEEP).await?;
        for (key, pull_request) in &overdue {
            info!("the credit of {pull_request} in {key} was due without a wake-up");
            let span = Span::start("sweep credits", Kind::Internal, SpanParent::Root);
            process_item(span.instrument(self.credit_pull_request(key, pull_request)), |problem| {
                error!("cannot credit memories for {pull_request} in {key}: {problem}");
            })
            .await?;
        }
        Ok(overdue.len())
    }

    async fn credit_pull_request(
        &self,
        key: &WorkflowKey,
        pull_request: &PullRequestRef,
    ) -> Result<CommitResult, HandlerError> {
        let now = self.clock.now();
        let counted = Mutex::new(CountedChanges::default());
        let decide = |facts: &CreditFacts| {
            let credited = credit_outcome(facts, &self.policies.policy_for(key), now)?;
            *counted.lock().unwrap_or_else(PoisonError::into_inner) =
                CountedChanges::from_changes(&credited.changes);
            Ok(credited)
        };
        let credited = self.store.credit_memories(key, pull_request, USES_PER_CREDIT, &decide).await?;
        let done = credited.map_err(|problem| HandlerError::Failed(problem.to_string()))?;
        if done == CommitResult::Done {
            counted.into_inner().unwrap_or_else(PoisonError::into_inner).record();
            info!(tenant = %key.tenant, workflow = %key.workflow, "credited the memories applied for {pull_request}");
            self.outbox.notify_one();
        }
        Ok(done)
    }

    pub(crate) async fn handle_outcomes_due(
        &self,
        key: &WorkflowKey,
        pull_request: &PullRequestRef,
    ) -> Result<HandlerOutcome, HandlerError> {
        match self.credit_pull_request(key, pull_request).await? {
            CommitResult::Done => Ok(HandlerOutcome::Done),
            CommitResult::AlreadyDone | CommitResult::NotFound => {
                debug!("no credit is due for {pull_request} in {key}");
                Ok(HandlerOutcome::Duplicate)
            }
        }
    }
}
