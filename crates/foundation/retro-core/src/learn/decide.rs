//! Decides what a person asks of one memory: to disable, enable, pin, unpin or restore it, or to word it anew.
//! Releasing and retiring are in `apply.rs`.

use jiff::Timestamp;

use super::wording::{LessonWording, TextLengthError};
use crate::gate::{GateDecision, judge_lesson};
use crate::id::{ChangeId, WorkflowKey};
use crate::memory::{
    Change, ChangeCause, ChangeEffect, FoldError, Memory, MemoryStatus, Tombstone, change_id, fold_change,
};
use crate::message::{Message, Notice};
use crate::policy::Policy;

/// A person's decision about one memory or rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryDecision {
    /// No agent is handed the memory until it is enabled.
    Disable,
    /// Agents are handed the memory again, as its status and weight allow.
    Enable,
    /// The memory does not fade: it loses weight only by harm and contradiction.
    Pin,
    /// The memory fades as any other.
    Unpin,
    /// The deletion of the memory is taken back, and its tombstone is lifted.
    Restore,
    /// The memory is worded anew.
    Revise(LessonWording),
}

/// Request that a decision comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionRequest<'r> {
    /// Id of the request. Requests with the same id take effect only once.
    pub id: &'r str,
    /// Name of the operator.
    pub by: &'r str,
    /// Reason, in the operator's words.
    pub reason: &'r str,
}

/// Stored facts from which a memory is decided, read under the lock of its workflow or rule scope.
#[derive(Debug, Clone)]
pub struct MemoryDecisionFacts {
    /// Workflow or rule scope of the memory.
    pub key: WorkflowKey,
    /// The memory.
    pub memory: Memory,
    /// All changes of the memory, oldest first.
    pub history: Vec<Change>,
    /// Tombstone of the memory; `None` if its deletion left none, or if it was purged.
    pub tombstone: Option<Tombstone>,
}

/// Effects of a decision about one memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedMemory {
    /// New changes, in order; empty if the same request has made them before.
    pub changes: Vec<Change>,
    /// The memory after the changes.
    pub memory: Memory,
    /// `true` if the tombstone of the memory is lifted.
    pub lifts_tombstone: bool,
    /// Messages that announce the changes.
    pub messages: Vec<Message>,
}

