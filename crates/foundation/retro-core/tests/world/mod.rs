//! An in-memory store that applies the decisions of [`retro_core`] like a database.

mod decide;
pub(crate) mod feedback;
mod manual;
pub(crate) mod rules;
pub(crate) mod rules_by_hand;
mod texts;

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use retro_core::audience::{Audience, RepoVisibility, RunRepository};
use retro_core::calls::Contrast;
use retro_core::finding::{
    CheckedAnswer, Contradiction, EvidenceOrigin, Finding, FindingKind, LessonCue, MemoryVerdict, Quote,
    TransientError, VerdictRecord,
};
use retro_core::id::{
    ChangeId, Epoch, MemoryId, Repository, RetrospectiveId, RunId, Step, Tenant, Workflow, WorkflowKey,
    derive_uuid,
};
use retro_core::learn::{
    Mutation, MutationKind, WriterFacts, apply_mutations, delete_by_operator, release_by_operator,
    settle_investigations,
};
use retro_core::memory::{
    AppliedBatch, Change, ChangeCause, ChangeEffect, Evidence, Lesson, Memory, MemoryScope, MemoryStatus,
    Tombstone, change_id, fold_change,
};
use retro_core::policy::Policy;
use retro_core::retrospective::{Investigation, InvestigationResult, PresentedMemory};
use retro_core::time::add_seconds;
use retro_core::trajectory::QuotePlace;
use retro_core::weight::Weight;

pub(crate) use texts::CollectedTexts;

pub(crate) const DAY_S: u64 = 24 * 3600;

pub(crate) fn key() -> WorkflowKey {
    WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("fix-bugs").unwrap() }
}

pub(crate) fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

/// Returns the time at which every test world begins.
pub(crate) fn start_time() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Returns a finding whose lesson has a signature. The same name gives the same lesson.
pub(crate) fn finding(name: &str) -> Finding {
    let cue = LessonCue { tool: Some("sh".into()), error: Some(name.into()), ..LessonCue::default() };
    Finding { cue, ..remark(name) }
}

/// Returns a finding without a signature.
pub(crate) fn remark(title: &str) -> Finding {
    Finding {
        kind: FindingKind::SelfFeedback,
        step: Step::main(),
        subject: "sh".into(),
        title: title.into(),
        content: String::new(),
        cue: LessonCue::default(),
        quote: quote(),
        contradicts: None,
        origin: EvidenceOrigin::default(),
    }
}

pub(crate) fn quote() -> Quote {
    Quote { place: QuotePlace::Message { turn: 0 }, text: "words".into() }
}

pub(crate) fn in_step(step: &str, finding: Finding) -> Finding {
    Finding { step: Step::new(step).unwrap(), ..finding }
}

/// Returns a finding seen in a repository, of which nothing else may be said.
pub(crate) fn in_repo(repo: &str, visibility: Option<RepoVisibility>, finding: Finding) -> Finding {
    let repository = RunRepository::of_run(Some(repo), visibility);
    Finding { origin: EvidenceOrigin { repository, ..finding.origin }, ..finding }
}

/// Returns a finding that contradicts a memory.
pub(crate) fn against(memory: MemoryId) -> Finding {
    Finding { contradicts: Some(memory), ..finding(&format!("against {memory}")) }
}

/// Result of the investigation of one run.
#[derive(Debug, Clone)]
pub(crate) struct InvestigatedRun {
    pub(crate) run: RunId,
    pub(crate) findings: Vec<Finding>,
    pub(crate) presented: Vec<PresentedMemory>,
    pub(crate) verdicts: Vec<VerdictRecord>,
    pub(crate) transients: Vec<TransientError>,
    pub(crate) contradictions: Vec<Contradiction>,
}

pub(crate) fn investigate(name: &str) -> InvestigatedRun {
    InvestigatedRun {
        run: run(name),
        findings: Vec::new(),
        presented: Vec::new(),
        verdicts: Vec::new(),
        transients: Vec::new(),
        contradictions: Vec::new(),
    }
}

impl InvestigatedRun {
    pub(crate) fn with_finding(mut self, finding: Finding) -> Self {
        self.findings.push(finding);
        self
    }

    pub(crate) fn with_presented(mut self, memory: MemoryId) -> Self {
        self.presented.push(PresentedMemory::from_own_workflow(memory, false));
        self
    }

    pub(crate) fn with_read_memory(mut self, memory: MemoryId) -> Self {
        self.presented.push(PresentedMemory::from_own_workflow(memory, true));
        self
    }

