//! Changes the rules of repositories: from reviews, from verdicts on presented rules, and at operators'
//! requests.

use std::sync::{Mutex, PoisonError};

use retro_consumer::{HandlerError, HandlerOutcome, ITEMS_PER_SWEEP, OVERDUE_S, process_item};
use retro_core::id::{MemoryId, ReviewBatchId, Tenant};
use retro_core::learn::{
    AddedRule, FeedbackSelection, PromoteError, PromoteFacts, ReviewClosingFacts, RuleAddition,
    RuleAdditionError, RuleAdditionFacts, RuleChanges, add_rule, apply_rules, close_review, promote_rule,
};
use retro_core::message::Notice;
use retro_core::review::{ReviewBatch, SettledRemarks};
use retro_core::similarity::{Embedder, ResolvedVectors};
use retro_store::write::{ClosedRuleBatch, RuleBatchFacts};
use retro_store::{CommitResult, DecidedReview, Decision, StoreError};
use retro_telemetry::trace::{Kind, Span, SpanParent};
use tracing::{debug, error, info};

use crate::Writer;
use crate::decide::name_token;
use crate::metrics::CountedChanges;

impl Writer {
    /// Applies batches of rules whose wake-up message was lost. Returns the number of batches processed.
    pub(crate) async fn sweep_rules(&self) -> Result<usize, StoreError> {
        let overdue = self.store.list_overdue_rule_batches(OVERDUE_S, ITEMS_PER_SWEEP).await?;
        for (tenant, id) in &overdue {
            info!(batch.id = %id, "batch {id} of rules was waiting without a wake-up");
            let span = Span::start("sweep rules", Kind::Internal, SpanParent::Root);
            process_item(span.instrument(self.close_rules(tenant, *id)), |problem| {
                error!(batch.id = %id, "batch {id} of rules cannot be applied: {problem}");
            })
            .await?;
        }
        Ok(overdue.len())
    }

    async fn close_rules(&self, tenant: &Tenant, id: ReviewBatchId) -> Result<CommitResult, StoreError> {
        let changed = Mutex::new(CountedChanges::default());
        let counted = &changed;
        let collect = || self.store.load_rule_batch_facts(tenant, id);
        let decide = |vectors: ResolvedVectors| async move {
            let decide = |facts: RuleBatchFacts| -> Decision<ClosedRuleBatch> {
                let embedder = vectors.embedder_for(&facts)?;
                let closed = self.apply_batch(facts, embedder);
                *counted.lock().unwrap_or_else(PoisonError::into_inner) =
                    CountedChanges::from_changes(&closed.applied.changes);
                Ok(closed)
            };
            self.store.close_rule_batch(tenant, id, &decide).await
        };
        let step = self.decide_with_vectors(tenant, collect, decide).await?;
        if step == CommitResult::Done {
            // Counted only after the commit: a decision that was not committed is made again.
            changed.into_inner().unwrap_or_else(PoisonError::into_inner).record();
            info!(%tenant, batch.id = %id, "applied batch {id} of rules");
            self.outbox.notify_one();
        }
        Ok(step)
    }

    fn apply_batch(&self, facts: RuleBatchFacts, embedder: &dyn Embedder) -> ClosedRuleBatch {
        let RuleBatchFacts { id, review, mutations, rules } = facts;
        let feedback = FeedbackSelection::select(rules.feedback.clone());
        let mutations = feedback.add_to_rule_batch(id, mutations);
        match review {
            Some(DecidedReview { review, remarks, decided, pipeline, reading }) => {
                let tenant = rules.rule_scope.tenant.clone();
                // The decision has already considered requests on other pull requests.
                let batch = ReviewBatch { id, tenant, review, remarks, others: Vec::new() };
                let settled = SettledRemarks { decided, mutations };
                let facts = ReviewClosingFacts { batch, settled, pipeline, reading, rules };
                let closing = close_review(facts, embedder, self.clock.now());
                ClosedRuleBatch {
                    feedback: feedback.settle(id.0, &closing.applied),
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
                let (messages, feedback) = (messages.collect(), feedback.settle(id.0, &applied));
                ClosedRuleBatch { messages, feedback, applied, report: None }
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
        let changed = Mutex::new(CountedChanges::default());
        let counted = &changed;
        let token = &(self.deciding_token)();
        let collect = || self.store.load_promote_facts(tenant, id);
        let decide = |vectors: ResolvedVectors| async move {
            let decide = |facts: &PromoteFacts| -> Decision<Result<RuleChanges, PromoteError>> {
                let embedder = vectors.embedder_for(facts)?;
                let policy = self.policies.policy_for(&facts.rule_scope);
                let mut promoted = promote_rule(facts, request, by, reason, &policy, embedder, now);
                if let Ok(promotion) = &mut promoted {
                    name_token(&mut promotion.changes, token.as_ref());
                    *counted.lock().unwrap_or_else(PoisonError::into_inner) =
                        CountedChanges::from_changes(&promotion.changes);
                }
                Ok(promoted)
            };
            self.store.promote_rule(tenant, id, request, &decide).await
        };
        let done = self.decide_with_vectors(tenant, collect, decide).await?;
        if matches!(done, Ok(CommitResult::Done)) {
            // The gate may hold the promoted rule, and opposite rules are superseded.
            changed.into_inner().unwrap_or_else(PoisonError::into_inner).record();
            self.outbox.notify_one();
        }
        Ok(done)
    }

    /// Adds a rule that an operator asks for, in words of their own or from a remark. The same words twice are one rule,
    /// and repeating a request has no further effect. Returns `None` if the tenant has no such remark, or if its author
    /// has deleted it. The inner error says why nothing was added.
    pub async fn add_rule(
        &self,
        tenant: &Tenant,
        addition: &RuleAddition,
    ) -> Result<Option<Result<AddedRule, RuleAdditionError>>, StoreError> {
        let now = self.clock.now();
        let token = &(self.deciding_token)();
        let collect = || self.store.load_rule_addition_facts(tenant, addition);
        let decide = |vectors: ResolvedVectors| async move {
            let decide = |facts: &RuleAdditionFacts| -> Decision<Result<AddedRule, RuleAdditionError>> {
                let embedder = vectors.embedder_for(facts)?;
                let policy = self.policies.policy_for(&facts.rule_scope);
                Ok(add_rule(facts, &policy, embedder, now).map(|mut added| {
                    name_token(&mut added.done.changes, token.as_ref());
                    added
                }))
            };
            self.store.add_rule(tenant, addition, &decide).await
        };
        let added = self.decide_with_vectors(tenant, collect, decide).await?;
        if let Some(Ok(AddedRule { done, .. })) = &added {
            CountedChanges::from_changes(&done.changes).record();
            self.outbox.notify_one();
        }
        Ok(added)
    }

    pub(crate) async fn handle_rules_due(
        &self,
        tenant: &Tenant,
        id: ReviewBatchId,
    ) -> Result<HandlerOutcome, HandlerError> {
        match self.close_rules(tenant, id).await? {
            CommitResult::Done => Ok(HandlerOutcome::Done),
            CommitResult::AlreadyDone => {
                debug!(batch.id = %id, "batch {id} of rules is applied already");
                Ok(HandlerOutcome::Duplicate)
            }
            CommitResult::NotFound => Err(HandlerError::unknown_reference(
                "notice.batch",
                format!("there is no batch {id} of rules in tenant {tenant}"),
            )),
        }
    }
}
