//! Closes a review: applies its mutations to the rules and builds the report, as one decision for one
//! transaction.

use jiff::Timestamp;

use super::apply::apply_rules;
use super::writer::RuleFacts;
use crate::memory::AppliedBatch;
use crate::message::{Message, Notice};
use crate::pipeline::PipelineHashes;
use crate::review::{ReviewBatch, ReviewReading, ReviewReport, ReviewReportInputs, SettledRemarks};
use crate::similarity::Embedder;

/// Stored facts needed to close a decided review.
#[derive(Debug, Clone)]
pub struct ReviewClosingFacts {
    /// Review with its remarks, as they were when they were decided.
    pub batch: ReviewBatch,
    /// Decisions on the remarks, and the mutations that follow from them.
    pub settled: SettledRemarks,
    /// Version of the review pipeline under which the remarks were read; `None` if none was stored.
    pub pipeline: Option<PipelineHashes>,
    /// How the remarks were read; `None` if that was not stored.
    pub reading: Option<ReviewReading>,
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
    let ReviewClosingFacts { batch, settled, pipeline, reading, rules } = facts;
    let before: Vec<_> = rules.memories.iter().filter(|memory| memory.status.is_living()).cloned().collect();
    let (rule_scope, policy, as_of) = (rules.rule_scope.clone(), rules.policy.clone(), rules.as_of);
    let applied = apply_rules(rules, &settled.mutations, embedder);
    let after = applied.memories_after(&before);
    let report = ReviewReport::build_report(ReviewReportInputs {
        batch: &batch,
        decided: &settled.decided,
        rule_scope: &rule_scope,
        applied: &applied,
        before: &before,
        after: &after,
        policy,
        pipeline,
        reading,
        as_of,
        embedder: embedder.name(),
        closed_at: now,
    });
    let messages = applied
        .effective_changes()
        .map(|change| Notice::of_change(change).into_message(&rule_scope))
        .collect();
    ClosedReview { applied, report, messages }
}
