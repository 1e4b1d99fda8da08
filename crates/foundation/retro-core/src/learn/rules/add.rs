//! Adds a rule at a person's request: in words of their own, or from a remark that the reviewer did not take for a
//! rule.

use std::collections::HashSet;

use jiff::Timestamp;

use super::changes::{RuleChangeRecorder, RuleChanges};
use super::observe::{describe_conflicts, find_replaced_rules};
use crate::finding::TITLE_CHARS_MAX;
use crate::gate::{GateDecision, judge_lesson};
use crate::id::{ChangeId, MemoryId, RemarkKey, Repository, WorkflowKey};
use crate::learn::decide::DecisionRequest;
use crate::learn::wording::{LessonWording, TextLengthError};
use crate::matching::LessonMatcher;
use crate::memory::{
    ChangeCause, ChangeEffect, Evidence, FoldError, Lesson, Memory, MemoryScope, MemoryStatus, Tombstone,
    change_id,
};
use crate::policy::Policy;
use crate::remark::{AuthorStanding, Remark};
use crate::review::{ReadRemark, RuleText, build_lesson, remark_evidence};
use crate::similarity::{ComparedLessons, ComparesTexts, Embedder, VectorCache};
use crate::weight::Weight;

/// Maximum length of the path that limits a rule, in characters. The line of the rule ends with it.
const PATH_CHARS_MAX: usize = 200;

/// Rule that a person asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleAddition {
    /// Repository of the rule.
    pub repo: Repository,
    /// Remark that is made a rule; `None` for a rule in the person's words alone.
    pub remark: Option<RemarkKey>,
    /// Folder or file to which the rule is limited. If it is `None`, the path of the remark's rule counts.
    pub path: Option<String>,
    /// Words of the person. If a part is `None`, the words of the remark count.
    pub wording: LessonWording,
    /// Id of the request. Requests with the same id take effect only once.
    pub request: String,
    /// Name of the person.
    pub by: String,
    /// Reason, in the person's words.
    pub reason: String,
}

impl RuleAddition {
    /// Creates the addition of a rule in a person's words.
    pub fn in_words(
        repo: Repository,
        path: Option<String>,
        wording: LessonWording,
        request: DecisionRequest<'_>,
    ) -> Self {
        let DecisionRequest { id, by, reason } = request;
        let (request, by, reason) = (id.to_owned(), by.to_owned(), reason.to_owned());
        Self { repo, remark: None, path, wording, request, by, reason }
    }

    /// Creates the promotion of a remark to a rule.
    pub fn of_remark(
        remark: RemarkKey,
        path: Option<String>,
        wording: LessonWording,
        request: DecisionRequest<'_>,
    ) -> Self {
        let repo = remark.pull_request.repo.clone();
        Self { remark: Some(remark), ..Self::in_words(repo, path, wording, request) }
    }
}

/// Remark that a person makes a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromotedRemark {
    /// The remark in its latest version.
    pub remark: Remark,
    /// The remark as it was read when its review was decided last; `None` if it was not decided yet.
    pub read: Option<ReadRemark>,
}

impl PromotedRemark {
    /// Returns the rule that the reader phrased, or `None` if it phrased none or has not read the latest version.
    fn phrased_rule(&self) -> Option<&RuleText> {
        let read = self.read.as_ref().filter(|read| read.remark.edition() == self.remark.edition())?;
        read.reading.rule.as_ref()
    }
}

/// Stored facts from which a rule is added, read under the lock of the rule scope.
#[derive(Debug, Clone)]
pub struct RuleAdditionFacts {
    /// The rule to be added.
    pub addition: RuleAddition,
    /// Rule scope of the repository.
    pub rule_scope: WorkflowKey,
    /// The remark that is made a rule; `None` for a rule in the person's words alone.
    pub remark: Option<PromotedRemark>,
    /// Living memories of the repository, and those that a change in `applied` refers to.
    pub memories: Vec<Memory>,
    /// Tombstones of the rule scope, including expired ones.
    pub tombstones: Vec<Tombstone>,
    /// Ids of the rule scope's stored changes that the same request has made.
    pub applied: HashSet<ChangeId>,
}

/// Result of adding a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedRule {
    /// The rule: the new one, or the one that said so before.
    pub rule: Memory,
    /// What changed; empty if the rule existed in these words.
    pub done: RuleChanges,
}

