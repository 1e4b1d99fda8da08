//! Promotes a rule at an operator's request, without confirmation by another pull request.

use jiff::Timestamp;

use super::changes::{RuleChangeRecorder, RuleChanges};
use crate::finding::REASON_CHARS_MAX;
use crate::id::{MemoryId, NAME_BYTES_MAX, WorkflowKey};
use crate::matching::LessonMatcher;
use crate::memory::{ChangeEffect, FoldError, Memory, MemoryScope, MemoryStatus};
use crate::policy::Policy;
use crate::similarity::{ComparedLessons, ComparesTexts, Embedder, VectorCache, replaces};
use crate::weight::Weight;

/// Stored facts needed to promote a rule, read under the lock of the rule scope.
#[derive(Debug, Clone)]
pub struct PromoteFacts {
    /// Rule scope of the repository.
    pub rule_scope: WorkflowKey,
    /// Rule to promote.
    pub memory: Memory,
    /// Living memories of the repository, which may include the rule itself.
    pub memories: Vec<Memory>,
}

impl ComparesTexts for PromoteFacts {
    fn texts_to_compare(&self) -> Vec<String> {
        let rule = &self.memory;
        let mut compared = ComparedLessons::default();
        if self.check_promotable().is_ok() {
            compared.add_new(&rule.scope, &rule.lesson);
        }
        let others = self.memories.iter().filter(|other| other.id != rule.id);
        // Only a rule that may be replaced is compared further, and most replace none.
        for other in others.filter(|other| replaces(&other.lesson, &rule.lesson)) {
            compared.add_known(&other.scope, &other.lesson);
        }
        compared.into_texts()
    }
}

impl PromoteFacts {
    /// Fails unless the memory is a rule with a status in which it can be promoted.
    fn check_promotable(&self) -> Result<(), PromoteError> {
        let Memory { id, status, .. } = self.memory;
        if !matches!(self.memory.scope, MemoryScope::Repository { .. }) {
            return Err(PromoteError::NotARule(id));
        }
        if !matches!(status, MemoryStatus::Tentative | MemoryStatus::Archived) {
            return Err(PromoteError::WrongStatus { memory: id, status });
        }
        Ok(())
    }
}

/// Reason why a rule was not promoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PromoteError {
    /// The memory is not a repository rule.
    #[error("memory {0} is not a repository rule; only rules are promoted, and proposals are accepted")]
    NotARule(MemoryId),
    /// A rule with this status cannot be promoted.
    #[error("rule {memory} is {status}; only tentative and archived rules are promoted")]
    WrongStatus {
        /// Id of the rule.
        memory: MemoryId,
        /// Current status of the rule.
        status: MemoryStatus,
    },
    /// A field of the request is empty or too long.
    #[error("{what} must have 1 to {max} {unit}")]
    TextLength {
        /// Name of the field: `request`, `by` or `reason`.
        what: &'static str,
        /// Maximum length of the field, in `unit`.
        max: usize,
        /// Unit of `max`: `bytes` or `characters`.
        unit: &'static str,
    },
    /// A change is illegal for its memory, so the stored data is damaged.
    #[error(transparent)]
    Damaged(#[from] FoldError),
}

/// Decides the effects of promoting a rule: the rule becomes active at the starting weight and leaves
/// quarantine, and the rules that it replaces are superseded. The reverse is `delete_by_operator`, which
/// leaves a tombstone.
pub fn promote_rule(
    facts: &PromoteFacts,
    request: &str,
    by: &str,
    reason: &str,
    policy: &Policy,
    embedder: &dyn Embedder,
    at: Timestamp,
) -> Result<RuleChanges, PromoteError> {
    validate_request(request, by, reason)?;
    facts.check_promotable()?;
    let memory = &facts.memory;
    let mut recorder = RuleChangeRecorder::new(&facts.rule_scope, request, at);
    let effect = ChangeEffect::Accepted {
        weight: Weight::from_thousandths(policy.confirmed_weight),
        proposal: None,
        by: by.to_owned(),
        tombstone_override: None,
    };
    let reason = format!("promoted by {by}: {reason}");
    let promoted = recorder.make_change(memory.id, Some(memory.clone()), effect, reason)?;
    let promoted = recorder.hold_if_endangering(promoted, policy)?;
    let vectors = VectorCache::new(embedder);
    let alike = LessonMatcher { vectors: &vectors, policy };
    let reason = format!("{by} promoted {}, which replaces it", memory.id);
    recorder.supersede_replaced(alike, &facts.memories, &promoted, &reason)?;
    Ok(recorder.done)
}

fn validate_request(request: &str, by: &str, reason: &str) -> Result<(), PromoteError> {
    for (what, text) in [("request", request), ("by", by)] {
        if !(1..=NAME_BYTES_MAX).contains(&text.len()) {
            return Err(PromoteError::TextLength { what, max: NAME_BYTES_MAX, unit: "bytes" });
        }
    }
    if !(1..=REASON_CHARS_MAX).contains(&reason.chars().count()) {
        return Err(PromoteError::TextLength { what: "reason", max: REASON_CHARS_MAX, unit: "characters" });
    }
    Ok(())
}
