//! Closes a review: applies its mutations to the rules and builds the report, as one decision for one
//! transaction.

use jiff::Timestamp;

use super::super::apply::AppliedBatch;
use super::super::close::merge_memories;
use super::{RuleFacts, apply_rules};
use crate::message::{Message, Notice};
use crate::review::{ReviewBatch, ReviewReport, SettledRemarks};
use crate::similarity::Embedder;

/// Stored facts needed to close a decided review.
#[derive(Debug, Clone)]
pub struct ReviewClosingFacts {
    /// Review with its remarks, as they were when they were decided.
    pub batch: ReviewBatch,
    /// Decisions on the remarks, and the mutations that follow from them.
    pub settled: SettledRemarks,
    /// Facts about the repository's rules that the writer needs to apply the mutations.
    pub rules: RuleFacts,
}

/// Result of closing a review.
#[derive(Debug, Clone)]
pub struct ClosedReview {
    /// Changes to memories, with the outcomes of the mutations.
    pub applied: AppliedBatch,
    /// Report of the review, to be stored.
    pub report: ReviewReport,
    /// Messages that announce the changes.
    pub messages: Vec<Message>,
}

/// Decides the effects of closing a review. This is a pure function. `now` is the time of the writer's clock
/// and appears only in the report.
pub fn close_review(facts: ReviewClosingFacts, embedder: &dyn Embedder, now: Timestamp) -> ClosedReview {
    let ReviewClosingFacts { batch, settled, rules } = facts;
    let before: Vec<_> = rules.memories.iter().filter(|memory| memory.status.is_living()).cloned().collect();
    let (keeper, policy, as_of) = (rules.rule_scope.clone(), rules.policy.clone(), rules.as_of);
    let applied = apply_rules(rules, &settled.mutations, embedder);
    let after = merge_memories(before.clone(), &applied.memories);
    let report = ReviewReport::build_report(crate::review::ReviewReportInputs {
        batch: &batch,
        decided: &settled.decided,
        rule_scope: &keeper,
        applied: &applied,
        before: &before,
        after: &after,
        policy,
        as_of,
        embedder: embedder.name(),
        closed_at: now,
    });
    let changed = applied.changes.iter().filter(|change| !change.effect.leaves_memory_unchanged());
    let messages = changed
        .map(|change| {
            let kind = change.effect.kind().to_owned();
            let notice =
                Notice::MemoryChanged { change: change.id, memory: change.memory, kind, at: change.at };
            notice.into_message(&keeper)
        })
        .collect();
    ClosedReview { applied, report, messages }
}
