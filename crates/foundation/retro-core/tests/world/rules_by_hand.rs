//! Rules that people add, in the in-memory store of one repository's rules.

use retro_core::learn::{
    AddedRule, DecisionRequest, LessonWording, PromotedRemark, RuleAddition, RuleAdditionError,
    RuleAdditionFacts, add_rule,
};
use retro_core::memory::{Change, ChangeCause, Memory};
use retro_core::policy::Policy;
use retro_core::review::ReadRemark;

use super::CollectedTexts;
use super::rules::{RuleStore, repo, rule_scope};

/// Returns the words of a person with this title.
pub(crate) fn titled(title: &str) -> LessonWording {
    LessonWording { title: Some(title.to_owned()), content: None }
}

fn request_of(id: &str) -> DecisionRequest<'_> {
    DecisionRequest { id, by: "anna", reason: "we agreed on it" }
}

impl RuleStore {
    /// Adds a rule in a person's words for a path, or for the whole repository.
    pub(crate) fn add_in(
        &mut self,
        path: Option<&str>,
        title: &str,
        request: &str,
    ) -> Result<AddedRule, RuleAdditionError> {
        let path = path.map(str::to_owned);
        self.add(RuleAddition::in_words(repo(), path, titled(title), request_of(request)), None)
    }

    /// Adds a rule in a person's words for the whole repository.
    pub(crate) fn add_titled(&mut self, title: &str, request: &str) -> Result<AddedRule, RuleAdditionError> {
        self.add_in(None, title, request)
    }

    /// Makes a remark a rule, in its words or in those of the person.
    pub(crate) fn promote_remark(
        &mut self,
        read: &ReadRemark,
        wording: LessonWording,
        request: &str,
    ) -> Result<AddedRule, RuleAdditionError> {
        let addition = RuleAddition::of_remark(read.remark.key.clone(), None, wording, request_of(request));
        let remark = PromotedRemark { remark: read.remark.clone(), read: Some(read.clone()) };
        self.add(addition, Some(remark))
    }

    fn add(
        &mut self,
        addition: RuleAddition,
        remark: Option<PromotedRemark>,
    ) -> Result<AddedRule, RuleAdditionError> {
        self.round += 1;
        let cause = ChangeCause::Operator { request: addition.request.clone() };
        let applied: Vec<&Change> = self.log.iter().filter(|change| change.cause == cause).collect();
        let load = |memory: &&Memory| {
            memory.status.is_living() || applied.iter().any(|change| change.memory == memory.id)
        };
        let facts = RuleAdditionFacts {
            addition,
            rule_scope: rule_scope(),
            remark,
            memories: self.memories.values().filter(load).cloned().collect(),
            tombstones: self.tombstones.clone(),
            applied: applied.iter().map(|change| change.id).collect(),
        };
        let added = add_rule(&facts, &Policy::default(), &CollectedTexts::of(&facts), self.now())?;
        self.append(&added.done.changes, &added.done.memories);
        assert_eq!(self.memories[&added.rule.id], added.rule, "it is stored as it is returned");
        Ok(added)
    }
}
