//! Closing a review: its batch is applied and its report written, as one decision for one transaction.

use jiff::Timestamp;

use super::super::apply::Applied;
use super::super::close::merged;
use super::{RuleFacts, apply_rules};
use crate::message::{Message, Notice};
use crate::review::{ReviewBatch, ReviewReport, Settled};
use crate::similar::Embedder;

/// Everything about a decided review that waits for the writer.
#[derive(Debug, Clone)]
pub struct ReviewFacts {
    /// The review with its remarks, as it was decided.
    pub batch: ReviewBatch,
    /// What was decided, and what is asked of memory.
    pub settled: Settled,
    /// What the writer knows.
    pub rules: RuleFacts,
}

/// What closing a review does.
#[derive(Debug, Clone)]
pub struct ReviewClosing {
    /// What the batch did to memory: changes, memories, expired tombstones.
    pub applied: Applied,
    /// The report.
    pub report: ReviewReport,
    /// Announcements of the changes.
    pub messages: Vec<Message>,
}

/// Decides what a review leaves. Pure: the same facts give the same report and changes. `now` is the writer's clock and
/// stands in the report alone.
pub fn close_review(facts: ReviewFacts, embedder: &dyn Embedder, now: Timestamp) -> ReviewClosing {
    let ReviewFacts { batch, settled, rules } = facts;
    let before: Vec<_> = rules.memories.iter().filter(|memory| memory.status.lives()).cloned().collect();
    let (keeper, policy, as_of) = (rules.keeper.clone(), rules.policy.clone(), rules.as_of);
    let applied = apply_rules(rules, &settled.mutations, embedder);
    let after = merged(before.clone(), &applied.memories);
    let report = ReviewReport::write(crate::review::Inputs {
        batch: &batch,
        decided: &settled.decided,
        keeper: &keeper,
        applied: &applied,
        before: &before,
        after: &after,
        policy,
        as_of,
        embedder: embedder.name(),
        closed_at: now,
    });
    let changed = applied.changes.iter().filter(|change| !change.effect.leaves_memory());
    let messages = changed
        .map(|change| {
            let kind = change.effect.kind().to_owned();
            let told =
                Notice::MemoryChanged { change: change.id, memory: change.memory, kind, at: change.at };
            told.about(&keeper)
        })
        .collect();
    ReviewClosing { applied, report, messages }
}
