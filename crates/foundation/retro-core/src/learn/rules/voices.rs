//! Finds the mutation of a batch of rules that speaks for each run, and for each person.

use std::collections::BTreeMap;

use crate::feedback::FeedbackAuthor;
use crate::finding::MemoryVerdict;
use crate::id::{MemoryId, RunId, Workflow};
use crate::review::{RuleMutation, RuleMutationKind};

/// A run with its workflow, or a person, speaking of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Voice<'a> {
    Run(MemoryId, &'a Workflow, &'a RunId),
    Person(MemoryId, &'a str),
}

/// Returns for each mutation that is a verdict on a rule `true` if it is the strongest one of its run or person, and for
/// every other mutation `true`. Of equally strong ones the first speaks.
pub(super) fn find_speakers(batch: &[RuleMutation]) -> Vec<bool> {
    let mut strongest: BTreeMap<Voice<'_>, (MemoryVerdict, usize)> = BTreeMap::new();
    let mut speaks = vec![true; batch.len()];
    for (row, mutation) in batch.iter().enumerate() {
        let Some((voice, verdict)) = voice_of(&mutation.request) else { continue };
        speaks[row] = false;
        let best = strongest.entry(voice).or_insert((verdict, row));
        if verdict < best.0 {
            *best = (verdict, row);
        }
    }
    for (_, row) in strongest.into_values() {
        speaks[row] = true;
    }
    speaks
}

fn voice_of(request: &RuleMutationKind) -> Option<(Voice<'_>, MemoryVerdict)> {
    match request {
        RuleMutationKind::Credit { memory, workflow, run, verdict, .. } => {
            Some((Voice::Run(*memory, workflow, run), *verdict))
        }
        RuleMutationKind::Feedback { feedback } => {
            let voice = match &feedback.author {
                FeedbackAuthor::Person { by } => Voice::Person(feedback.memory, by),
                FeedbackAuthor::Agent { workflow, run, .. }
                | FeedbackAuthor::Evaluation { workflow, run, .. } => {
                    Voice::Run(feedback.memory, workflow, run)
                }
            };
            Some((voice, feedback.verdict.memory_verdict()))
        }
        _ => None,
    }
}