    /// Adds a presented rule of a repository with its verdict; `None` if the investigator gave no verdict.
    pub(crate) fn with_rule_verdict(
        mut self,
        repo: &Repository,
        rule: MemoryId,
        verdict: Option<MemoryVerdict>,
    ) -> Self {
        self.presented.push(PresentedMemory { memory: rule, read: false, repo: Some(repo.clone()) });
        let (reason, quote) = ("because".to_owned(), Some(quote()));
        self.verdicts.extend(verdict.map(|verdict| VerdictRecord { memory: rule, verdict, reason, quote }));
        self
    }

    pub(crate) fn with_verdict(mut self, memory: MemoryId, verdict: MemoryVerdict) -> Self {
        let reason = "because".to_owned();
        self.verdicts.push(VerdictRecord { memory, verdict, reason, quote: Some(quote()) });
        self.with_presented(memory)
    }

    /// Records that the identical call overcame the error of this finding. `memories` are the memories about
    /// that error.
    pub(crate) fn with_passed_error<'m>(
        mut self,
        about: &Finding,
        memories: impl IntoIterator<Item = &'m Memory>,
    ) -> Self {
        let error = about.cue.error.clone().unwrap();
        let against = |memory: &Memory| Contradiction {
            memory: memory.id,
            step: about.step.clone(),
            subject: memory.lesson.subject.clone(),
            reason: format!("the very same call got past “{error}”"),
            quote: quote(),
        };
        self.contradictions.extend(memories.into_iter().map(against));
        let (step, tool) = (about.step.clone(), about.cue.tool.clone().unwrap());
        self.transients.push(TransientError { step, tool, error, quote: quote() });
        self
    }

    pub(crate) fn to_investigation(&self, number: u32) -> Investigation {
        let checked = CheckedAnswer {
            findings: self.findings.clone(),
            verdicts: self.verdicts.clone(),
            transients: self.transients.clone(),
            contradictions: self.contradictions.clone(),
            ..CheckedAnswer::default()
        };
        let presented = self.presented.clone();
        let result = if checked.findings.is_empty() {
            InvestigationResult::Nothing { checked, presented }
        } else {
            InvestigationResult::Found { checked, presented }
        };
        Investigation {
            number,
            ordinal: number.into(),
            run: self.run.clone(),
            replacement: false,
            result: Some(result),
        }
    }
}

/// A batch for the writer with the facts loaded for it.
#[derive(Debug, Clone)]
pub(crate) struct WriterInput {
    pub(crate) facts: WriterFacts,
    pub(crate) batch: Vec<Mutation>,
}

