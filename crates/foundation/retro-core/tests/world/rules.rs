//! An in-memory store of one repository's rules, which applies the decisions about reviews like a database.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use retro_core::id::{
    MemoryId, MutationId, RemarkKey, RemarkKind, Repository, RetrospectiveId, ReviewBatchId, ReviewKey,
    ReviewedPullRequest, Tenant, WorkflowKey,
};
use retro_core::learn::{
    DecisionRequest, MemoryDecision, MemoryDecisionFacts, PromoteError, PromoteFacts, ReviewClosingFacts,
    RuleChanges, RuleFacts, RuleUse, apply_rules, close_review, decide_memory, delete_by_operator,
    promote_rule,
};
use retro_core::memory::{AppliedBatch, Change, ChangeCause, Memory, MemoryStatus, Tombstone, fold_change};
use retro_core::policy::Policy;
use retro_core::remark::{AuthorAssociation, AuthorStanding, Remark};
use retro_core::review::{
    OtherRequest, ReadRemark, ReadingKind, RemarkReading, RemarkSupport, ReviewBatch, ReviewReport,
    RuleMutation, RuleMutationKind, RuleText, Screening, SettledRemarks, settle_review,
};
use retro_core::time::add_seconds;

use super::{CollectedTexts, start_time};

/// Rules of one repository.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RuleStore {
    pub(crate) memories: BTreeMap<MemoryId, Memory>,
    pub(crate) log: Vec<Change>,
    pub(crate) tombstones: Vec<Tombstone>,
    pub(crate) round: u64,
}

pub(crate) fn repo() -> Repository {
    Repository::new("acme/shop").unwrap()
}

pub(crate) fn rule_scope() -> WorkflowKey {
    repo().rule_scope(&Tenant::default_tenant())
}

/// Builds a remark that clearly requests a rule. The `id` distinguishes the remarks on a pull request.
pub(crate) fn rule_request(standing: AuthorStanding, pull_request: u64, id: u64, title: &str) -> ReadRemark {
    let pull_request = ReviewedPullRequest { repo: repo(), number: pull_request };
    let (association, bot) = match standing {
        AuthorStanding::Bot => (AuthorAssociation::Member, true),
        AuthorStanding::Outsider => (AuthorAssociation::None, false),
        AuthorStanding::Contributor => (AuthorAssociation::Contributor, false),
        AuthorStanding::Insider => (AuthorAssociation::Member, false),
    };
    let remark = Remark {
        key: RemarkKey { pull_request, kind: RemarkKind::LineComment, id },
        review: Some(1),
        review_state: None,
        reply_to: None,
        by: standing.as_str().to_owned(),
        bot,
        association,
        by_author: false,
        body: title.to_owned(),
        path: None,
        line: None,
        at: add_seconds(start_time(), id),
        url: None,
        edited: false,
        deleted: false,
        truncated: false,
    };
    let rule = RuleText {
        subject: "code".to_owned(),
        title: title.to_owned(),
        content: format!("{title}."),
        path: None,
    };
    let reading = RemarkReading {
        kind: ReadingKind::Rule,
        certainty: 800,
        features: Vec::new(),
        rule: Some(rule),
        reason: "it says so".to_owned(),
        model: None,
    };
    ReadRemark { remark, reading, support: RemarkSupport::default(), screening: Screening::default() }
}

/// Limits the requested rule to a path.
pub(crate) fn confined_to(path: &str, mut read: ReadRemark) -> ReadRemark {
    read.reading.rule.as_mut().unwrap().path = Some(path.to_owned());
    read
}

impl RuleStore {
    pub(crate) fn new() -> Self {
        Self { memories: BTreeMap::new(), log: Vec::new(), tombstones: Vec::new(), round: 0 }
    }

    pub(crate) fn now(&self) -> Timestamp {
        add_seconds(start_time(), 3600 * self.round)
    }

    /// Decides the remarks on a pull request and stores the result.
    pub(crate) fn record_review(&mut self, remarks: &[ReadRemark]) -> ReviewReport {
        self.record_review_with(remarks, &[])
    }

    /// Decides the remarks together with requests from other pull requests.
    pub(crate) fn record_review_with(
        &mut self,
        remarks: &[ReadRemark],
        others: &[OtherRequest],
    ) -> ReviewReport {
        self.round += 1;
        let pull_request = remarks[0].remark.key.pull_request.clone();
        let review = ReviewKey { pull_request, review: None };
        let tenant = Tenant::default_tenant();
        let id = ReviewBatchId::of_review(&tenant, &review, self.round);
        let batch = ReviewBatch { id, tenant, review, remarks: remarks.to_vec(), others: others.to_vec() };
        let settled = settle_review(&batch, &Policy::default(), &CollectedTexts::of(&batch));
        self.write(batch, settled)
    }

    fn write(&mut self, batch: ReviewBatch, settled: SettledRemarks) -> ReviewReport {
        let causes: Vec<_> = batch.remarks.iter().map(|read| read.remark.key.clone()).collect();
        let ours = |change: &&Change| matches!(&change.cause, ChangeCause::Review { remark, .. } if causes.contains(remark));
        let rules = self.facts(ours, BTreeMap::new());
        let texts = CollectedTexts::new(rules.texts_to_compare(&settled.mutations));
        let closing = close_review(
            ReviewClosingFacts { batch, settled, pipeline: None, reading: None, rules },
            &texts,
            self.now(),
        );
        self.store(&closing.applied);
        closing.report
    }

