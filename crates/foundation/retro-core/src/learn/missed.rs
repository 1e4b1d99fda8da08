//! Says why recurring failures became no memory that agents get.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::no_lesson::NoLessonReason;
use super::settle::{Mutation, MutationKind};
use crate::calls::{MissedFailure, MissedReason, RecurringFailure};
use crate::finding::LessonCue;
use crate::id::Step;
use crate::memory::{Memory, MemoryStatus, Tombstone};

/// What a workflow knows about failures when a retrospective closes.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownLessons<'a> {
    /// Living memories, with the changes of the batch.
    pub(super) memories: &'a [Memory],
    /// Tombstones, with those of the batch.
    pub(super) tombstones: &'a [Tombstone],
    /// Batch that was applied.
    pub(super) batch: &'a [Mutation],
    /// Policy time of the retrospective.
    pub(super) as_of: Timestamp,
}

/// Returns the recurring failures that no memory which agents get is about, each with the reason, in the order
/// in which they were counted.
pub(super) fn list_missed(failures: &[RecurringFailure], known: &KnownLessons<'_>) -> Vec<MissedFailure> {
    let missed = |failure: &RecurringFailure| {
        let reason = known.why_missed(failure)?;
        Some(MissedFailure { failure: failure.clone(), reason })
    };
    failures.iter().filter_map(missed).collect()
}

impl KnownLessons<'_> {
    /// Returns the reason why agents are not told about a failure, or `None` if they are.
    fn why_missed(&self, failure: &RecurringFailure) -> Option<MissedReason> {
        // A memory that is shown counts more than another one about the same error that is not.
        let mut hidden: BTreeMap<u8, MissedReason> = BTreeMap::new();
        for memory in self.memories.iter().filter(|memory| is_about(failure, memory)) {
            let id = memory.id;
            let (rank, reason) = match (memory.status, &memory.quarantine) {
                _ if memory.disabled_by.is_some() => (0, MissedReason::Disabled { memory: id }),
                (MemoryStatus::Active, None) => return None,
                (_, Some(_)) => (0, MissedReason::Held { memory: id }),
                (MemoryStatus::Tentative, None) => (1, MissedReason::Unconfirmed { memory: id }),
                (_, None) => (2, MissedReason::Archived { memory: id }),
            };
            hidden.entry(rank).or_insert(reason);
        }
        if let Some((_, reason)) = hidden.pop_first() {
            return Some(reason);
        }
        let valid = self.tombstones.iter().filter(|tombstone| tombstone.until > self.as_of);
        let mut of_failure = valid.filter(|tombstone| {
            tombstone.scope.step().is_some_and(|step| names_failure(failure, step, &tombstone.lesson.cue))
        });
        if let Some(tombstone) = of_failure.next() {
            return Some(MissedReason::Suppressed { memory: tombstone.memory });
        }
        let found = || self.batch.iter().filter_map(|mutation| passes_unchanged(mutation, failure));
        // Numbers of many runs say more than what one run shows.
        let counted = |reason: &MissedReason| matches!(reason, MissedReason::Refuted { .. });
        if let Some(reason) = found().find(counted).or_else(|| found().next()) {
            return Some(reason);
        }
        Some(if failure.investigated == 0 {
            MissedReason::NotSampled
        } else if failure.recovered == 0 {
            MissedReason::NotRecovered
        } else {
            MissedReason::NoRemedyFound
        })
    }
}

fn is_about(failure: &RecurringFailure, memory: &Memory) -> bool {
    memory.status.is_living()
        && memory.scope.step().is_some_and(|step| names_failure(failure, step, &memory.lesson.cue))
}

fn names_failure(failure: &RecurringFailure, step: &Step, cue: &LessonCue) -> bool {
    let named = cue.tool.as_deref().zip(cue.error.as_deref());
    named.is_some_and(|(tool, error)| failure.is_about(step, tool, error))
}

/// Returns the reason if a mutation found that the failure passes without a change.
fn passes_unchanged(mutation: &Mutation, failure: &RecurringFailure) -> Option<MissedReason> {
    let MutationKind::Observe { finding, no_lesson: Some(reason), .. } = &mutation.request else {
        return None;
    };
    let missed = match reason {
        NoLessonReason::Transient { .. } => MissedReason::Transient,
        NoLessonReason::PassesByItself { counts } => {
            MissedReason::Refuted { repeated: counts.repeated, changed: counts.changed }
        }
        NoLessonReason::Routine { .. }
        | NoLessonReason::NoRemedy
        | NoLessonReason::Harm { .. }
        | NoLessonReason::Disputed { .. } => return None,
    };
    names_failure(failure, &finding.step, &finding.cue).then_some(missed)
}
