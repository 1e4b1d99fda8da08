//! Gives late credit: when a pull request ends, adjusts the weights of the memories applied in its runs.
//!
//! Credits are small and may be positive or negative. The memory, the run and the end of the pull request
//! determine the effect key of the change, so each combination is credited once. Reports of earlier
//! retrospectives stay as they are, because the credit is a separate change with its own reason.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

use crate::id::{ChangeId, MemoryId, RunId, WorkflowKey};
use crate::memory::{
    Change, ChangeCause, ChangeEffect, FoldError, Memory, MemoryStatus, WeightPart, WeightReason, change_id,
    fold_change,
};
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::pull_request::{PullRequestEnd, PullRequestFacts, PullRequestRef};
use crate::weight::WeightDelta;

/// A memory that was applied in a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryApplication {
    /// Id of the run.
    pub run: RunId,
    /// Id of the memory.
    pub memory: MemoryId,
}

/// Stored facts from which credit is computed, read under the workflow lock.
#[derive(Debug, Clone)]
pub struct CreditFacts {
    /// Workflow of the runs.
    pub key: WorkflowKey,
    /// Pull request that ended.
    pub pull_request: PullRequestRef,
    /// Facts about the pull request.
    pub facts: PullRequestFacts,
    /// Memories that closed retrospectives found to be applied in runs of this pull request, limited to runs
    /// of this workflow.
    pub applications: Vec<MemoryApplication>,
    /// Memories that `applications` names. A memory that is missing here belongs to another workflow and is
    /// skipped.
    pub memories: Vec<Memory>,
    /// Ids of the stored changes that credited these runs before. These changes are not made again.
    pub applied: HashSet<ChangeId>,
}

/// Credit for the end of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutcomeCredit {
    /// New changes, sorted by run and then memory. For each memory, the merge precedes the closing without a
    /// merge.
    pub changes: Vec<Change>,
    /// Memories that changed, in their new state.
    pub memories: Vec<Memory>,
    /// Messages that announce the changes.
    pub messages: Vec<Message>,
}

/// Computes how the end of a pull request changes the memories that were applied in its runs. Pure: equal
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
        for end in facts.facts.credited_ends() {
            let Some(memory) = memories.get(&one.memory) else { continue };
            let Some(change) = build_change(facts, one, end, memory, policy, at) else { continue };
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

/// Returns the change that credits one applied memory for one end of the pull request. Returns `None` if the
/// change was made before, or if the policy gives no credit for this end.
fn build_change(
    facts: &CreditFacts,
    one: &MemoryApplication,
    end: PullRequestEnd,
    memory: &Memory,
    policy: &Policy,
    at: Timestamp,
) -> Option<Change> {
    let cause = ChangeCause::Outcome { workflow: facts.key.workflow.clone(), run: one.run.clone(), end };
    let id = |kind| change_id(&facts.key, memory.id, &cause, kind);
    if ["reweighted", "refused"].iter().any(|kind| facts.applied.contains(&id(kind))) {
        return None;
    }
    let (delta, kind) = match end {
        PullRequestEnd::Merged => (WeightDelta(policy.merged_delta), WeightReason::Merged),
        PullRequestEnd::ClosedUnmerged => {
            (WeightDelta(policy.closed_unmerged_delta), WeightReason::ClosedUnmerged)
        }
    };
    if delta == WeightDelta(0) {
        return None;
    }
    let description = describe_application(facts, one, end);
    let (effect, reason) = if let Some(by) = &memory.disabled_by {
        let reason = format!("{by} has disabled it: its weight stays, although {description}");
        (ChangeEffect::Refused { requested: "credit".to_owned() }, reason)
    } else if memory.status == MemoryStatus::Active {
        let part = WeightPart { delta, kind, run: Some(one.run.clone()), reason: description.clone() };
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

fn describe_application(facts: &CreditFacts, one: &MemoryApplication, end: PullRequestEnd) -> String {
    let what = match end {
        PullRequestEnd::Merged => "was merged",
        PullRequestEnd::ClosedUnmerged => "was closed without a merge",
    };
    format!("it was applied in run {}, whose pull request {} {what}", one.run, facts.pull_request)
}
