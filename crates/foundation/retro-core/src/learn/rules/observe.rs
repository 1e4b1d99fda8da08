//! Applies observations of rules: a remark creates, confirms or revives a rule, adds evidence to an existing
//! one, or is suppressed or refused.

use super::writer::RuleWriter;
use crate::gate::{GateDecision, judge_lesson};
use crate::id::{MemoryId, RemarkKey};
use crate::matching::LessonMatcher;
use crate::memory::{
    ChangeCause, ChangeEffect, Evidence, Lesson, Memory, MemoryScope, MemoryStatus, OBSERVATION_KINDS,
};
use crate::remark::AuthorStanding;
use crate::review::worded_requests;
use crate::weight::Weight;

/// A rule as one edition of a remark states it.
#[derive(Clone)]
pub(super) struct RuleObservation<'a> {
    /// Id that the memory gets if the rule is new.
    pub(super) candidate: MemoryId,
    pub(super) edition: &'a str,
    pub(super) scope: MemoryScope,
    pub(super) lesson: &'a Lesson,
    pub(super) evidence: &'a Evidence,
    pub(super) quarantine: Option<&'a str>,
}

impl RuleWriter<'_> {
    pub(super) fn apply_observation(&mut self, row: usize, observation: &RuleObservation<'_>) {
        let Some(source) = &observation.evidence.remark else {
            return self.ledger.explain_outcome(row, "it names no remark: only a review makes rules");
        };
        let (standing, remark) = (source.standing, source.remark.clone());
        let cause = ChangeCause::Review { remark: remark.clone(), edition: observation.edition.to_owned() };
        if self.was_decided_before(observation.candidate, &cause) {
            return self
                .ledger
                .explain_outcome(row, format!("this has happened before: {remark} has been decided"));
        }
        let decision = judge_lesson(&observation.scope, observation.lesson, &self.policy.held_dangers);
        if let GateDecision::Refused { why } = decision {
            self.refuse_observation(row, observation, &cause, why);
            return;
        }
        let known = self
            .find_same_rule(observation, false)
            .or_else(|| self.find_rule_added_from(&remark))
            .map(|memory| (memory.id, memory.status));
        if !matches!(known, Some((_, MemoryStatus::Active)))
            // A bot's request is refused below and must not be stored as suppressed.
            && standing > AuthorStanding::Bot
            && self.suppress_if_forbidden(row, observation, &cause)
        {
            return;
        }
        let kept = match (known, observation.quarantine) {
            (Some((id, _)), Some(why)) => {
                let why = format!("rule {id} says so already; nothing is added to it, since {why}");
                self.refuse_observation(row, observation, &cause, why)
            }
            (Some((id, MemoryStatus::Active)), None) => self.add_evidence(row, id, observation, &cause),
            (Some((id, _)), None) if standing <= AuthorStanding::Bot => {
                let why = format!(
                    "a program asks for what rule {id} says, which is not active: that counts for nothing"
                );
                self.refuse_observation(row, observation, &cause, why)
            }
            (Some((id, MemoryStatus::Archived)), None) if standing < AuthorStanding::Insider => {
                let (by, run) = (&source.by, &observation.evidence.run);
                let reason = format!("asked for again by {by} on {run}: tentative once more");
                let effect = ChangeEffect::Revived { evidence: observation.evidence.clone() };
                self.ledger.make_change(row, id, cause.clone(), effect, reason).then_some(id)
            }
            (Some((id, _)), None) => self.confirm_rule(row, id, standing, observation, &cause),
            (None, _) if standing <= AuthorStanding::Bot => {
                let why = "a program asks for it, and programs make no rules by themselves".to_owned();
                self.refuse_observation(row, observation, &cause, why)
            }
            (None, _) => self.create_or_hold_rule(row, standing, observation, &cause, &decision),
        };
        if let Some(id) = kept {
            self.supersede_replaced(row, id, observation, &remark, &cause);
        }
    }

    /// Refuses an observation and stores the refusal, so the same text is not decided again, even if the
    /// rules change later. Always returns `None`.
    fn refuse_observation(
        &mut self,
        row: usize,
        observation: &RuleObservation<'_>,
        cause: &ChangeCause,
        why: String,
    ) -> Option<MemoryId> {
        let effect = ChangeEffect::Refused { requested: "observe".to_owned() };
        self.ledger.make_change(row, observation.candidate, cause.clone(), effect, why);
        None
    }

    /// Returns `true` if an earlier call already decided this edition of the remark, even if the memory has
    /// changed since then.
    fn was_decided_before(&self, candidate: MemoryId, cause: &ChangeCause) -> bool {
        let kinds = || OBSERVATION_KINDS.iter().chain(&["refused"]);
        let shown = |id: MemoryId| kinds().any(|kind| self.ledger.was_made(id, cause, kind));
        shown(candidate) || self.ledger.memories().keys().any(|id| shown(*id))
    }

    /// Returns the living rule of the scope that contains the same lesson. Considers only quarantined rules
    /// if `quarantined` is `true`, and only trusted ones otherwise.
    fn find_same_rule(&self, observation: &RuleObservation<'_>, quarantined: bool) -> Option<&Memory> {
        let memories =
            self.ledger.memories().values().filter(|memory| memory.quarantine.is_some() == quarantined);
        let alike = self.lesson_matcher();
        alike.best_match(memories.clone(), &observation.scope, observation.lesson, None).or_else(|| {
            // A person has worded it, and whoever asks again may use the words of the first request.
            let says_so = |memory: &&Memory| {
                memory.status.is_living()
                    && memory.scope == observation.scope
                    && worded_requests(memory)
                        .any(|(_, asked)| alike.same_lesson(&asked, observation.lesson).is_some())
            };
            memories.into_iter().find(says_so)
        })
    }

    /// Returns the living rule that a person has made of this remark, in whatever words.
    fn find_rule_added_from(&self, remark: &RemarkKey) -> Option<&Memory> {
        let is_source =
            |evidence: &Evidence| evidence.remark.as_ref().is_some_and(|source| source.remark == *remark);
        self.ledger.memories().values().find(|memory| {
            memory.status.is_living() && memory.added_by.is_some() && memory.evidence.iter().any(is_source)
        })
    }

    fn suppress_if_forbidden(
        &mut self,
        row: usize,
        observation: &RuleObservation<'_>,
        cause: &ChangeCause,
    ) -> bool {
        let alike: LessonMatcher<'_, '_> = self.lesson_matcher();
        let Some((tombstone, similarity)) = alike.blocking_tombstone(
            self.ledger.live_tombstones().iter(),
            &observation.scope,
            observation.lesson,
        ) else {
            return false;
        };
        let reason = format!("a tombstone forbids it until {}: {}", tombstone.until, tombstone.reason);
        let effect = ChangeEffect::Suppressed {
            tombstone_of: tombstone.memory,
            similarity,
            title: observation.lesson.title.clone(),
        };
        self.ledger.make_change(row, observation.candidate, cause.clone(), effect, reason);
        true
    }

    /// Adds evidence to an active rule if it comes from another pull request, or from a person whose standing
    /// is higher than the rule's authority.
    fn add_evidence(
        &mut self,
        row: usize,
        id: MemoryId,
        observation: &RuleObservation<'_>,
        cause: &ChangeCause,
    ) -> Option<MemoryId> {
        let (memory, run) = (&self.ledger.memories()[&id], &observation.evidence.run);
        let greater = observation.evidence.remark.as_ref().map(|source| source.standing) > memory.authority;
        if !greater && memory.evidence.iter().any(|known| known.run == *run) {
            let why =
                format!("rule {id} says so already, and {run} has shown it: a pull request counts once");
            return self.refuse_observation(row, observation, cause, why);
        }
        let rank =
            (memory.authority.max(observation.evidence.remark.as_ref().map(|source| source.standing)), true);
        let conflicts = if memory.disabled_by.is_some() {
            String::new()
        } else {
            describe_conflicts(&self.replaced_rules(id, &memory.scope, &memory.lesson), rank)
        };
        let reason = format!("asked for again on {run}: evidence, not weight{conflicts}");
        self.ledger.make_change(
            row,
            id,
            cause.clone(),
            ChangeEffect::Observed { evidence: observation.evidence.clone() },
            reason,
        );
        Some(id)
    }

    /// Promotes a tentative or archived rule that a trusted person asked for again. A contributor has to ask
    /// on another pull request, and a rule of higher rank that says otherwise prevents the promotion.
    fn confirm_rule(
        &mut self,
        row: usize,
        id: MemoryId,
        standing: AuthorStanding,
        observation: &RuleObservation<'_>,
        cause: &ChangeCause,
    ) -> Option<MemoryId> {
        let (memory, run) = (&self.ledger.memories()[&id], &observation.evidence.run);
        let evidence = observation.evidence.clone();
        let insider = standing == AuthorStanding::Insider;
        if !insider && memory.tentative_runs.contains(run) {
            let why = format!("{run} has asked for it already; only another pull request confirms");
            return self.refuse_observation(row, observation, cause, why);
        }
        let authority = memory.authority.max(Some(standing));
        let older = self.replaced_rules(id, &observation.scope, &memory.lesson);
        if let Some(older) = older.iter().find(|older| rule_rank(older) > (authority, true)) {
            let reason = format!(
                "asked for again on {run}, but rule {} says otherwise and stands higher: it stays as it is",
                older.id
            );
            if memory.status != MemoryStatus::Tentative {
                return self.refuse_observation(row, observation, cause, reason);
            }
            self.ledger.make_change(row, id, cause.clone(), ChangeEffect::Observed { evidence }, reason);
            return None;
        }
        let reason = if insider {
            format!("asked for on {run} by an insider, whose word is enough")
        } else {
            let by: Vec<_> = memory.tentative_runs.iter().chain([run]).map(ToString::to_string).collect();
            format!("asked for on separate pull requests: {}", by.join(", "))
        };
        let reason = reason + &describe_conflicts(&older, (authority, true));
        let weight = Weight::from_thousandths(self.policy.confirmed_weight);
        self.ledger.make_change(row, id, cause.clone(), ChangeEffect::Promoted { weight, evidence }, reason);
        Some(id)
    }

    /// Creates a rule, and holds it if it leads to a danger. A rule that is held already waits for a person: the
    /// same request does not replace it.
    fn create_or_hold_rule(
        &mut self,
        row: usize,
        standing: AuthorStanding,
        observation: &RuleObservation<'_>,
        cause: &ChangeCause,
        decision: &GateDecision,
    ) -> Option<MemoryId> {
        let GateDecision::Held { why } = decision else {
            return self.create_rule(row, standing, observation, cause);
        };
        if let Some(memory) = self.find_same_rule(observation, true) {
            let why = format!("rule {} says so already and is held for a person", memory.id);
            return self.refuse_observation(row, observation, cause, why);
        }
        // Whoever releases a stranger's rule must have been told of the danger, too.
        let both = observation.quarantine.map(|stranger| format!("{stranger}; {why}"));
        let observation = RuleObservation { quarantine: both.as_deref(), ..observation.clone() };
        let created = self.create_rule(row, standing, &observation, cause);
        if let Some(id) = created {
            let effect = ChangeEffect::Held { why: why.clone() };
            self.ledger.make_change(row, id, cause.clone(), effect, why.clone());
        }
        created
    }

    fn create_rule(
        &mut self,
        row: usize,
        standing: AuthorStanding,
        observation: &RuleObservation<'_>,
        cause: &ChangeCause,
    ) -> Option<MemoryId> {
        let run = &observation.evidence.run;
        if observation.quarantine.is_some()
            && let Some(memory) = self.find_same_rule(observation, true)
        {
            let why = format!("rule {} says so already and is in quarantine", memory.id);
            return self.refuse_observation(row, observation, cause, why);
        }
        let (status, weight, wait) = match (observation.quarantine, standing) {
            (Some(why), _) => (
                MemoryStatus::Tentative,
                Weight::ZERO,
                format!("in quarantine: {why}; a person may promote it"),
            ),
            (None, AuthorStanding::Insider) => {
                let weight = Weight::from_thousandths(self.policy.confirmed_weight);
                (MemoryStatus::Active, weight, "an insider's word is enough".to_owned())
            }
            (None, _) => (
                MemoryStatus::Tentative,
                Weight::ZERO,
                "it has to be asked for on another pull request".to_owned(),
            ),
        };
        let id = observation.candidate;
        let replaced = if observation.quarantine.is_some() {
            String::new()
        } else {
            let older = self.replaced_rules(id, &observation.scope, observation.lesson);
            describe_conflicts(&older, (Some(standing), status == MemoryStatus::Active))
        };
        let effect = ChangeEffect::Created {
            scope: observation.scope.clone(),
            lesson: observation.lesson.clone(),
            status,
            weight,
            evidence: Some(observation.evidence.clone()),
            quarantine: observation.quarantine.map(str::to_owned),
            by: None,
        };
        let reason = format!("asked for on {run}; {wait}{replaced}");
        let made = self.ledger.make_change(row, id, cause.clone(), effect, reason);
        (made && observation.quarantine.is_none()).then_some(id)
    }

    /// Supersedes the rules that a created, confirmed or repeated rule replaces: the rule from an earlier
    /// edition of the same remark, a quarantined rule with the same lesson, and rules of no higher rank that say
    /// otherwise.
    fn supersede_replaced(
        &mut self,
        row: usize,
        id: MemoryId,
        observation: &RuleObservation<'_>,
        remark: &RemarkKey,
        cause: &ChangeCause,
    ) {
        for old in self.rules_only_from(remark).into_iter().filter(|old| *old != id) {
            self.supersede_rule(row, old, id, cause, "the remark that it came from says something else now");
        }
        // A rule that the gate holds is itself in quarantine, so it is left out of the search.
        let quarantined = self.ledger.memories().values().filter(|memory| memory.quarantine.is_some());
        let stranger = self
            .lesson_matcher()
            .best_match(quarantined, &observation.scope, observation.lesson, Some(id))
            .map(|memory| memory.id);
        if let Some(stranger) = stranger {
            self.supersede_rule(
                row,
                stranger,
                id,
                cause,
                "somebody whose word counts asked for the same in words of their own",
            );
        }
        let memory = &self.ledger.memories()[&id];
        if memory.disabled_by.is_some() || memory.quarantine.is_some() {
            // A rule that is shown to nobody must not take the place of one that is.
            return;
        }
        let rank = rule_rank(memory);
        let older = self.replaced_rules(id, &memory.scope, &memory.lesson);
        // Ids are collected first, because superseding changes the memories that the references point to.
        let replaced: Vec<MemoryId> =
            older.iter().filter(|older| rule_rank(older) <= rank).map(|older| older.id).collect();
        for old in replaced {
            self.supersede_rule(
                row,
                old,
                id,
                cause,
                "something else was asked for later, by no lesser standing",
            );
        }
    }

    fn supersede_rule(&mut self, row: usize, old: MemoryId, by: MemoryId, cause: &ChangeCause, why: &str) {
        let reason = format!("rule {old} is superseded by {by}: {why}");
        self.ledger.make_change(row, old, cause.clone(), ChangeEffect::Superseded { by }, reason);
    }

    /// Returns the trusted rules of a scope, tentative or active, that cannot be followed together with a lesson.
    fn replaced_rules(&self, id: MemoryId, scope: &MemoryScope, lesson: &Lesson) -> Vec<&Memory> {
        find_replaced_rules(self.lesson_matcher(), self.ledger.memories().values(), id, scope, lesson)
    }

    /// Returns the living rules whose only evidence is this remark and that no operator has promoted.
    pub(super) fn rules_only_from(&self, remark: &RemarkKey) -> Vec<MemoryId> {
        let only = |memory: &&Memory| {
            let mut sources = memory.evidence.iter().map(|evidence| evidence.remark.as_ref());
            memory.status.is_living()
                // What a person has made a rule holds whatever becomes of the remark.
                && memory.added_by.is_none()
                // Only the most recent evidence is kept, and dropped evidence may be from other remarks.
                && memory.observed_runs as usize == memory.evidence.len()
                // Promotion by an operator raises the authority above that of the remarks.
                && sources.clone().flatten().map(|source| source.standing).max() == memory.authority
                && sources.all(|source| source.is_some_and(|source| source.remark == *remark))
        };
        self.ledger.memories().values().filter(only).map(|memory| memory.id).collect()
    }

    /// Deletes the rules whose only evidence is a remark that was deleted or no longer states a rule. Creates
    /// no tombstone, so the rule can be created again.
    pub(super) fn apply_withdrawal(&mut self, row: usize, remark: &RemarkKey, edition: &str, reason: &str) {
        let cause = ChangeCause::Review { remark: remark.clone(), edition: edition.to_owned() };
        for id in self.rules_only_from(remark) {
            let reason = format!("the remark that it came from was taken back: {reason}");
            self.ledger.make_change(
                row,
                id,
                cause.clone(),
                ChangeEffect::Deleted { tombstone_until: None },
                reason,
            );
        }
        if !self.ledger.has_changes(row) {
            self.ledger.explain_outcome(row, format!("{reason}; no rule stands on it alone"));
        }
    }
}