/// Reason why a memory was not decided as a person asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryDecisionError {
    /// The memory does not allow the change now.
    #[error("{}", .0.problem)]
    Illegal(#[from] FoldError),
    /// The same request took effect before, and something else has happened since.
    #[error("request {request} has done so before, and the memory has changed since; name another request")]
    RepeatedLater {
        /// Id of the request.
        request: String,
    },
    /// The deletion left no tombstone, so there is no time within which it can be taken back.
    #[error("its deletion left no tombstone, so it cannot be taken back")]
    NoTombstone,
    /// The time within which the deletion could be taken back has ended.
    #[error("its deletion could be taken back until {until}")]
    TombstoneExpired {
        /// Time at which the tombstone expired.
        until: Timestamp,
    },
    /// The gate refuses the new words.
    #[error("{why}")]
    Refused {
        /// Reason, in one sentence.
        why: String,
    },
    /// The request names no new words, or the same ones.
    #[error("it says so already")]
    SameWords,
    /// A text is empty or too long.
    #[error(transparent)]
    TextLength(#[from] TextLengthError),
}

/// Decides what a person asks of a memory. Repeating a request changes nothing.
///
/// A disabled memory keeps its weight and collects evidence. The fold refuses every change of its weight and every
/// end of it that no person causes. A pinned memory loses weight only by harm and contradiction; see
/// `decide_weight`. Either may be retired.
pub fn decide_memory(
    facts: &MemoryDecisionFacts,
    decision: &MemoryDecision,
    request: DecisionRequest<'_>,
    policy: &Policy,
    at: Timestamp,
) -> Result<DecidedMemory, MemoryDecisionError> {
    let by = request.by.to_owned();
    let (effect, done) = match decision {
        MemoryDecision::Disable => (ChangeEffect::Disabled { by }, "disabled"),
        MemoryDecision::Enable => (ChangeEffect::Enabled { by }, "enabled"),
        MemoryDecision::Pin => (ChangeEffect::Pinned { by }, "pinned"),
        MemoryDecision::Unpin => (ChangeEffect::Unpinned { by }, "unpinned"),
        MemoryDecision::Restore => {
            (ChangeEffect::Restored { status: status_before_end(facts)?, by }, "restored")
        }
        MemoryDecision::Revise(wording) => {
            (ChangeEffect::Revised { lesson: wording.apply_to(&facts.memory.lesson, &by)? }, "worded anew")
        }
    };
    let cause = ChangeCause::Operator { request: request.id.to_owned() };
    if let Some(position) = position_of(facts, change_id(&facts.key, facts.memory.id, &cause, effect.kind()))
    {
        return repeated(facts, position, request);
    }
    check_decision(facts, &effect, policy, at)?;
    let mut decided = DecidedMemory {
        changes: Vec::new(),
        memory: facts.memory.clone(),
        lifts_tombstone: matches!(effect, ChangeEffect::Restored { .. }),
        messages: Vec::new(),
    };
    let reason = format!("{done} by {}: {}", request.by, request.reason);
    decided.make_change(&facts.key, &cause, effect, reason, at)?;
    if matches!(decision, MemoryDecision::Revise(_)) {
        decided.hold_if_endangering(&facts.key, &cause, policy, at)?;
    }
    Ok(decided)
}

impl DecidedMemory {
    fn make_change(
        &mut self,
        key: &WorkflowKey,
        cause: &ChangeCause,
        effect: ChangeEffect,
        reason: String,
        at: Timestamp,
    ) -> Result<(), FoldError> {
        let change = Change::new(key, self.memory.id, cause.clone(), effect, reason, at);
        self.memory = fold_change(Some(self.memory.clone()), &change)?.expect("the memory stays");
        self.messages.push(Notice::of_change(&change).into_message(key));
        self.changes.push(change);
        Ok(())
    }

    /// Holds the memory if the gate objects to its words, as it would for a retrospective.
    fn hold_if_endangering(
        &mut self,
        key: &WorkflowKey,
        cause: &ChangeCause,
        policy: &Policy,
        at: Timestamp,
    ) -> Result<(), FoldError> {
        let Memory { status, quarantine, released_by, .. } = &self.memory;
        if !status.is_living() || quarantine.is_some() || released_by.is_some() {
            return Ok(());
        }
        let decision = judge_lesson(&self.memory.scope, &self.memory.lesson, &policy.held_dangers);
        let Some(why) = decision.objection().map(str::to_owned) else { return Ok(()) };
        self.make_change(key, cause, ChangeEffect::Held { why: why.clone() }, why, at)
    }
}

fn position_of(facts: &MemoryDecisionFacts, change: ChangeId) -> Option<usize> {
    facts.history.iter().position(|one| one.id == change)
}

/// Answers a request that took effect before. A later change of the same kind of thing must not be passed over in
/// silence: the person would believe that the request took effect now.
fn repeated(
    facts: &MemoryDecisionFacts,
    position: usize,
    request: DecisionRequest<'_>,
) -> Result<DecidedMemory, MemoryDecisionError> {
    let memory = &facts.memory;
    let stands = match &facts.history[position].effect {
        ChangeEffect::Disabled { .. } => memory.disabled_by.is_some(),
        ChangeEffect::Enabled { .. } => memory.disabled_by.is_none(),
        ChangeEffect::Pinned { .. } => memory.pinned_by.is_some(),
        ChangeEffect::Unpinned { .. } => memory.pinned_by.is_none(),
        ChangeEffect::Restored { .. } => memory.status != MemoryStatus::Deleted,
        ChangeEffect::Revised { lesson } => memory.lesson == *lesson,
        _ => true,
    };
    if !stands {
        return Err(MemoryDecisionError::RepeatedLater { request: request.id.to_owned() });
    }
    Ok(DecidedMemory {
        changes: Vec::new(),
        memory: memory.clone(),
        lifts_tombstone: false,
        messages: Vec::new(),
    })
}

/// Fails if the decision is possible for the status of the memory and something else forbids it.
fn check_decision(
    facts: &MemoryDecisionFacts,
    effect: &ChangeEffect,
    policy: &Policy,
    at: Timestamp,
) -> Result<(), MemoryDecisionError> {
    match effect {
        ChangeEffect::Restored { .. } if facts.memory.status == MemoryStatus::Deleted => {
            match (&facts.tombstone, tombstone_end(facts)) {
                (_, None) => Err(MemoryDecisionError::NoTombstone),
                (Some(tombstone), _) if tombstone.until > at => Ok(()),
                (_, Some(until)) => Err(MemoryDecisionError::TombstoneExpired { until }),
            }
        }
        ChangeEffect::Revised { lesson } => {
            if *lesson == facts.memory.lesson {
                return Err(MemoryDecisionError::SameWords);
            }
            match judge_lesson(&facts.memory.scope, lesson, &policy.held_dangers) {
                GateDecision::Refused { why } => Err(MemoryDecisionError::Refused { why }),
                GateDecision::Passed | GateDecision::Held { .. } => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Returns the status that the memory had before it was deleted last, or its status if it was not deleted.
fn status_before_end(facts: &MemoryDecisionFacts) -> Result<MemoryStatus, FoldError> {
    let mut folded: Option<Memory> = None;
    let mut before = facts.memory.status;
    for change in &facts.history {
        if let (ChangeEffect::Deleted { .. }, Some(memory)) = (&change.effect, &folded) {
            before = memory.status;
        }
        folded = fold_change(folded, change)?;
    }
    Ok(before)
}

/// Returns the time at which the tombstone of the last deletion expires, or `None` if it left none.
fn tombstone_end(facts: &MemoryDecisionFacts) -> Option<Timestamp> {
    let last = facts.history.iter().rev().find_map(|change| match change.effect {
        ChangeEffect::Deleted { tombstone_until } => Some(tombstone_until),
        _ => None,
    });
    last.flatten()
}