    fn facts(&self, ours: impl Fn(&&Change) -> bool, uses: BTreeMap<MemoryId, RuleUse>) -> RuleFacts {
        let applied: Vec<_> = self.log.iter().filter(ours).collect();
        let about: HashSet<_> = applied.iter().map(|change| change.memory).collect();
        let load = |memory: &&Memory| memory.status.is_living() || about.contains(&memory.id);
        RuleFacts {
            repo: repo(),
            rule_scope: rule_scope(),
            as_of: self.now(),
            policy: Policy::default(),
            memories: self.memories.values().filter(load).cloned().collect(),
            tombstones: self.tombstones.clone(),
            applied: applied.iter().map(|change| change.id).collect(),
            uses,
            feedback: Vec::new(),
            pipeline: None,
        }
    }

    pub(crate) fn apply_mutation(
        &mut self,
        request: RuleMutationKind,
        uses: BTreeMap<MemoryId, RuleUse>,
    ) -> AppliedBatch {
        self.apply_mutations(&[request], uses)
    }

    /// Applies the mutations that result from the verdicts of one retrospective.
    pub(crate) fn apply_mutations(
        &mut self,
        asks: &[RuleMutationKind],
        uses: BTreeMap<MemoryId, RuleUse>,
    ) -> AppliedBatch {
        self.round += 1;
        let retrospective = RetrospectiveId::of_epoch(&rule_scope(), self.round);
        let batch = ReviewBatchId::of_rule_uses(&rule_scope(), retrospective);
        let ours = |change: &&Change| {
            asks.iter().any(|request| match (&change.cause, request) {
                (ChangeCause::Run { run, .. }, RuleMutationKind::Credit { run: of, .. }) => run == of,
                (ChangeCause::Run { run, .. }, RuleMutationKind::Feedback { feedback }) => {
                    feedback.author.run().is_some_and(|(_, of)| run == of)
                }
                (ChangeCause::Feedback { id }, RuleMutationKind::Feedback { feedback }) => *id == feedback.id,
                (ChangeCause::Expiry { .. }, RuleMutationKind::Expire) => true,
                _ => false,
            })
        };
        let facts = self.facts(ours, uses);
        let numbered = |(index, request): (usize, &RuleMutationKind)| {
            let id = MutationId::of_review(batch, index);
            RuleMutation { id, request: request.clone() }
        };
        let mutations: Vec<_> = asks.iter().enumerate().map(numbered).collect();
        let texts = CollectedTexts::new(facts.texts_to_compare(&mutations));
        let applied = apply_rules(facts, &mutations, &texts);
        self.store(&applied);
        applied
    }

    fn store(&mut self, applied: &AppliedBatch) {
        self.append(&applied.changes, &applied.memories);
    }

    pub(super) fn append(&mut self, changes: &[Change], memories: &[Memory]) {
        for change in changes {
            assert!(self.log.iter().all(|known| known.id != change.id), "{change:?} is stored twice");
        }
        self.log.extend(changes.iter().cloned());
        self.memories.extend(memories.iter().map(|memory| (memory.id, memory.clone())));
    }

    pub(crate) fn promote(&mut self, id: MemoryId) -> Result<RuleChanges, PromoteError> {
        self.round += 1;
        let facts = PromoteFacts {
            rule_scope: rule_scope(),
            memory: self.memories[&id].clone(),
            memories: self.memories.values().filter(|memory| memory.status.is_living()).cloned().collect(),
        };
        let request = format!("promote {}", self.round);
        let texts = CollectedTexts::of(&facts);
        let done = promote_rule(&facts, &request, "ann", "read it", &Policy::default(), &texts, self.now())?;
        self.append(&done.changes, &done.memories);
        Ok(done)
    }

    pub(crate) fn retire(&mut self, id: MemoryId) {
        self.round += 1;
        let request = format!("retire {}", self.round);
        let memory = &self.memories[&id];
        let (change, memory, stone) =
            delete_by_operator(&rule_scope(), memory, &request, "wrong", self.now(), &Policy::default())
                .unwrap();
        self.append(&[change], &[memory]);
        self.tombstones.push(stone);
    }

    /// Disables a rule as an operator.
    pub(crate) fn disable(&mut self, id: MemoryId) {
        self.round += 1;
        let facts = MemoryDecisionFacts {
            key: rule_scope(),
            memory: self.memories[&id].clone(),
            history: self.log.iter().filter(|change| change.memory == id).cloned().collect(),
            tombstone: None,
        };
        let name = format!("disable {}", self.round);
        let request = DecisionRequest { id: &name, by: "anna", reason: "looked at it" };
        let decided =
            decide_memory(&facts, &MemoryDecision::Disable, request, &Policy::default(), self.now()).unwrap();
        self.append(&decided.changes, &[decided.memory]);
    }

    /// Lists all memories as `title: status`, with a note if quarantined, sorted.
    pub(crate) fn rules(&self) -> Vec<String> {
        let describe = |memory: &Memory| {
            let quarantine = if memory.quarantine.is_some() { " (quarantine)" } else { "" };
            format!("{}: {}{quarantine}", memory.lesson.title, memory.status)
        };
        let mut all: Vec<_> = self.memories.values().map(describe).collect();
        all.sort();
        all
    }

    pub(crate) fn named(&self, title: &str) -> &Memory {
        let found = self
            .memories
            .values()
            .find(|memory| memory.lesson.title == title && memory.status != MemoryStatus::Superseded);
        found.or_else(|| self.memories.values().find(|memory| memory.lesson.title == title)).unwrap()
    }

    /// Folds the change log to its memories.
    #[allow(dead_code, reason = "only the laws fold the log")]
    pub(crate) fn fold_log(&self) -> BTreeMap<MemoryId, Memory> {
        let mut all: BTreeMap<MemoryId, Memory> = BTreeMap::new();
        for change in &self.log {
            let after = fold_change(all.get(&change.memory).cloned(), change).unwrap();
            all.extend(after.map(|after| (change.memory, after)));
        }
        all
    }
}
