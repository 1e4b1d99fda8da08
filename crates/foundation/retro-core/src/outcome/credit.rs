//! Gives late credit: when the outcome of a pull request becomes known, adjusts the weights of the memories and rules
//! that were applied in its runs.
//!
//! Credits are small and may be positive or negative. The memory, the run and the outcome determine the effect key of
//! the change, so each combination is credited once. Reports of earlier retrospectives stay as they are, because the
//! credit is a separate change with its own reason. A rule belongs to a repository and a memory to a workflow, so one
//! pull request may cause several credits, each under the lock of its own scope.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

use crate::id::{ChangeId, MemoryId, RunId, Workflow, WorkflowKey};
use crate::memory::{
    Change, ChangeCause, ChangeEffect, FoldError, Memory, MemoryStatus, WeightPart, WeightReason, change_id,
    fold_change,
};
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::pull_request::{CreditedOutcome, PullRequestFacts, PullRequestRef};
use crate::weight::WeightDelta;

/// A memory or rule that was applied in a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryApplication {
    /// Workflow of the run.
    pub workflow: Workflow,
    /// Id of the run.
    pub run: RunId,
    /// Id of the memory.
    pub memory: MemoryId,
}

/// Stored facts from which credit is computed, read under the workflow lock.
#[derive(Debug, Clone)]
pub struct CreditFacts {
    /// Scope that is credited: a workflow, or the rule scope of a repository.
    pub key: WorkflowKey,
    /// Pull request of the runs.
    pub pull_request: PullRequestRef,
    /// Facts about the pull request.
    pub facts: PullRequestFacts,
    /// Memories of this scope that closed retrospectives found to be applied in runs of this pull request.
    pub applications: Vec<MemoryApplication>,
    /// Memories that `applications` names. One that is missing here is skipped.
    pub memories: Vec<Memory>,
    /// Ids of the stored changes that credited these runs before. These changes are not made again.
    pub applied: HashSet<ChangeId>,
}

/// Credit for the outcomes of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutcomeCredit {
    /// New changes, sorted by run and then memory. Those of one memory are in the order of [`CreditedOutcome`].
    pub changes: Vec<Change>,
    /// Memories that changed, in their new state.
    pub memories: Vec<Memory>,
    /// Messages that announce the changes.
    pub messages: Vec<Message>,
}

/// Computes how the outcomes of a pull request change the memories that were applied in its runs. Pure: equal
/// facts give equal changes. For a memory that is not active, the weight stays and a refusal is stored once.
/// Fails if a memory does not match its changes.
pub fn credit_outcome(
    facts: &CreditFacts,
    policy: &Policy,
    at: Timestamp,
) -> Result<OutcomeCredit, FoldError> {
    let mut memories: BTreeMap<MemoryId, Memory> =
        facts.memories.iter().map(|memory| (memory.id, memory.clone())).collect();
    let mut credited = OutcomeCredit::default();
    let mut touched = Vec::new();
    let mut uses = facts.applications.clone();
    // A run and a memory may be listed by more than one retrospective; they are credited once.
    uses.sort_unstable();
    uses.dedup();
    for one in &uses {
        for outcome in facts.facts.outcomes() {
            let Some(memory) = memories.get(&one.memory) else { continue };
            let Some(change) = build_change(facts, one, outcome, memory, policy, at) else { continue };
            if !change.effect.leaves_memory_unchanged() {
                let after =
                    fold_change(Some(memory.clone()), &change)?.expect("a weight change keeps the memory");
                memories.insert(after.id, after);
                touched.push(one.memory);
                credited.messages.push(Notice::of_change(&change).into_message(&facts.key));
            }
            credited.changes.push(change);
        }
    }
    touched.sort_unstable();
    touched.dedup();
    credited.memories = touched.iter().map(|id| memories[id].clone()).collect();
    Ok(credited)
}

/// Returns the change that credits one applied memory for one outcome of the pull request. Returns `None` if the
/// change was made before, or if the policy gives no credit for this outcome.
fn build_change(
    facts: &CreditFacts,
    one: &MemoryApplication,
    outcome: CreditedOutcome,
    memory: &Memory,
    policy: &Policy,
    at: Timestamp,
) -> Option<Change> {
    let cause = ChangeCause::Outcome { workflow: one.workflow.clone(), run: one.run.clone(), outcome };
    let id = |kind| change_id(&facts.key, memory.id, &cause, kind);
    if ["reweighted", "refused"].iter().any(|kind| facts.applied.contains(&id(kind))) {
        return None;
    }
    let (delta, kind) = match outcome {
        CreditedOutcome::Merged => (policy.merged_delta, WeightReason::Merged),
        CreditedOutcome::ClosedUnmerged => (policy.closed_unmerged_delta, WeightReason::ClosedUnmerged),
        CreditedOutcome::ChangesRequested => (policy.changes_requested_delta, WeightReason::ChangesRequested),
        CreditedOutcome::Reverted => (policy.reverted_delta, WeightReason::Reverted),
    };
    let delta = WeightDelta(delta);
    if delta == WeightDelta(0) {
        return None;
    }
    let description = describe_application(facts, one, outcome);
    let (effect, reason) = if let Some(by) = &memory.disabled_by {
        let reason = format!("{by} has disabled it: its weight stays, although {description}");
        (ChangeEffect::Refused { requested: "credit".to_owned() }, reason)
    } else if let Some(by) = memory.pinned_by.as_ref().filter(|_| delta < WeightDelta(0)) {
        // An outcome of a pull request has many causes: it is no harm that a run has shown.
        let reason = format!("{by} has pinned it: its weight stays, although {description}");
        (ChangeEffect::Refused { requested: "credit".to_owned() }, reason)
    } else if memory.status == MemoryStatus::Active {
        let part =
            WeightPart { delta, kind, run: Some(one.run.clone()), by: None, reason: description.clone() };
        let effect = ChangeEffect::Reweighted {
            before: memory.weight,
            delta,
            after: memory.weight.adjusted_by(delta),
            parts: vec![part],
            cue_not_met: memory.cue_not_met,
            contradicted_by: Vec::new(),
        };
        (effect, format!("{delta}: {description}"))
    } else {
        let reason = format!("it is {}: it has no weight to move, although {description}", memory.status);
        (ChangeEffect::Refused { requested: "credit".to_owned() }, reason)
    };
    Some(Change::new(&facts.key, memory.id, cause, effect, reason, at))
}

fn describe_application(facts: &CreditFacts, one: &MemoryApplication, outcome: CreditedOutcome) -> String {
    let what = match outcome {
        CreditedOutcome::Merged => "was merged",
        CreditedOutcome::ClosedUnmerged => "was closed without a merge",
        CreditedOutcome::ChangesRequested => "needed changes, as a review said",
        CreditedOutcome::Reverted => "was merged and then reverted",
    };
    format!("it was applied in run {}, whose pull request {} {what}", one.run, facts.pull_request)
}