/// Reason why a rule was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleAdditionError {
    /// The gate refuses the text.
    #[error("{why}")]
    Refused {
        /// Reason, in one sentence.
        why: String,
    },
    /// The remark has no sentence that could be the title of a rule.
    #[error("no sentence of the remark can be its title; name a title")]
    NoTitle,
    /// A rule says so in other words, or it is shown to nobody.
    #[error("rule {rule} says so already, and it is {state}")]
    Known {
        /// Id of the rule.
        rule: MemoryId,
        /// Its status, or that it is disabled or held.
        state: &'static str,
    },
    /// The same request added the rule before, and it has ended since.
    #[error("request {request} has added rule {rule} before, and it is {status} now; name another request")]
    Ended {
        /// Id of the request.
        request: String,
        /// Id of the rule.
        rule: MemoryId,
        /// Status of the rule.
        status: MemoryStatus,
    },
    /// A similar rule was retired a short time ago.
    #[error("a similar rule, {of}, was deleted ({reason}), which stands until {until}; restore it instead")]
    Tombstone {
        /// The deleted rule.
        of: MemoryId,
        /// Time until which nothing similar is added.
        until: Timestamp,
        /// Reason for the deletion.
        reason: String,
    },
    /// A text is empty or too long.
    #[error(transparent)]
    TextLength(#[from] TextLengthError),
    /// A change is illegal for its rule, so the stored data is damaged.
    #[error(transparent)]
    Damaged(#[from] FoldError),
}

impl ComparesTexts for RuleAdditionFacts {
    fn texts_to_compare(&self) -> Vec<String> {
        let Ok(wanted) = self.wanted_rule() else { return Vec::new() };
        let mut compared = ComparedLessons::default();
        compared.add_new(&wanted.scope, &wanted.lesson);
        // A rule that says so already is compared with the others, too: it may contradict them.
        for memory in &self.memories {
            compared.add_peer(&memory.scope, &memory.lesson);
        }
        for tombstone in &self.tombstones {
            compared.add_known(&tombstone.scope, &tombstone.lesson);
        }
        compared.into_texts()
    }
}

/// Rule as it would be added.
struct WantedRule {
    scope: MemoryScope,
    lesson: Lesson,
    evidence: Option<Evidence>,
}

impl WantedRule {
    /// Returns `true` if the remark behind the rule is evidence for the memory.
    fn is_evidence_for(&self, memory: &Memory) -> bool {
        let own = self.evidence.as_ref().and_then(|evidence| evidence.remark.as_ref());
        let all = memory.evidence.iter().filter_map(|evidence| evidence.remark.as_ref());
        own.is_some_and(|own| all.into_iter().any(|known| known.remark == own.remark))
    }

    /// Returns the evidence, unless another remark on its pull request has shown the rule: a pull request counts
    /// once.
    fn new_evidence_for(&self, memory: &Memory) -> Option<&Evidence> {
        self.evidence.as_ref().filter(|own| memory.evidence.iter().all(|known| known.run != own.run))
    }
}

impl RuleAdditionFacts {
    /// Returns the rule that the same request added or confirmed before.
    fn find_added_before(&self) -> Option<&Memory> {
        const KINDS: [&str; 4] = ["created", "accepted", "observed", "revived"];
        let cause = ChangeCause::Operator { request: self.addition.request.clone() };
        let was_made = |memory: &Memory, kind: &str| {
            self.applied.contains(&change_id(&self.rule_scope, memory.id, &cause, kind))
        };
        self.memories.iter().find(|memory| KINDS.iter().any(|kind| was_made(memory, kind)))
    }

    /// Returns the rule in the words of the person, of the remark, or of both.
    fn wanted_rule(&self) -> Result<WantedRule, RuleAdditionError> {
        let RuleAddition { repo, path, wording, by, .. } = &self.addition;
        let phrased = self.remark.as_ref().and_then(PromotedRemark::phrased_rule);
        let path = path.as_deref().or_else(|| phrased?.path.as_deref()).map(str::trim);
        if path.is_some_and(|path| !(1..=PATH_CHARS_MAX).contains(&path.chars().count())) {
            return Err(TextLengthError { what: "path", max: PATH_CHARS_MAX }.into());
        }
        let base = match (&self.remark, phrased) {
            (_, Some(rule)) if wording.title.is_none() => {
                build_lesson(&rule.subject, &rule.title, &rule.content)
            }
            (Some(PromotedRemark { remark, .. }), None) if wording.title.is_none() => {
                let line = remark.body.split_whitespace().collect::<Vec<_>>().join(" ");
                if !(1..=TITLE_CHARS_MAX).contains(&line.chars().count()) {
                    return Err(RuleAdditionError::NoTitle);
                }
                build_lesson("", &line, &line)
            }
            // Both empty, so that the content repeats the new title unless the person words it.
            (_, phrased) => build_lesson(phrased.map_or("", |rule| &rule.subject), "", ""),
        };
        Ok(WantedRule {
            scope: MemoryScope::Repository { repo: repo.to_string(), path: path.map(str::to_owned) },
            lesson: wording.apply_to(&base, by)?,
            evidence: self.remark.as_ref().and_then(|promoted| remark_evidence(&promoted.remark)),
        })
    }

    /// Returns the living rule that says so already: one in the same words, the one that the remark stands behind, or
    /// a trusted one in similar words.
    fn find_known(&self, alike: LessonMatcher<'_, '_>, wanted: &WantedRule) -> Option<&Memory> {
        let living = || self.memories.iter().filter(|memory| memory.status.is_living());
        let from_remark = living().filter(|memory| wanted.is_evidence_for(memory));
        // A trusted rule comes first; the id breaks ties, or the result would depend on the order of the rows.
        let from_remark = from_remark.min_by_key(|memory| (memory.quarantine.is_some(), memory.id));
        // The words of strangers never become those of a trusted rule, however alike they are.
        let trusted = || living().filter(|memory| memory.quarantine.is_none() || memory.added_by.is_some());
        // Before the rule of the remark, or two rules would say the same.
        trusted()
            .find(|memory| self.says_the_same(memory, wanted))
            .or(from_remark)
            .or_else(|| alike.best_match(trusted(), &wanted.scope, &wanted.lesson, None))
    }

    /// Returns `true` if the memory has the words that the person has given.
    fn says_the_same(&self, memory: &Memory, wanted: &WantedRule) -> bool {
        let content_counts = self.addition.wording.content.is_some();
        memory.scope == wanted.scope
            && memory.lesson.title == wanted.lesson.title
            && (!content_counts || memory.lesson.content == wanted.lesson.content)
    }
}

/// Decides the effects of a rule that a person adds: it is active at the starting weight, with the authority of an
/// insider, and takes the place of the rules that cannot be followed together with it. The gate judges it as any other
/// text. The same words twice are one rule. If a rule says so that is not active, the person has confirmed that one. A
/// remark that becomes a rule is its evidence, so the next request for it is the second one.
pub fn add_rule(
    facts: &RuleAdditionFacts,
    policy: &Policy,
    embedder: &dyn Embedder,
    at: Timestamp,
) -> Result<AddedRule, RuleAdditionError> {
    let RuleAddition { request, by, remark, wording, .. } = &facts.addition;
    if let Some(Memory { id, status, .. }) = facts.find_added_before().filter(|one| !one.status.is_living()) {
        return Err(RuleAdditionError::Ended { request: request.clone(), rule: *id, status: *status });
    }
    if let Some(memory) = facts.find_added_before() {
        return Ok(AddedRule { rule: memory.clone(), done: RuleChanges::default() });
    }
    let wanted = facts.wanted_rule()?;
    let decision = judge_lesson(&wanted.scope, &wanted.lesson, &policy.held_dangers);
    if let GateDecision::Refused { why } = &decision {
        let hint = if remark.is_some() && wording.title.is_none() { "; name a title" } else { "" };
        return Err(RuleAdditionError::Refused { why: format!("{why}{hint}") });
    }
    let vectors = VectorCache::new(embedder);
    let alike = LessonMatcher { vectors: &vectors, policy };
    let mut recorder = RuleChangeRecorder::new(&facts.rule_scope, request, at);
    let rule = match facts.find_known(alike, &wanted) {
        Some(known) => confirm_rule(facts, known, &wanted, policy, &mut recorder)?,
        None => create_rule(facts, &wanted, &decision, alike, &mut recorder)?,
    };
    if recorder.done.changes.is_empty() {
        return Ok(AddedRule { rule, done: recorder.done });
    }
    let rule = recorder.hold_if_endangering(rule, policy)?;
    let reason = format!("{by} added {}, which replaces it", rule.id);
    recorder.supersede_replaced(alike, &facts.memories, &rule, &reason)?;
    let held = facts.memories.iter().filter(|memory| memory.quarantine.is_some());
    let stranger = alike.best_match(held, &rule.scope, &rule.lesson, Some(rule.id));
    if let Some(stranger) = stranger.filter(|_| rule.quarantine.is_none()) {
        let reason = format!("{by} added {}, which says the same in words of their own", rule.id);
        recorder.supersede(stranger, rule.id, &reason)?;
    }
    Ok(AddedRule { rule, done: recorder.done })
}

/// Confirms a rule that says so already. Leaves it as it is if agents are handed it and the remark adds nothing.
fn confirm_rule(
    facts: &RuleAdditionFacts,
    known: &Memory,
    wanted: &WantedRule,
    policy: &Policy,
    recorder: &mut RuleChangeRecorder<'_>,
) -> Result<Memory, RuleAdditionError> {
    let RuleAddition { by, reason, wording, .. } = &facts.addition;
    let in_own_words = *wording != LessonWording::default();
    let refused = |state| Err(RuleAdditionError::Known { rule: known.id, state });
    if known.disabled_by.is_some() {
        return refused("disabled");
    }
    let id = known.id;
    let fresh = wanted.new_evidence_for(known).cloned();
    if known.status == MemoryStatus::Active {
        let same = facts.says_the_same(known, wanted);
        return match fresh {
            Some(evidence) => {
                let reason = format!("{by} counts the remark as a request for it: {reason}");
                let effect = ChangeEffect::Observed { evidence };
                Ok(recorder.make_change(id, Some(known.clone()), effect, reason)?)
            }
            None if same || (wanted.is_evidence_for(known) && !in_own_words) => Ok(known.clone()),
            None if known.quarantine.is_some() => refused("held"),
            None => refused("active"),
        };
    }
    let mut rule = known.clone();
    if let Some(evidence) = fresh.filter(|_| known.quarantine.is_none()) {
        let effect = match known.status {
            MemoryStatus::Archived => ChangeEffect::Revived { evidence },
            _ => ChangeEffect::Observed { evidence },
        };
        let reason = format!("{by} counts the remark as a request for it: {reason}");
        rule = recorder.make_change(id, Some(rule), effect, reason)?;
    }
    let effect = ChangeEffect::Accepted {
        weight: Weight::from_thousandths(policy.confirmed_weight),
        proposal: None,
        by: by.clone(),
        tombstone_override: None,
    };
    rule = recorder.make_change(id, Some(rule), effect, format!("confirmed by {by}: {reason}"))?;
    if in_own_words && wanted.is_evidence_for(known) && rule.lesson != wanted.lesson {
        let effect = ChangeEffect::Revised { lesson: wanted.lesson.clone() };
        rule = recorder.make_change(id, Some(rule), effect, format!("worded anew by {by}: {reason}"))?;
    }
    Ok(rule)
}

/// Creates the rule, unless a tombstone forbids it or a rule that is held says so already.
fn create_rule(
    facts: &RuleAdditionFacts,
    wanted: &WantedRule,
    decision: &GateDecision,
    alike: LessonMatcher<'_, '_>,
    recorder: &mut RuleChangeRecorder<'_>,
) -> Result<Memory, RuleAdditionError> {
    let RuleAddition { request, by, reason, .. } = &facts.addition;
    let WantedRule { scope, lesson, evidence } = wanted;
    if matches!(decision, GateDecision::Held { .. }) {
        let held = facts.memories.iter().filter(|memory| memory.quarantine.is_some());
        // A rule that is held already waits for a person: the same danger does not replace it.
        if let Some(known) = alike.best_match(held, scope, lesson, None) {
            return Err(RuleAdditionError::Known { rule: known.id, state: "held" });
        }
    }
    let live = facts.tombstones.iter().filter(|tombstone| tombstone.until > recorder.at);
    if let Some((tombstone, _)) = alike.blocking_tombstone(live, scope, lesson) {
        let Tombstone { memory, until, reason, .. } = tombstone.clone();
        return Err(RuleAdditionError::Tombstone { of: memory, until, reason });
    }
    let id = MemoryId::of_request(&facts.rule_scope, request);
    let older = find_replaced_rules(alike, facts.memories.iter(), id, scope, lesson);
    let replaced = match decision {
        GateDecision::Passed => describe_conflicts(&older, (Some(AuthorStanding::Insider), true)),
        GateDecision::Held { .. } | GateDecision::Refused { .. } => String::new(),
    };
    let source = evidence.as_ref().and_then(|evidence| evidence.remark.as_ref());
    let done = match source {
        Some(source) => {
            let author = if source.by.is_empty() { "somebody" } else { &source.by };
            format!("made a rule by {by}, of what {author} wrote on {}", source.remark.pull_request)
        }
        None => format!("written by {by}"),
    };
    let effect = ChangeEffect::Created {
        scope: scope.clone(),
        lesson: lesson.clone(),
        status: MemoryStatus::Active,
        weight: Weight::from_thousandths(alike.policy.confirmed_weight),
        evidence: evidence.clone(),
        quarantine: None,
        by: Some(by.clone()),
    };
    Ok(recorder.make_change(id, None, effect, format!("{done}: {reason}{replaced}"))?)
}
