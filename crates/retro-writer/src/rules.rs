//! Applying what reviews, and runs that rules stood before, ask of a repository's rules, and what a person does to a rule.

use std::sync::{Mutex, PoisonError};

use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{MemoryId, ReviewBatchId, Tenant};
use retro_core::learn::{PromoteFacts, ReviewFacts, Unpromoted, apply_rules, close_review, promote_rule};
use retro_core::message::Notice;
use retro_core::review::{ReviewBatch, Settled};
use retro_core::similar::Embedder;
use retro_events::Verdict;
use retro_store::write::{RuleBatchFacts, RulesClosed};
use retro_store::{DecidedReview, Step, StoreError};
use retro_watchdog::caught;
use tracing::{debug, error, info};

use crate::{CLOSINGS_PER_SWEEP, OVERDUE_S, STORE_AWAY, Writer};

impl Writer {
    /// Applies the batches of rules that a lost wake-up left. Returns how many were taken up.
    pub(crate) async fn sweep_rules(&self) -> Result<usize, StoreError> {
        let overdue = self.store.overdue_rules(OVERDUE_S, CLOSINGS_PER_SWEEP).await?;
        for (tenant, id) in &overdue {
            info!(batch.id = %id, "batch {id} of rules was waiting without a wake-up");
            // What is wrong with one is no reason to leave the others.
            match caught(self.close_rules(tenant, *id)).await {
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

    async fn close_rules(&self, tenant: &Tenant, id: ReviewBatchId) -> Result<Step, StoreError> {
        let changed = Mutex::new(Vec::new());
        let mut rounds = self.rounds(tenant);
        let step = loop {
            let hand = rounds.hand();
            let decide = |facts: RuleBatchFacts| {
                let closed = hand.ready(self.applied(facts, hand.embedder()))?;
                let kinds = closed.applied.changes.iter().map(|change| change.effect.kind()).collect();
                *changed.lock().unwrap_or_else(PoisonError::into_inner) = kinds;
                Ok(closed)
            };
            match self.store.close_rules(tenant, id, &decide).await {
                Err(StoreError::Unready(_)) => {}
                done => break done?,
            }
            let missed = hand.missed();
            rounds.get(missed).await?;
        };
        if step == Step::Done {
            // Only now do they stand: what was not committed is decided again.
            for kind in changed.into_inner().unwrap_or_else(PoisonError::into_inner) {
                retro_meter::CHANGES.add(1, [kind]);
            }
            info!(%tenant, batch.id = %id, "applied batch {id} of rules");
            self.outbox.notify_one();
        }
        Ok(step)
    }

    fn applied(&self, facts: RuleBatchFacts, embedder: &dyn Embedder) -> RulesClosed {
        let RuleBatchFacts { id, review, mutations, rules } = facts;
        match review {
            Some(DecidedReview { review, remarks, decided }) => {
                let tenant = rules.keeper.tenant.clone();
                // What was asked elsewhere had its say in the decision.
                let batch = ReviewBatch { id, tenant, review, remarks, others: Vec::new() };
                let facts = ReviewFacts { batch, settled: Settled { decided, mutations }, rules };
                let closing = close_review(facts, embedder, self.clock.now());
                RulesClosed {
                    applied: closing.applied,
                    report: Some(closing.report),
                    messages: closing.messages,
                }
            }
            None => {
                let keeper = rules.keeper.clone();
                let applied = apply_rules(rules, &mutations, embedder);
                let changed = applied.changes.iter().filter(|change| !change.effect.leaves_memory());
                let told = changed.map(|change| {
                    let kind = change.effect.kind().to_owned();
                    let (memory, at) = (change.memory, change.at);
                    Notice::MemoryChanged { change: change.id, memory, kind, at }.about(&keeper)
                });
                RulesClosed { messages: told.collect(), applied, report: None }
            }
        }
    }

    /// Promotes a rule because a person vouches for it, out of quarantine too. `request` identifies the asking: the same
    /// request promotes once. The inner error says why the rule cannot be promoted as it stands; `Unknown` that the tenant has
    /// no such memory.
    pub async fn promote(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        request: &str,
        by: &str,
        reason: &str,
    ) -> Result<Result<Step, Unpromoted>, StoreError> {
        let now = self.clock.now();
        let mut rounds = self.rounds(tenant);
        let done = loop {
            let hand = rounds.hand();
            let decide = |facts: &PromoteFacts| {
                let policy = self.policies.of(&facts.keeper);
                hand.ready(promote_rule(facts, request, by, reason, &policy, hand.embedder(), now))
            };
            match self.store.promote_rule(tenant, id, request, &decide).await {
                Err(StoreError::Unready(_)) => {}
                done => break done?,
            }
            let missed = hand.missed();
            rounds.get(missed).await?;
        };
        if matches!(done, Ok(Step::Done)) {
            retro_meter::CHANGES.add(1, ["accepted"]);
            self.outbox.notify_one();
        }
        Ok(done)
    }

    pub(crate) async fn answer_rules(&self, tenant: &Tenant, id: ReviewBatchId) -> Verdict {
        match self.close_rules(tenant, id).await {
            Ok(Step::Done) => Verdict::Done,
            Ok(Step::AlreadyDone) => {
                debug!(batch.id = %id, "batch {id} of rules is applied already");
                Verdict::Known
            }
            Ok(Step::Unknown) => Verdict::DeadLetter(Rejection::at(
                Code::UnknownReference,
                "notice.batch",
                format!("there is no batch {id} of rules in tenant {tenant}"),
            )),
            Err(StoreError::Unavailable(reason)) => Verdict::Snooze { wait: STORE_AWAY, reason },
            Err(problem) => Verdict::RetryAfter { wait: STORE_AWAY, reason: problem.to_string() },
        }
    }
}