/// Returns the rank that decides which of two contradicting rules stays: first the highest standing of the
/// people who asked for the rule, then whether it is active.
pub(super) fn rule_rank(memory: &Memory) -> (Option<AuthorStanding>, bool) {
    (memory.authority, memory.status == MemoryStatus::Active)
}

/// Says which rules a rule replaces and which stay beside it because they stand higher, for the reason of its change.
pub(super) fn describe_conflicts(older: &[&Memory], rank: (Option<AuthorStanding>, bool)) -> String {
    let describe = |older: &&Memory| {
        if rule_rank(older) <= rank {
            format!("; it replaces rule {}", older.id)
        } else {
            format!("; rule {} says otherwise and stands higher: both stay", older.id)
        }
    };
    older.iter().map(describe).collect()
}

/// Returns the trusted rules of a scope other than `id`, tentative or active, that cannot be followed together with
/// `lesson`.
pub(super) fn find_replaced_rules<'m>(
    alike: LessonMatcher<'_, '_>,
    memories: impl Iterator<Item = &'m Memory>,
    id: MemoryId,
    scope: &MemoryScope,
    lesson: &Lesson,
) -> Vec<&'m Memory> {
    let is_replaced = |memory: &&Memory| {
        memory.id != id
            && matches!(memory.status, MemoryStatus::Tentative | MemoryStatus::Active)
            && memory.quarantine.is_none()
            // What a person has disabled stays as it is, and is in nobody's way.
            && memory.disabled_by.is_none()
            && memory.scope == *scope
            && alike.vectors.is_replaced(alike.policy, &memory.lesson, lesson)
    };
    memories.filter(is_replaced).collect()
}
