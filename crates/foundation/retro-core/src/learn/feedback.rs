//! Decides which of the waiting feedback is weighed when the writer holds the lock of a workflow or rule scope, and
//! turns it into mutations of the batch.
//!
//! Feedback on a run is weighed once the run is claimed by a retrospective, so the result does not depend on whether the
//! feedback or the run arrived first. It joins the investigator's verdict on the same run in `account.rs`, or in
//! `rules/voices.rs` for a rule. What cannot count is settled with the reason, and people are shown it.

use std::collections::HashMap;

use uuid::Uuid;

use super::settle::{Mutation, MutationKind};
use crate::feedback::{Feedback, FeedbackOutcome};
use crate::id::{FeedbackId, MemoryId, MutationId, RetrospectiveId, ReviewBatchId};
use crate::memory::AppliedBatch;
use crate::review::{RuleMutation, RuleMutationKind};

/// Number of closings for which feedback waits for a run that has not arrived. A run arrives with the event that says
/// it has finished; after this many retrospectives none will come.
pub const FEEDBACK_PASSES_MAX: u32 = 10;

/// Feedback that waits to be weighed, with the facts that decide about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingFeedback {
    /// What was said.
    pub feedback: Feedback,
    /// Number of closings that it has waited for its run.
    pub passes: u32,
    /// Facts about the run; `None` for a person's feedback.
    pub run: Option<FeedbackRun>,
}

/// Facts about the run that feedback is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeedbackRun {
    /// `true` if the run is recorded in the workflow that the feedback names.
    pub recorded: bool,
    /// `true` if a retrospective has claimed the run, or none ever will because it is not counted.
    pub claimed: bool,
    /// `true` if the memory was presented to the run or read by it.
    pub shown: bool,
    /// `true` if a verdict on the memory in this run was weighed before.
    pub judged: bool,
}

/// Feedback to be marked as settled, with what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledFeedback {
    /// Memory that it is about.
    pub memory: MemoryId,
    /// Id of the feedback.
    pub id: FeedbackId,
    /// What became of it.
    pub outcome: FeedbackOutcome,
}

/// What a closing does to the waiting feedback.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeedbackChanges {
    /// Feedback that is settled.
    pub settled: Vec<SettledFeedback>,
    /// Feedback that goes on waiting for its run.
    pub passed: Vec<FeedbackId>,
}

/// Feedback of one closing: what is weighed, and what became of the rest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeedbackSelection {
    weighed: Vec<Feedback>,
    changes: FeedbackChanges,
}

impl FeedbackSelection {
    /// Selects the feedback that counts now.
    pub fn select(mut waiting: Vec<WaitingFeedback>) -> Self {
        // The order of arrival must not decide anything.
        waiting.sort_by_key(|one| (one.feedback.memory, one.feedback.id));
        let mut selection = Self::default();
        for WaitingFeedback { feedback, passes, run } in waiting {
            let (memory, id) = (feedback.memory, feedback.id);
            match decide_standing(run, passes) {
                Standing::Counts => selection.weighed.push(feedback),
                Standing::Waits { passed } if passed => selection.changes.passed.push(id),
                Standing::Waits { .. } => {}
                Standing::Ends(reason) => {
                    let outcome = FeedbackOutcome { weighed: false, reason: reason.to_owned() };
                    selection.changes.settled.push(SettledFeedback { memory, id, outcome });
                }
            }
        }
        selection
    }

    /// Returns the batch of a retrospective with the feedback in front of its sweep.
    pub fn add_to_batch(&self, retrospective: RetrospectiveId, mut batch: Vec<Mutation>) -> Vec<Mutation> {
        let is_sweep = |mutation: &Mutation| matches!(mutation.request, MutationKind::Sweep { .. });
        let at = batch.iter().position(is_sweep).unwrap_or(batch.len());
        let mutations = self.weighed.iter().map(|feedback| Mutation {
            id: MutationId::of_feedback(retrospective.0, feedback.id),
            request: MutationKind::Feedback { feedback: feedback.clone() },
        });
        batch.splice(at..at, mutations.collect::<Vec<_>>());
        batch
    }

    /// Returns the mutations of a batch of rules with the feedback in front of what archives unused rules.
    pub fn add_to_rule_batch(&self, id: ReviewBatchId, mut batch: Vec<RuleMutation>) -> Vec<RuleMutation> {
        let expires = |mutation: &RuleMutation| matches!(mutation.request, RuleMutationKind::Expire);
        let at = batch.iter().position(expires).unwrap_or(batch.len());
        let mutations = self.weighed.iter().map(|feedback| RuleMutation {
            id: MutationId::of_feedback(id.0, feedback.id),
            request: RuleMutationKind::Feedback { feedback: feedback.clone() },
        });
        batch.splice(at..at, mutations.collect::<Vec<_>>());
        batch
    }

    /// Returns what became of the feedback, given the applied batch of the retrospective or of rules with this id.
    pub fn settle(self, weighed_by: Uuid, applied: &AppliedBatch) -> FeedbackChanges {
        let Self { weighed, mut changes } = self;
        let outcomes: HashMap<_, _> =
            applied.outcomes.iter().map(|outcome| (outcome.mutation, outcome)).collect();
        for feedback in weighed {
            let Some(outcome) = outcomes.get(&MutationId::of_feedback(weighed_by, feedback.id)) else {
                continue;
            };
            let outcome =
                FeedbackOutcome { weighed: !outcome.changes.is_empty(), reason: outcome.reason.clone() };
            let (memory, id) = (feedback.memory, feedback.id);
            changes.settled.push(SettledFeedback { memory, id, outcome });
        }
        changes.settled.sort_by_key(|one| (one.memory, one.id));
        changes
    }
}

/// What happens to waiting feedback.
enum Standing {
    Counts,
    /// It waits; `passed` if this closing is counted, since its run may never come.
    Waits {
        passed: bool,
    },
    Ends(&'static str),
}

const fn decide_standing(run: Option<FeedbackRun>, passes: u32) -> Standing {
    match run {
        None => Standing::Counts,
        Some(FeedbackRun { recorded: false, .. }) if passes >= FEEDBACK_PASSES_MAX => {
            Standing::Ends("not weighed: its run has never been recorded in this workflow")
        }
        Some(FeedbackRun { recorded: false, .. }) => Standing::Waits { passed: true },
        Some(FeedbackRun { claimed: false, .. }) => Standing::Waits { passed: false },
        Some(FeedbackRun { shown: false, .. }) => {
            Standing::Ends("not weighed: the memory was neither presented to the run nor read by it")
        }
        Some(FeedbackRun { judged: true, .. }) => {
            Standing::Ends("not weighed: a verdict on the memory in this run was weighed before")
        }
        Some(_) => Standing::Counts,
    }
}