/// Memories, tombstones and change log of one workflow.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) policy: Policy,
    pub(crate) now: Timestamp,
    pub(crate) epoch: Epoch,
    pub(crate) previous: Option<Epoch>,
    pub(crate) memories: BTreeMap<MemoryId, Memory>,
    pub(crate) tombstones: BTreeMap<MemoryId, Tombstone>,
    pub(crate) log: Vec<Change>,
    pub(crate) proposals: Vec<manual::Row>,
    pub(crate) manuals: u32,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            policy: Policy::default(),
            now: start_time(),
            epoch: 0,
            previous: None,
            memories: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            log: Vec::new(),
            proposals: Vec::new(),
            manuals: 0,
        }
    }

    pub(crate) fn with(policy: Policy) -> Self {
        assert_eq!(policy.validate(), Ok(()));
        Self { policy, ..Self::new() }
    }

    /// Adds an active memory with the lesson that [`finding`] gives for this name.
    pub(crate) fn add_active(&mut self, name: &str, weight: u16) -> MemoryId {
        let id = MemoryId(derive_uuid("given", &[name]));
        let lesson = Lesson::from_finding(&finding(name));
        let effect = ChangeEffect::Created {
            scope: scope("main"),
            lesson,
            status: MemoryStatus::Active,
            weight: Weight::from_thousandths(weight),
            evidence: Some(Evidence {
                run: run("given"),
                epoch: None,
                quote: quote(),
                remark: None,
                origin: EvidenceOrigin::default(),
            }),
            quarantine: None,
            by: None,
        };
        self.record_change(id, effect);
        id
    }

    /// Adds an archived memory.
    pub(crate) fn add_archived(&mut self, name: &str) -> MemoryId {
        let id = self.add_active(name, 0);
        self.record_change(id, ChangeEffect::Archived);
        id
    }

    fn record_change(&mut self, id: MemoryId, effect: ChangeEffect) {
        let cause = ChangeCause::Operator { request: "given".into() };
        let change = Change {
            id: change_id(&key(), id, &cause, effect.kind()),
            memory: id,
            cause,
            effect,
            mutation: None,
            retrospective: None,
            epoch: None,
            pipeline: None,
            at: self.now,
            reason: "given".into(),
            with_token: None,
        };
        let after = fold_change(self.memories.remove(&id), &change).unwrap().unwrap();
        self.memories.insert(id, after);
        self.log.push(change);
    }

    pub(crate) fn named(&self, title: &str) -> &Memory {
        let mut found = self.memories.values().filter(|memory| memory.lesson.title == title);
        let memory = found.next().unwrap_or_else(|| panic!("no memory {title}"));
        assert!(found.next().is_none(), "two memories {title}");
        memory
    }

    pub(crate) fn id(&self, title: &str) -> MemoryId {
        self.named(title).id
    }

    /// Returns the status and weight of a memory, such as `active 0.300`.
    pub(crate) fn status_and_weight(&self, title: &str) -> String {
        let memory = self.named(title);
        format!("{} {}", memory.status, memory.weight)
    }

    /// Runs a retrospective over these runs, a day after the previous one. Returns the new changes as lines,
    /// and the applied batch.
    pub(crate) fn retrospective(&mut self, investigated: &[InvestigatedRun]) -> (Vec<String>, AppliedBatch) {
        let input = self.prepare_batch(investigated);
        let applied = decide(&input);
        (self.commit(&applied), applied)
    }

    /// Calls [`Self::retrospective`] and returns only the lines.
    pub(crate) fn retro(&mut self, investigated: &[InvestigatedRun]) -> Vec<String> {
        self.retrospective(investigated).0
    }

    /// Fails a retrospective, which uses up an epoch and changes nothing else.
    pub(crate) fn fail_retrospective(&mut self) {
        self.epoch += 1;
        self.now = add_seconds(self.now, DAY_S);
    }

    /// Prepares the batch of the next retrospective with the facts that the writer would load.
    pub(crate) fn prepare_batch(&mut self, investigated: &[InvestigatedRun]) -> WriterInput {
        self.epoch += 1;
        self.now = add_seconds(self.now, DAY_S);
        let retrospective = RetrospectiveId::of_epoch(&key(), self.epoch);
        let investigations: Vec<_> = (1u32..)
            .zip(investigated)
            .map(|(number, investigated_run)| investigated_run.to_investigation(number))
            .collect();
        let batch = settle_investigations(retrospective, &investigations, &Contrast::default());
        let facts = self.facts(retrospective, &batch);
        self.previous = Some(self.epoch);
        WriterInput { facts, batch }
    }

    pub(crate) fn facts(&self, retrospective: RetrospectiveId, batch: &[Mutation]) -> WriterFacts {
        let named: HashSet<_> = batch.iter().filter_map(|one| memory_of(&one.request)).collect();
        let runs: HashSet<_> = batch.iter().filter_map(|one| run_of_mutation(&one.request)).collect();
        let ours = |change: &&Change| match &change.cause {
            ChangeCause::Run { run, .. } => runs.contains(run),
            ChangeCause::Retrospective { id } => *id == retrospective,
            ChangeCause::Outcome { .. }
            | ChangeCause::Operator { .. }
            | ChangeCause::Review { .. }
            | ChangeCause::Save { .. }
            | ChangeCause::Feedback { .. }
            | ChangeCause::Expiry { .. } => false,
        };
        let applied: Vec<_> = self.log.iter().filter(ours).collect();
        let touched: HashSet<_> = applied.iter().map(|change| change.memory).collect();
        let known = |memory: &&Memory| {
            memory.status.is_living() || named.contains(&memory.id) || touched.contains(&memory.id)
        };
        WriterFacts {
            key: key(),
            retrospective,
            epoch: self.epoch,
            previous_epoch: self.previous,
            as_of: self.now,
            policy: self.policy.clone(),
            pipeline: None,
            memories: self.memories.values().filter(known).cloned().collect(),
            tombstones: self.tombstones.values().cloned().collect(),
            applied: applied.iter().map(|change| change.id).collect(),
            feedback: Vec::new(),
        }
    }

    /// Stores the decisions like a database, which never stores a change id twice. Returns one line for each
    /// new change.
    pub(crate) fn commit(&mut self, applied: &AppliedBatch) -> Vec<String> {
        let lines = self.append(&applied.changes);
        self.memories.extend(applied.memories.iter().map(|memory| (memory.id, memory.clone())));
        for id in &applied.expired {
            self.tombstones.remove(id);
        }
        self.tombstones.extend(applied.tombstones.iter().map(|stone| (stone.memory, stone.clone())));
        lines
    }

    fn append(&mut self, changes: &[Change]) -> Vec<String> {
        let had: HashSet<ChangeId> = self.log.iter().map(|change| change.id).collect();
        let new: Vec<_> = changes.iter().filter(|change| !had.contains(&change.id)).collect();
        let mut folding = self.memories.clone();
        let mut lines = Vec::new();
        for change in &new {
            let after = fold_change(folding.remove(&change.memory), change).unwrap();
            lines.push(describe_change(change, after.as_ref()));
            folding.extend(after.map(|memory| (memory.id, memory)));
        }
        self.log.extend(new.into_iter().cloned());
        lines
    }

    /// Deletes a memory as an operator.
    pub(crate) fn delete(&mut self, id: MemoryId) {
        let request = format!("request {}", self.log.len());
        assert!(self.delete_as(id, &request), "{id} is a living memory");
    }

    /// Deletes a memory as an operator, under this request id. Returns `false` if it cannot be deleted.
    pub(crate) fn delete_as(&mut self, id: MemoryId, request: &str) -> bool {
        let memory = &self.memories[&id];
        let done = delete_by_operator(&key(), memory, request, "wrong", self.now, &self.policy);
        let Ok((change, memory, stone)) = done else { return false };
        self.log.push(change);
        self.tombstones.insert(stone.memory, stone);
        self.memories.insert(memory.id, memory);
        true
    }

    /// Releases a held memory as an operator.
    pub(crate) fn release(&mut self, id: MemoryId) {
        let request = format!("request {}", self.log.len());
        let memory = &self.memories[&id];
        let released = release_by_operator(&key(), memory, &request, "anna", "looked at it", self.now);
        let (change, memory) = released.expect("the memory is held");
        self.log.push(change);
        self.memories.insert(memory.id, memory);
    }

    /// Folds the change log to its memories.
    pub(crate) fn fold_log(&self) -> BTreeMap<MemoryId, Memory> {
        let mut folded = BTreeMap::new();
        for change in &self.log {
            let after = fold_change(folded.remove(&change.memory), change).unwrap();
            folded.extend(after.map(|memory| (memory.id, memory)));
        }
        folded
    }
}

