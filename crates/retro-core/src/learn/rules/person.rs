//! A person promotes a rule: what another pull request would have had to confirm, they vouch for.

use jiff::Timestamp;

use super::super::alike::Alike;
use super::observe::opposing;
use crate::finding::REASON_CHARS_MAX;
use crate::id::{MemoryId, NAME_BYTES_MAX, WorkflowKey};
use crate::memory::{Cause, Change, Effect, FoldError, Memory, Scope, Status, change_id, fold};
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::similar::{Embedder, Vectors};
use crate::weight::Weight;

/// What is known when a person promotes a rule, read under the lock of its keeper.
#[derive(Debug, Clone)]
pub struct PromoteFacts {
    /// The keeper.
    pub keeper: WorkflowKey,
    /// The rule.
    pub memory: Memory,
    /// The living memories of its repository; the rule itself may be among them.
    pub memories: Vec<Memory>,
}

/// What promoting does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promotion {
    /// The changes, in order: the acceptance, and what it supersedes.
    pub changes: Vec<Change>,
    /// Every memory that changed, as it is now.
    pub memories: Vec<Memory>,
    /// Announcements.
    pub messages: Vec<Message>,
}

/// Why a rule was not promoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpromoted {
    /// It is something else.
    #[error("memory {0} is no rule of a repository: only those are promoted; a proposal is accepted instead")]
    NoRule(MemoryId),
    /// It is not in a state to be promoted.
    #[error("rule {memory} is {status}; tentative and archived ones are promoted")]
    Status {
        /// The rule.
        memory: MemoryId,
        /// Where it stands.
        status: Status,
    },
    /// A text is empty or too long.
    #[error("{what} must have 1 to {max} {unit}")]
    Text {
        /// `request`, `by` or `reason`.
        what: &'static str,
        /// The bound.
        max: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// The stored memory and its changes contradict each other.
    #[error(transparent)]
    Damaged(#[from] FoldError),
}

/// Decides what a person's promotion does: the rule is active at the starting weight, out of quarantine, and what says the
/// opposite is superseded. Retiring is `delete_by_operator`: deleted, with a tombstone that keeps the like away.
pub fn promote_rule(
    facts: &PromoteFacts,
    request: &str,
    by: &str,
    reason: &str,
    policy: &Policy,
    embedder: &dyn Embedder,
    at: Timestamp,
) -> Result<Promotion, Unpromoted> {
    check(request, by, reason)?;
    let memory = &facts.memory;
    if !matches!(memory.scope, Scope::Repository { .. }) {
        return Err(Unpromoted::NoRule(memory.id));
    }
    if !matches!(memory.status, Status::Tentative | Status::Archived) {
        return Err(Unpromoted::Status { memory: memory.id, status: memory.status });
    }
    let cause = Cause::Operator { request: request.to_owned() };
    let mut promotion = Promotion { changes: Vec::new(), memories: Vec::new(), messages: Vec::new() };
    let effect = Effect::Accepted {
        weight: Weight::thousandths(policy.confirmed_weight),
        proposal: None,
        by: by.to_owned(),
        despite: None,
    };
    promotion.make(facts, memory, &cause, effect, format!("promoted by {by}: {reason}"), at)?;
    let vectors = Vectors::new(embedder);
    let alike = Alike { vectors: &vectors, policy };
    for old in opposing(alike, facts.memories.iter(), memory.id, &memory.scope, &memory.lesson) {
        let reason = format!("{by} promoted {}, which says the opposite", memory.id);
        promotion.make(facts, old, &cause, Effect::Superseded { by: memory.id }, reason, at)?;
    }
    Ok(promotion)
}

impl Promotion {
    fn make(
        &mut self,
        facts: &PromoteFacts,
        memory: &Memory,
        cause: &Cause,
        effect: Effect,
        reason: String,
        at: Timestamp,
    ) -> Result<(), FoldError> {
        let kind = effect.kind();
        let change = Change {
            id: change_id(&facts.keeper, memory.id, cause, kind),
            memory: memory.id,
            cause: cause.clone(),
            effect,
            mutation: None,
            retrospective: None,
            epoch: None,
            at,
            reason,
        };
        let told = Notice::MemoryChanged { change: change.id, memory: memory.id, kind: kind.to_owned(), at };
        self.memories.extend(fold(Some(memory.clone()), &change)?);
        self.messages.push(told.about(&facts.keeper));
        self.changes.push(change);
        Ok(())
    }
}

fn check(request: &str, by: &str, reason: &str) -> Result<(), Unpromoted> {
    for (what, text) in [("request", request), ("by", by)] {
        if !(1..=NAME_BYTES_MAX).contains(&text.len()) {
            return Err(Unpromoted::Text { what, max: NAME_BYTES_MAX, unit: "bytes" });
        }
    }
    if !(1..=REASON_CHARS_MAX).contains(&reason.chars().count()) {
        return Err(Unpromoted::Text { what: "reason", max: REASON_CHARS_MAX, unit: "characters" });
    }
    Ok(())
}
