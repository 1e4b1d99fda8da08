//! Changes that a person's request makes to the rules of a repository.

use jiff::Timestamp;

use super::observe::find_replaced_rules;
use crate::gate::judge_lesson;
use crate::id::{MemoryId, WorkflowKey};
use crate::matching::LessonMatcher;
use crate::memory::{Change, ChangeCause, ChangeEffect, FoldError, Memory, fold_change};
use crate::message::{Message, Notice};
use crate::policy::Policy;

/// Changes that a person's request makes to the rules of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleChanges {
    /// Changes in order: those of the rule itself, then the superseding of the rules that it replaces.
    pub changes: Vec<Change>,
    /// Memories that changed, in their new state.
    pub memories: Vec<Memory>,
    /// Messages that announce the changes.
    pub messages: Vec<Message>,
}

/// Makes the changes of one request.
pub(super) struct RuleChangeRecorder<'r> {
    pub(super) rule_scope: &'r WorkflowKey,
    pub(super) request: &'r str,
    pub(super) at: Timestamp,
    pub(super) done: RuleChanges,
}

impl<'r> RuleChangeRecorder<'r> {
    pub(super) fn new(rule_scope: &'r WorkflowKey, request: &'r str, at: Timestamp) -> Self {
        Self { rule_scope, request, at, done: RuleChanges::default() }
    }

    /// Makes a change of the rule `id`, whose state before it is `memory`, and returns the rule after it.
    pub(super) fn make_change(
        &mut self,
        id: MemoryId,
        memory: Option<Memory>,
        effect: ChangeEffect,
        reason: String,
    ) -> Result<Memory, FoldError> {
        let cause = ChangeCause::Operator { request: self.request.to_owned() };
        let change = Change::new(self.rule_scope, id, cause, effect, reason, self.at);
        let after = fold_change(memory, &change)?.expect("no change of a person removes a memory");
        self.done.memories.retain(|memory| memory.id != id);
        self.done.memories.push(after.clone());
        self.done.messages.push(Notice::of_change(&change).into_message(self.rule_scope));
        self.done.changes.push(change);
        Ok(after)
    }

    /// Holds the rule if the gate objects to it: a person's word says that the rule holds, and handing it to agents
    /// in spite of a danger is a decision of its own.
    pub(super) fn hold_if_endangering(&mut self, rule: Memory, policy: &Policy) -> Result<Memory, FoldError> {
        if rule.quarantine.is_some() || rule.released_by.is_some() {
            return Ok(rule);
        }
        let decision = judge_lesson(&rule.scope, &rule.lesson, &policy.held_dangers);
        let Some(why) = decision.objection().map(str::to_owned) else { return Ok(rule) };
        self.make_change(rule.id, Some(rule), ChangeEffect::Held { why: why.clone() }, why)
    }

    /// Supersedes those of `memories` that the rule replaces. A rule that is shown to nobody replaces none.
    pub(super) fn supersede_replaced(
        &mut self,
        alike: LessonMatcher<'_, '_>,
        memories: &[Memory],
        rule: &Memory,
        reason: &str,
    ) -> Result<(), FoldError> {
        if rule.quarantine.is_some() || rule.disabled_by.is_some() {
            return Ok(());
        }
        for old in find_replaced_rules(alike, memories.iter(), rule.id, &rule.scope, &rule.lesson) {
            self.supersede(old, rule.id, reason)?;
        }
        Ok(())
    }

    /// Supersedes a rule by the rule `by`.
    pub(super) fn supersede(&mut self, old: &Memory, by: MemoryId, reason: &str) -> Result<(), FoldError> {
        let effect = ChangeEffect::Superseded { by };
        self.make_change(old.id, Some(old.clone()), effect, reason.to_owned()).map(drop)
    }
}
