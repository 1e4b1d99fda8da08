//! Decides how a batch of mutations changes the rules of a repository, as one pure function.

use super::observe::RuleObservation;
use super::voices::find_speakers;
use super::writer::{RuleFacts, RuleWriter};
use crate::memory::{AppliedBatch, ChangeCause};
use crate::review::{RuleMutation, RuleMutationKind};
use crate::similarity::Embedder;

/// Decides how a batch of mutations changes a repository's rules. This is a pure function: the same facts and
/// batch give the same changes, byte for byte.
pub fn apply_rules(facts: RuleFacts, batch: &[RuleMutation], embedder: &dyn Embedder) -> AppliedBatch {
    let mut writer = RuleWriter::new(facts, batch, embedder);
    let speaks = find_speakers(batch);
    for (row, mutation) in batch.iter().enumerate() {
        if !speaks[row] {
            writer
                .ledger
                .explain_outcome(row, "not weighed: a stronger verdict of the same run or person counts");
            continue;
        }
        match &mutation.request {
            RuleMutationKind::Observe { memory, edition, path, lesson, evidence, quarantine } => {
                writer.apply_observation(
                    row,
                    &RuleObservation {
                        candidate: *memory,
                        edition,
                        scope: writer.repository_scope(path.clone()),
                        lesson,
                        evidence,
                        quarantine: quarantine.as_deref(),
                    },
                );
            }
            RuleMutationKind::Withdraw { remark, edition, reason } => {
                writer.apply_withdrawal(row, remark, edition, reason);
            }
            RuleMutationKind::Credit { memory, workflow, run, verdict, reason } => {
                writer.apply_credit(row, *memory, workflow, run, *verdict, reason);
            }
            RuleMutationKind::Feedback { feedback } => writer.apply_feedback(row, feedback),
            RuleMutationKind::Expire => writer.archive_unused(row),
        }
    }
    let held = writer.policy.held_dangers.clone();
    if let Some((row, cause)) = batch.iter().enumerate().find_map(|(row, one)| Some((row, cause_of(one)?))) {
        writer.ledger.hold_endangering(row, &cause, &held);
    }
    writer.ledger.into_applied()
}

/// Returns the cause of the changes that a mutation asks for, or `None` if it depends on the rule.
fn cause_of(mutation: &RuleMutation) -> Option<ChangeCause> {
    match &mutation.request {
        RuleMutationKind::Observe { edition, evidence, .. } => {
            let remark = evidence.remark.as_ref()?.remark.clone();
            Some(ChangeCause::Review { remark, edition: edition.clone() })
        }
        RuleMutationKind::Withdraw { remark, edition, .. } => {
            Some(ChangeCause::Review { remark: remark.clone(), edition: edition.clone() })
        }
        RuleMutationKind::Credit { workflow, run, .. } => {
            Some(ChangeCause::Run { workflow: workflow.clone(), run: run.clone() })
        }
        RuleMutationKind::Feedback { .. } | RuleMutationKind::Expire => None,
    }
}