pub(crate) fn scope(step: &str) -> MemoryScope {
    let (workflow, step) = (key().workflow, Step::new(step).unwrap());
    MemoryScope::Step { workflow, step, audience: Audience::Everyone }
}

pub(crate) fn decide(input: &WriterInput) -> AppliedBatch {
    let texts = CollectedTexts::new(input.facts.texts_to_compare(&input.batch));
    apply_mutations(input.facts.clone(), &input.batch, &texts)
}

fn memory_of(request: &MutationKind) -> Option<MemoryId> {
    match request {
        MutationKind::Observe { memory, .. }
        | MutationKind::CheckQuote { memory, .. }
        | MutationKind::Contradict { memory, .. }
        | MutationKind::Credit { memory, .. } => Some(*memory),
        MutationKind::Feedback { feedback } => Some(feedback.memory),
        MutationKind::Sweep { .. } => None,
    }
}

fn run_of_mutation(request: &MutationKind) -> Option<&RunId> {
    match request {
        MutationKind::Observe { run, .. }
        | MutationKind::CheckQuote { run, .. }
        | MutationKind::Contradict { run, .. }
        | MutationKind::Credit { run, .. } => Some(run),
        MutationKind::Feedback { .. } | MutationKind::Sweep { .. } => None,
    }
}

/// Describes a change in one line: its cause, its kind, and the memory with its status and weight afterwards.
pub(crate) fn describe_change(change: &Change, after: Option<&Memory>) -> String {
    let cause = match &change.cause {
        ChangeCause::Run { run, .. } => run.to_string(),
        ChangeCause::Retrospective { .. } => "retro".into(),
        ChangeCause::Outcome { run, outcome, .. } => format!("{run} {}", outcome.as_str()),
        ChangeCause::Operator { request } => request.clone(),
        ChangeCause::Review { remark, .. } => remark.to_string(),
        ChangeCause::Save { run, .. } => format!("saved in {run}"),
        ChangeCause::Feedback { .. } => "feedback".into(),
        ChangeCause::Expiry { .. } => "expiry".into(),
    };
    let detail = match &change.effect {
        ChangeEffect::Reweighted { parts, .. } => {
            let part =
                |part: &retro_core::memory::WeightPart| format!("{} {}", part.kind.as_str(), part.delta);
            format!(" ({})", parts.iter().map(part).collect::<Vec<_>>().join(", "))
        }
        ChangeEffect::Exempted { cue_not_met } => format!(" ({cue_not_met} in a row)"),
        ChangeEffect::Suppressed { title, similarity, .. } => format!(" ({title}, {similarity})"),
        ChangeEffect::Refused { requested } => format!(" ({requested})"),
        _ => String::new(),
    };
    let stands = after.map_or("nothing".into(), |memory| {
        format!("{}: {} {}", memory.lesson.title, memory.status, memory.weight)
    });
    format!("{cause} {}{detail} {stands}", change.effect.kind())
}
