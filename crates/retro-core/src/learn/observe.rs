//! Observing: a finding becomes a memory, confirms one, adds to one, revives one, or is kept away.

use super::alike::Alike;
use super::apply::Writer;
use crate::finding::Finding;
use crate::id::{MemoryId, RunId};
use crate::memory::{Effect, Evidence, Lesson, Scope, Status};
use crate::weight::Weight;

/// The kinds of change by which a run shows a lesson, kept away or not.
pub(crate) const SHOWING: &[&str] = &["created", "promoted", "observed", "revived", "suppressed"];

impl Writer<'_> {
    /// `candidate` is the id that a new memory would get.
    pub(super) fn observe(&mut self, row: usize, candidate: MemoryId, run: &RunId, finding: &Finding) {
        let scope = Scope::Step { workflow: self.facts.key.workflow.clone(), step: finding.step.clone() };
        let lesson = Lesson::of(finding);
        if self.shown_before(candidate, run, &scope, &lesson) {
            self.explain(row, format!("this has happened before: run {run} has shown it"));
            return;
        }
        let evidence = Evidence {
            run: run.clone(),
            epoch: Some(self.facts.epoch),
            quote: finding.quote.clone(),
            remark: None,
        };
        let known = self.best_match(&scope, &lesson, finding.contradicts);
        if !matches!(known, Some((_, Status::Active)))
            && let Some((stone, similarity)) =
                self.alike().stopping_tombstone(self.live_tombstones.iter(), &scope, &lesson)
        {
            let id = known.map_or(candidate, |(id, _)| id);
            let reason = format!("a tombstone forbids it until {}: {}", stone.until, stone.reason);
            let tombstone_of = stone.memory;
            let effect = Effect::Suppressed { tombstone_of, similarity, title: lesson.title };
            self.make(row, id, self.run_cause(run), effect, reason);
            return;
        }
        match known {
            Some((id, Status::Tentative)) => self.confirm(row, id, evidence),
            Some((id, _)) => self.add_evidence(row, id, evidence),
            None => self.create(row, candidate, scope, lesson, evidence),
        }
    }

    /// Whether an earlier pass over this run has shown this lesson, whatever became of the memory since: it may
    /// have been promoted, archived or deleted, and the same run must not bring it back.
    fn shown_before(&self, candidate: MemoryId, run: &RunId, scope: &Scope, lesson: &Lesson) -> bool {
        if self.facts.applied.is_empty() {
            return false;
        }
        let cause = self.run_cause(run);
        self.happened_before(candidate, &cause, SHOWING)
            || self.memories.values().any(|memory| {
                memory.scope == *scope
                    && self.alike().same_lesson(&memory.lesson, lesson).is_some()
                    && self.happened_before(memory.id, &cause, SHOWING)
            })
    }

    /// A run's evidence for a memory that is not tentative. A second finding of the same run adds none, and neither
    /// does a run that a person has looked at already: runs are counted.
    fn add_evidence(&mut self, row: usize, id: MemoryId, evidence: Evidence) {
        let run = evidence.run.clone();
        let memory = &self.memories[&id];
        if memory.evidence.iter().any(|known| known.run == run) {
            self.explain(row, format!("run {run} has shown it already; a run counts once"));
        } else if memory.status == Status::Active {
            let reason = format!("seen again in run {run}: evidence, not weight");
            self.see(row, id, Effect::Observed { evidence }, reason);
        } else {
            let reason = format!("seen again in run {run} after it was archived: tentative once more");
            self.see(row, id, Effect::Revived { evidence }, reason);
        }
    }

    fn create(&mut self, row: usize, id: MemoryId, scope: Scope, lesson: Lesson, evidence: Evidence) {
        let (status, weight, wait) = if self.facts.policy.confirm_runs <= 1 {
            (Status::Active, self.confirmed_weight(), "one run is enough by policy")
        } else {
            (Status::Tentative, Weight::ZERO, "a separate run has to confirm it")
        };
        let reason = format!("first seen in run {}; {wait}", evidence.run);
        self.see(
            row,
            id,
            Effect::Created { scope, lesson, status, weight, evidence, quarantine: None },
            reason,
        );
    }

    /// Only runs other than those that have shown it since it became tentative confirm a tentative memory.
    fn confirm(&mut self, row: usize, id: MemoryId, evidence: Evidence) {
        let run = evidence.run.clone();
        let earlier = self.memories[&id].tentative_runs.clone();
        if earlier.contains(&run) {
            let reason = format!("run {run} has shown it already; only a separate run confirms");
            self.make(row, id, self.run_cause(&run), Effect::Refused { asked: "observe".to_owned() }, reason);
            return;
        }
        let needed = self.facts.policy.confirm_runs as usize;
        let seen = earlier.len() + 1;
        if seen < needed {
            let reason = format!("seen in run {run}: {seen} of {needed} separate runs");
            self.see(row, id, Effect::Observed { evidence }, reason);
        } else {
            let by: Vec<_> = earlier.iter().chain([&run]).map(RunId::as_str).collect();
            let reason = format!("confirmed by separate runs of the same step: {}", by.join(", "));
            let weight = self.confirmed_weight();
            self.see(row, id, Effect::Promoted { weight, evidence }, reason);
        }
    }

    fn see(&mut self, row: usize, id: MemoryId, effect: Effect, reason: String) {
        let evidence = match &effect {
            Effect::Created { evidence, .. }
            | Effect::Promoted { evidence, .. }
            | Effect::Observed { evidence }
            | Effect::Revived { evidence } => evidence,
            _ => unreachable!("only effects with evidence are seen"),
        };
        let cause = self.run_cause(&evidence.run);
        if self.make(row, id, cause, effect, reason) {
            self.observed.insert(id);
        }
    }

    /// The living memory of the scope that says the same.
    fn best_match(
        &self,
        scope: &Scope,
        lesson: &Lesson,
        contradicts: Option<MemoryId>,
    ) -> Option<(MemoryId, Status)> {
        let found = self.alike().best_match(self.memories.values(), scope, lesson, contradicts);
        found.map(|memory| (memory.id, memory.status))
    }

    const fn alike(&self) -> Alike<'_, '_> {
        Alike { vectors: &self.vectors, policy: &self.facts.policy }
    }

    const fn confirmed_weight(&self) -> Weight {
        Weight::thousandths(self.facts.policy.confirmed_weight)
    }
}
