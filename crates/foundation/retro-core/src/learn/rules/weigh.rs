//! Applies the verdicts of runs to rules, and archives rules that nobody uses.

use super::writer::{RuleUse, RuleWriter};
use crate::feedback::{Feedback, FeedbackAuthor};
use crate::finding::MemoryVerdict;
use crate::id::{MemoryId, RunId, Workflow};
use crate::memory::{ChangeCause, ChangeEffect, Memory, MemoryStatus, WeightPart, WeightReason};
use crate::weight::WeightDelta;

/// Who speaks of a rule.
struct RuleVoice {
    cause: ChangeCause,
    run: Option<RunId>,
    by: Option<String>,
}

impl RuleWriter<'_> {
    /// Adjusts the weight of a rule by the verdict of a run.
    pub(super) fn apply_credit(
        &mut self,
        row: usize,
        id: MemoryId,
        workflow: &Workflow,
        run: &RunId,
        verdict: MemoryVerdict,
        reason: &str,
    ) {
        let cause = ChangeCause::Run { workflow: workflow.clone(), run: run.clone() };
        let voice = RuleVoice { cause, run: Some(run.clone()), by: None };
        self.apply_verdict(row, id, voice, verdict, reason);
    }

    /// Adjusts the weight of a rule by what somebody says of it. A run is heard once, whoever speaks for it. That a rule
    /// is wrong counts as harm: a rule is what people asked for, so no run deletes it.
    pub(super) fn apply_feedback(&mut self, row: usize, feedback: &Feedback) {
        let verdict = feedback.verdict.memory_verdict();
        let voice = match &feedback.author {
            FeedbackAuthor::Person { by } => {
                let cause = ChangeCause::Feedback { id: feedback.id };
                RuleVoice { cause, run: None, by: Some(by.clone()) }
            }
            FeedbackAuthor::Agent { workflow, run, .. }
            | FeedbackAuthor::Evaluation { workflow, run, .. } => {
                let cause = ChangeCause::Run { workflow: workflow.clone(), run: run.clone() };
                RuleVoice { cause, run: Some(run.clone()), by: None }
            }
        };
        self.apply_verdict(row, feedback.memory, voice, verdict, &feedback.describe());
    }

    /// Adjusts the weight of a rule by a verdict. A rule whose weight falls below the injection minimum is archived,
    /// because it could never be presented again.
    fn apply_verdict(
        &mut self,
        row: usize,
        id: MemoryId,
        voice: RuleVoice,
        verdict: MemoryVerdict,
        reason: &str,
    ) {
        let RuleVoice { cause, run, by } = voice;
        let policy = &self.policy;
        let (delta, kind) = match verdict {
            MemoryVerdict::Harmed => (policy.harmed_delta, WeightReason::Harmed),
            MemoryVerdict::Helped => (policy.helped_delta, WeightReason::Helped),
            MemoryVerdict::Applied => (0, WeightReason::Applied),
            MemoryVerdict::Ignored | MemoryVerdict::CueNotMet => {
                return self
                    .ledger
                    .explain_outcome(row, format!("{}: a rule loses nothing by that", verdict.as_str()));
            }
        };
        let inject_weight_min = policy.inject_weight_min;
        let Some(memory) =
            self.ledger.memories().get(&id).filter(|memory| memory.status == MemoryStatus::Active)
        else {
            return self.ledger.explain_outcome(row, "no active rule of this repository has that id");
        };
        if let Some(by) = &memory.disabled_by {
            let reason = format!("{by} has disabled it: it stays as it is until a person enables it");
            return self.ledger.explain_outcome(row, reason);
        }
        let (before, delta) = (memory.weight, WeightDelta(delta));
        let after = before.adjusted_by(delta);
        let of_run = run.as_ref().map(|run| format!(" in run {run}")).unwrap_or_default();
        let reason_text = format!("{delta} {}{of_run}: {reason}", kind.as_str());
        let part = WeightPart { delta, kind, run, by, reason: reason.to_owned() };
        let contradicted_by = Vec::new();
        let effect = ChangeEffect::Reweighted {
            before,
            delta,
            after,
            parts: vec![part],
            cue_not_met: 0,
            contradicted_by,
        };
        if self.ledger.make_change(row, id, cause.clone(), effect, reason_text)
            && after.get() < inject_weight_min
        {
            let reason = format!("its weight {after} is below what is presented: nobody could use it again");
            self.ledger.make_change(row, id, cause, ChangeEffect::Archived, reason);
        }
    }

    pub(super) fn archive_unused(&mut self, row: usize) {
        let most = u64::from(self.policy.rule_presentations_max);
        // A rule that this batch changed was just used: its count of unused runs starts again.
        let idle = |memory: &&Memory| {
            memory.status == MemoryStatus::Active
                && memory.disabled_by.is_none()
                && memory.pinned_by.is_none()
                && !self.ledger.has_changed(memory.id)
        };
        let idle = self.ledger.memories().values().filter(idle);
        let used = |memory: &Memory| self.uses.get(&memory.id).copied().unwrap_or_default();
        let unused: Vec<_> =
            idle.map(|memory| (memory.id, used(memory))).filter(|(_, used)| used.unused >= most).collect();
        for (id, RuleUse { presented, unused }) in unused {
            let reason = format!(
                "ignored in {unused} investigated runs that it was presented to since it last changed, and used in none"
            );
            self.ledger.make_change(
                row,
                id,
                ChangeCause::Expiry { presentations: presented },
                ChangeEffect::Archived,
                reason,
            );
        }
        if !self.ledger.has_changes(row) {
            self.ledger
                .explain_outcome(row, format!("none of these rules was ignored in {most} investigated runs"));
        }
    }
}
