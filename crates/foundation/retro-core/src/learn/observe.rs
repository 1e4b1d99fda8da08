//! Applies observations: a finding creates, confirms or revives a memory, adds evidence to an existing one,
//! or is suppressed.

use super::remedies::ContrastSupport;
use super::widen::Sighting;
use super::writer::MemoryWriter;
use crate::audience::{Audience, RunRepository};
use crate::finding::Finding;
use crate::gate::{GateDecision, is_remark, judge_lesson, refused_quote_reason};
use crate::id::{MemoryId, RunId, Step};
use crate::memory::{
    ChangeEffect, EVIDENCE_KEPT_MAX, Evidence, Lesson, Memory, MemoryScope, MemoryStatus, OBSERVATION_KINDS,
    Tombstone,
};
use crate::policy::WitnessRule;
use crate::weight::Weight;

impl MemoryWriter<'_> {
    /// Applies the observation of a finding in a run. If the lesson is new, its memory gets the id
    /// `candidate`. With the support of other runs, one investigated run is enough.
    pub(super) fn apply_observation(
        &mut self,
        row: usize,
        candidate: MemoryId,
        run: &RunId,
        finding: &Finding,
        support: Option<&ContrastSupport>,
    ) {
        let repository = finding.origin.repository.as_ref();
        let (workflow, step) = (self.workflow.clone(), finding.step.clone());
        let scope = MemoryScope::Step { workflow, step, audience: Audience::of_run(repository) };
        let lesson = Lesson::from_finding(finding);
        if self.was_observed_before(candidate, run, &scope, &lesson) {
            self.ledger.explain_outcome(row, format!("this has happened before: run {run} has shown it"));
            return;
        }
        let decision = self.judge_observation(&scope, &lesson, finding);
        if let GateDecision::Refused { why } = decision {
            let effect = ChangeEffect::Refused { requested: "observe".to_owned() };
            self.ledger.make_change(row, candidate, self.run_cause(run), effect, why);
            return;
        }
        let evidence = Evidence {
            run: run.clone(),
            epoch: Some(self.epoch),
            quote: finding.quote.clone(),
            remark: None,
            origin: finding.origin.clone(),
        };
        let own = self.best_match(&scope, &lesson, finding.contradicts);
        let mut known = match own {
            Some(own) => Some(own),
            None => match self.find_shared(&finding.step, repository, &lesson, finding.contradicts) {
                Some(SharedMemory::Readable(id, status)) => Some((id, status)),
                Some(SharedMemory::NotReadable(id)) => {
                    let reason = format!(
                        "memory {id} says it to every repository; what one shows that is not public is not added to it"
                    );
                    // Stored, or the same run would be decided anew once that memory has ended.
                    let effect = ChangeEffect::Refused { requested: "observe".to_owned() };
                    self.ledger.make_change(row, candidate, self.run_cause(run), effect, reason);
                    return;
                }
                None => None,
            },
        };
        // A tombstone does not stop evidence for an active memory: it forbids another lesson that is merely
        // similar.
        if !matches!(known, Some((_, MemoryStatus::Active)))
            && self.suppress_if_forbidden(row, known.map_or(candidate, |(id, _)| id), run, finding, &lesson)
        {
            return;
        }
        if let (Some((id, _)), GateDecision::Held { why }) = (known, &decision)
            && self.is_unheld_remark(id, &lesson)
        {
            self.ledger.explain_outcome(row, format!("it is not added to memory {id}: {why}"));
            return;
        }
        let says_the_same =
            |(id, _): (MemoryId, _)| self.ledger.memories()[&id].lesson.cue.prefer == lesson.cue.prefer;
        if support.is_some() && !known.is_some_and(says_the_same) {
            known = self.revise_memory(row, run, &scope, &lesson, &decision).or(known);
        }
        let has_passed = matches!(decision, GateDecision::Passed);
        if has_passed && known.map(|(id, _)| id) == own.map(|(id, _)| id) {
            let elsewhere = support.map_or(&[][..], |support| &support.elsewhere);
            let known = known.map(|(id, _)| id);
            let sighting = Sighting { finding, lesson: &lesson, evidence: &evidence, known, elsewhere };
            if self.widen_lesson(row, candidate, &sighting) {
                return;
            }
        }
        match known {
            Some((id, MemoryStatus::Tentative)) => self.confirm_memory(row, id, evidence, support),
            Some((id, _)) => self.add_evidence(row, id, evidence),
            None => {
                self.create_memory(row, candidate, scope, lesson, evidence, support);
                if let GateDecision::Held { why } = decision {
                    self.ledger.make_change(
                        row,
                        candidate,
                        self.run_cause(run),
                        ChangeEffect::Held { why: why.clone() },
                        why,
                    );
                }
            }
        }
    }

    /// Suppresses the lesson if a tombstone forbids it to runs of the repository. Returns `true` if one does. `id` is
    /// the memory that would have changed or been created.
    fn suppress_if_forbidden(
        &mut self,
        row: usize,
        id: MemoryId,
        run: &RunId,
        finding: &Finding,
        lesson: &Lesson,
    ) -> bool {
        let repository = finding.origin.repository.as_ref();
        let Some((tombstone, similarity)) = self.find_blocking_tombstone(&finding.step, repository, lesson)
        else {
            return false;
        };
        let reason = format!("a tombstone forbids it until {}: {}", tombstone.until, tombstone.reason);
        let (tombstone_of, title) = (tombstone.memory, lesson.title.clone());
        let effect = ChangeEffect::Suppressed { tombstone_of, similarity, title };
        self.ledger.make_change(row, id, self.run_cause(run), effect, reason);
        true
    }

    /// Returns `true` for a remark whose memory is neither held nor released. A remark is its own evidence: the known
    /// one is harmless, and a dangerous one would be shown with it. The evidence of a repair is only the error, whatever
    /// the agent did about it in this run.
    fn is_unheld_remark(&self, id: MemoryId, lesson: &Lesson) -> bool {
        let memory = &self.ledger.memories()[&id];
        is_remark(lesson) && memory.quarantine.is_none() && memory.released_by.is_none()
    }

    /// States anew the lesson of the memory that changes a call in the same place after the same error. Returns the
    /// memory, or `None` if there is none.
    fn revise_memory(
        &mut self,
        row: usize,
        run: &RunId,
        scope: &MemoryScope,
        lesson: &Lesson,
        decision: &GateDecision,
    ) -> Option<(MemoryId, MemoryStatus)> {
        let restated = |memory: &&Memory| {
            memory.scope == *scope
                && matches!(memory.status, MemoryStatus::Tentative | MemoryStatus::Active)
                // What a person has worded is not worded anew.
                && memory.lesson.worded_by.is_none()
                && lesson.cue.restates(&memory.lesson.cue)
        };
        let oldest =
            |memory: &&Memory| (memory.status == MemoryStatus::Tentative, memory.created_at, memory.id);
        let memory = self.ledger.memories().values().filter(restated).min_by_key(oldest)?;
        let (id, status, is_held) = (memory.id, memory.status, memory.quarantine.is_some());
        let reason = format!("more runs show what they have in common; it was: {}", memory.lesson.title);
        let cause = self.run_cause(run);
        let effect = ChangeEffect::Revised { lesson: lesson.clone() };
        if self.ledger.make_change(row, id, cause.clone(), effect, reason)
            && let GateDecision::Held { why } = decision
            && !is_held
        {
            self.ledger.make_change(row, id, cause, ChangeEffect::Held { why: why.clone() }, why.clone());
        }
        Some((id, status))
    }

    /// Returns `true` if enough independent runs show a lesson without being investigated.
    fn is_supported(&self, support: Option<&ContrastSupport>) -> bool {
        support.is_some_and(|support| support.runs.len() >= self.policy.confirm_runs as usize)
    }

    /// Returns the gate's decision on a finding: on its lesson and on the quote that would be its evidence.
    fn judge_observation(&self, scope: &MemoryScope, lesson: &Lesson, finding: &Finding) -> GateDecision {
        match refused_quote_reason(&finding.quote) {
            Some(why) => GateDecision::Refused { why },
            None => judge_lesson(scope, lesson, &self.policy.held_dangers),
        }
    }

    /// Returns `true` if an earlier call already applied the observation of this lesson in this run. The
    /// memory may have been promoted, archived or deleted since then, and the same run must not restore it.
    fn was_observed_before(
        &self,
        candidate: MemoryId,
        run: &RunId,
        scope: &MemoryScope,
        lesson: &Lesson,
    ) -> bool {
        // Nothing was applied before, so the search by similarity can be skipped.
        if !self.ledger.has_earlier_changes() {
            return false;
        }
        let cause = self.run_cause(run);
        self.ledger.was_made_before(candidate, &cause, OBSERVATION_KINDS)
            || self.ledger.was_made_before(candidate, &cause, &["refused"])
            || self.ledger.memories().values().any(|memory| {
                memory.scope.is_same_step(scope)
                    && self.lesson_matcher().same_lesson(&memory.lesson, lesson).is_some()
                    && self.ledger.was_made_before(memory.id, &cause, OBSERVATION_KINDS)
            })
    }

    /// Adds a run as evidence to an active memory, or revives an archived one. Does nothing if the memory
    /// already has evidence from the run, because evidence counts runs and not findings. That is the case for
    /// a second finding in the run, or if a manual retrospective has investigated it.
    pub(super) fn add_evidence(&mut self, row: usize, id: MemoryId, evidence: Evidence) {
        let run = evidence.run.clone();
        let memory = &self.ledger.memories()[&id];
        if memory.evidence.iter().any(|known| known.run == run) {
            self.ledger.explain_outcome(row, format!("run {run} has shown it already; a run counts once"));
        } else if memory.status == MemoryStatus::Active {
            let reason = format!("seen again in run {run}: evidence, not weight");
            self.record_evidence(row, id, ChangeEffect::Observed { evidence }, reason);
        } else {
            let reason = format!("seen again in run {run} after it was archived: tentative once more");
            self.record_evidence(row, id, ChangeEffect::Revived { evidence }, reason);
        }
    }

    fn create_memory(
        &mut self,
        row: usize,
        id: MemoryId,
        scope: MemoryScope,
        lesson: Lesson,
        evidence: Evidence,
        support: Option<&ContrastSupport>,
    ) {
        let (status, weight, wait) = if self.policy.confirm_runs <= 1 {
            (MemoryStatus::Active, self.confirmed_weight(), "one run is enough by policy".to_owned())
        } else if let Some(support) = support.filter(|support| self.is_supported(Some(support))) {
            (MemoryStatus::Active, self.confirmed_weight(), describe_support(support))
        } else {
            (MemoryStatus::Tentative, Weight::ZERO, "a separate run has to confirm it".to_owned())
        };
        let reason = format!("first seen in run {}; {wait}", evidence.run);
        let evidence = Some(evidence);
        let created =
            ChangeEffect::Created { scope, lesson, status, weight, evidence, quarantine: None, by: None };
        self.record_evidence(row, id, created, reason);
    }

    /// Counts a run towards the confirmation of a tentative memory, and promotes the memory once enough
    /// witnesses have shown the lesson. A run that has shown it since the memory became tentative does not
    /// count again, nor does another run of the same witness.
    pub(super) fn confirm_memory(
        &mut self,
        row: usize,
        id: MemoryId,
        evidence: Evidence,
        support: Option<&ContrastSupport>,
    ) {
        let run = evidence.run.clone();
        if let Some(support) = support.filter(|support| self.is_supported(Some(support))) {
            let reason = format!("seen in run {run}; {}", describe_support(support));
            let weight = self.confirmed_weight();
            self.record_evidence(row, id, ChangeEffect::Promoted { weight, evidence }, reason);
            return;
        }
        let memory = &self.ledger.memories()[&id];
        // What its agent said is proven by its trace, as by that of any other run.
        let proves_its_quote = memory.unchecked_evidence(&run).is_some();
        if memory.tentative_runs.contains(&run) && !proves_its_quote {
            let reason = format!("run {run} has shown it already; only a separate run confirms");
            self.ledger.make_change(
                row,
                id,
                self.run_cause(&run),
                ChangeEffect::Refused { requested: "observe".to_owned() },
                reason,
            );
            return;
        }
        let needed = self.policy.confirm_runs as usize;
        let memory = &self.ledger.memories()[&id];
        let earlier: Vec<RunId> = memory.proven_runs().cloned().collect();
        let (known, is_known) = match self.policy.witness {
            WitnessRule::Run => (earlier.len(), false),
            WitnessRule::Origin => (memory.count_witnesses(), memory.knows_witness(&evidence.witnesses())),
        };
        if is_known {
            self.add_known_witness(row, id, evidence);
            return;
        }
        let seen = known + 1;
        if seen < needed {
            let shown = if proves_its_quote {
                format!("the trace of run {run} contains the quote that its agent gave")
            } else {
                format!("seen in run {run}")
            };
            let reason = format!("{shown}: {seen} of {needed} separate witnesses");
            self.record_evidence(row, id, ChangeEffect::Observed { evidence }, reason);
        } else {
            let by: Vec<_> = earlier.iter().chain([&run]).map(RunId::as_str).collect();
            let reason = format!("confirmed by separate runs of the same step: {}", by.join(", "));
            let weight = self.confirmed_weight();
            self.record_evidence(row, id, ChangeEffect::Promoted { weight, evidence }, reason);
        }
    }

    /// Adds a run of a witness that has shown the lesson of a tentative memory already: evidence that confirms
    /// nothing. After a few of them only the outcome says so, or a page that every run reads would fill the
    /// change log.
    fn add_known_witness(&mut self, row: usize, id: MemoryId, evidence: Evidence) {
        let run = &evidence.run;
        let reason = format!(
            "seen in run {run} by a witness that has shown it already ({}): only a separate one confirms",
            evidence.origin.describe()
        );
        if self.ledger.memories()[&id].tentative_runs.len() < EVIDENCE_KEPT_MAX {
            self.record_evidence(row, id, ChangeEffect::Observed { evidence }, reason);
        } else {
            self.ledger.explain_outcome(row, reason);
        }
    }

    fn record_evidence(&mut self, row: usize, id: MemoryId, effect: ChangeEffect, reason: String) {
        let evidence = match &effect {
            ChangeEffect::Created { evidence: Some(evidence), .. }
            | ChangeEffect::Promoted { evidence, .. }
            | ChangeEffect::Observed { evidence }
            | ChangeEffect::Revived { evidence } => evidence,
            _ => unreachable!("only effects with evidence are recorded here"),
        };
        let cause = self.run_cause(&evidence.run);
        if self.ledger.make_change(row, id, cause, effect, reason) {
            self.observed.insert(id);
        }
    }

    /// Returns the id and status of the living memory of the scope that contains the same lesson.
    pub(super) fn best_match(
        &self,
        scope: &MemoryScope,
        lesson: &Lesson,
        contradicts: Option<MemoryId>,
    ) -> Option<(MemoryId, MemoryStatus)> {
        let found =
            self.lesson_matcher().best_match(self.ledger.memories().values(), scope, lesson, contradicts);
        found.map(|memory| (memory.id, memory.status))
    }

    /// Returns the memory beyond the run's own repository that contains the lesson and is handed to the run.
    fn find_shared(
        &self,
        step: &Step,
        repository: Option<&RunRepository>,
        lesson: &Lesson,
        contradicts: Option<MemoryId>,
    ) -> Option<SharedMemory> {
        let scopes = MemoryScope::all_of_run(&self.workflow, step, repository);
        scopes.iter().skip(1).find_map(|scope| {
            let (id, status) = self.best_match(scope, lesson, contradicts)?;
            match scope.audience().is_some_and(|audience| audience.may_read(repository)) {
                true => Some(SharedMemory::Readable(id, status)),
                false => (status == MemoryStatus::Active).then_some(SharedMemory::NotReadable(id)),
            }
        })
    }

    /// Returns the tombstone that forbids the lesson to runs of the repository, with the similarity of the two.
    fn find_blocking_tombstone(
        &self,
        step: &Step,
        repository: Option<&RunRepository>,
        lesson: &Lesson,
    ) -> Option<(&Tombstone, u16)> {
        let tombstones = || self.ledger.live_tombstones().iter();
        let scopes = MemoryScope::all_of_run(&self.workflow, step, repository);
        scopes.iter().find_map(|scope| self.lesson_matcher().blocking_tombstone(tombstones(), scope, lesson))
    }

    const fn confirmed_weight(&self) -> Weight {
        Weight::from_thousandths(self.policy.confirmed_weight)
    }
}

/// Memory beyond the repository of a run that contains its lesson.
enum SharedMemory {
    /// Its readers may read what the run has shown.
    Readable(MemoryId, MemoryStatus),
    /// Its readers may not, and it is active: the run needs no other.
    NotReadable(MemoryId),
}

/// Maximum number of runs that a reason names.
const RUNS_NAMED_MAX: usize = 5;

/// Describes the runs behind a lesson: "5 of 7 runs that got past the error did so (a, b, c)".
fn describe_support(support: &ContrastSupport) -> String {
    let counts = support.counts;
    let named: Vec<_> = support.runs.iter().take(RUNS_NAMED_MAX).map(RunId::as_str).collect();
    format!(
        "{} of {} runs that got past the error did so, among them {}",
        counts.with_remedy,
        counts.changed + counts.repeated,
        named.join(", ")
    )
}
