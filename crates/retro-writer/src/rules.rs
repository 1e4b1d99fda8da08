//! Changes the rules of repositories: from reviews, from verdicts on presented rules, and at operators'
//! requests.

use std::sync::{Mutex, PoisonError};

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{MemoryId, ReviewBatchId, Tenant};
use retro_core::learn::{
    PromoteError, PromoteFacts, ReviewClosingFacts, apply_rules, close_review, promote_rule,
};
use retro_core::message::Notice;
use retro_core::review::{ReviewBatch, SettledRemarks};
use retro_core::similarity::Embedder;
use retro_events::HandlerOutcome;
use retro_store::write::{ClosedRuleBatch, RuleBatchFacts};
use retro_store::{CommitResult, DecidedReview, StoreError};
use retro_watchdog::catch_panic;
use tracing::{debug, error, info};

use crate::{CLOSINGS_PER_SWEEP, OVERDUE_S, STORE_RETRY_DELAY, Writer};

impl Writer {
    /// Applies batches of rules whose wake-up message was lost. Returns the number of batches processed.
    pub(crate) async fn sweep_rules(&self) -> Result<usize, StoreError> {
        let overdue = self.store.list_overdue_rule_batches(OVERDUE_S, CLOSINGS_PER_SWEEP).await?;
        for (tenant, id) in &overdue {
            info!(batch.id = %id, "batch {id} of rules was waiting without a wake-up");
            // A failure of one item must not stop the sweep.
            match catch_panic(self.close_rules(tenant, *id)).await {
                Ok(Err(away @ StoreError::Unavailable(_))) => return Err(away),
                Ok(Err(problem)) => {
                    error!(batch.id = %id, "batch {id} of rules cannot be applied: {problem}")
                }
                Err(panicked) => error!(batch.id = %id, "applying batch {id} of rules failed: {panicked}"),
                Ok(Ok(_)) => {}
            }
        }
        Ok(overdue.len())
    }

    async fn close_rules(&self, tenant: &Tenant, id: ReviewBatchId) -> Result<CommitResult, StoreError> {
        let changed = Mutex::new(Vec::new());
        let mut fetcher = self.embedding_fetcher(tenant);
        let step = loop {
            let pass = fetcher.next_pass();
            let decide = |facts: RuleBatchFacts| {
                let closed = pass.ensure_complete(self.apply_batch(facts, pass.embedder()))?;
                let kinds = closed.applied.changes.iter().map(|change| change.effect.kind()).collect();
                *changed.lock().unwrap_or_else(PoisonError::into_inner) = kinds;
                Ok(closed)
            };
            match self.store.close_rule_batch(tenant, id, &decide).await {
                // Nothing is stored: the missing vectors are fetched, and the decision is made again.
                Err(StoreError::MissingEmbeddings(_)) => {}
                done => break done?,
            }
            let missing = pass.missing_texts();
            fetcher.fetch_missing(missing).await?;
        };
        if step == CommitResult::Done {
            // Counted only after the commit: a decision that was not committed is made again.
            for kind in changed.into_inner().unwrap_or_else(PoisonError::into_inner) {
                retro_meter::MEMORY_CHANGES.add(1, [kind]);
            }
            info!(%tenant, batch.id = %id, "applied batch {id} of rules");
            self.outbox.notify_one();
        }
        Ok(step)
    }

    fn apply_batch(&self, facts: RuleBatchFacts, embedder: &dyn Embedder) -> ClosedRuleBatch {
        let RuleBatchFacts { id, review, mutations, rules } = facts;
        match review {
            Some(DecidedReview { review, remarks, decided }) => {
                let tenant = rules.rule_scope.tenant.clone();
                // The decision has already considered requests on other pull requests.
                let batch = ReviewBatch { id, tenant, review, remarks, others: Vec::new() };
                let facts =
                    ReviewClosingFacts { batch, settled: SettledRemarks { decided, mutations }, rules };
                let closing = close_review(facts, embedder, self.clock.now());
                ClosedRuleBatch {
                    applied: closing.applied,
                    report: Some(closing.report),
                    messages: closing.messages,
                }
            }
            None => {
                let rule_scope = rules.rule_scope.clone();
                let applied = apply_rules(rules, &mutations, embedder);
                let changed =
                    applied.changes.iter().filter(|change| !change.effect.leaves_memory_unchanged());
                let messages = changed.map(|change| {
                    let kind = change.effect.kind().to_owned();
                    let (memory, at) = (change.memory, change.at);
                    Notice::MemoryChanged { change: change.id, memory, kind, at }.into_message(&rule_scope)
                });
                ClosedRuleBatch { messages: messages.collect(), applied, report: None }
            }
        }
    }

    /// Promotes a rule at an operator's request, even if it is quarantined. `request` identifies the request;
    /// repeating it has no further effect. The inner error says why the rule cannot be promoted in its
    /// current state. Returns [`CommitResult::NotFound`] if the tenant has no such memory.
    pub async fn promote_rule(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        request: &str,
        by: &str,
        reason: &str,
    ) -> Result<Result<CommitResult, PromoteError>, StoreError> {
        let now = self.clock.now();
        let mut fetcher = self.embedding_fetcher(tenant);
        let done = loop {
            let pass = fetcher.next_pass();
            let decide = |facts: &PromoteFacts| {
                let policy = self.policies.policy_for(&facts.rule_scope);
                pass.ensure_complete(promote_rule(facts, request, by, reason, &policy, pass.embedder(), now))
            };
            match self.store.promote_rule(tenant, id, request, &decide).await {
                Err(StoreError::MissingEmbeddings(_)) => {}
                done => break done?,
            }
            let missing = pass.missing_texts();
            fetcher.fetch_missing(missing).await?;
        };
        if matches!(done, Ok(CommitResult::Done)) {
            retro_meter::MEMORY_CHANGES.add(1, ["accepted"]);
            self.outbox.notify_one();
        }
        Ok(done)
    }

    pub(crate) async fn handle_rules_due(&self, tenant: &Tenant, id: ReviewBatchId) -> HandlerOutcome {
        match self.close_rules(tenant, id).await {
            Ok(CommitResult::Done) => HandlerOutcome::Done,
            Ok(CommitResult::AlreadyDone) => {
                debug!(batch.id = %id, "batch {id} of rules is applied already");
                HandlerOutcome::Duplicate
            }
            Ok(CommitResult::NotFound) => HandlerOutcome::DeadLetter(Rejection::of_field(
                DeadLetterCode::UnknownReference,
                "notice.batch",
                format!("there is no batch {id} of rules in tenant {tenant}"),
            )),
            Err(StoreError::Unavailable(reason)) => {
                HandlerOutcome::Snooze { wait: STORE_RETRY_DELAY, reason }
            }
            Err(problem) => {
                HandlerOutcome::RetryAfter { wait: STORE_RETRY_DELAY, reason: problem.to_string() }
            }
        }
    }
}
