//! Late credit: what the end of a pull request says about memories that were applied in the runs behind it.
//!
//! Small and of both signs. Each memory, run and end is credited once, by the effect key of its change. What retrospectives
//! have reported stays as it is: the credit is a change of its own, with its own reason.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

use super::{PullRequestEnd, PullRequestFacts, PullRequestRef};
use crate::id::{ChangeId, MemoryId, RunId, WorkflowKey};
use crate::memory::{
    Cause, Change, Effect, FoldError, Memory, Status, WeightPart, WeightReason, change_id, fold,
};
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::weight::Delta;

/// A memory that was applied in a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Use {
    /// The run.
    pub run: RunId,
    /// The memory.
    pub memory: MemoryId,
}

/// What the writer knows when it credits, read under the lock of the workflow.
#[derive(Debug, Clone)]
pub struct CreditFacts {
    /// The workflow.
    pub key: WorkflowKey,
    /// The pull request.
    pub pull_request: PullRequestRef,
    /// What is known of it.
    pub facts: PullRequestFacts,
    /// Memories that closed retrospectives found applied in runs of the workflow that belong to the pull request.
    pub uses: Vec<Use>,
    /// Those memories. One that is not here is of another workflow, and treated like a missing one.
    pub memories: Vec<Memory>,
    /// Changes of the workflow whose cause is the end of a pull request behind one of these runs: none happens again.
    pub applied: HashSet<ChangeId>,
}

/// What crediting does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credited {
    /// The new changes, in order: by run, then memory, merged before closed.
    pub changes: Vec<Change>,
    /// The memories that changed, as they are now.
    pub memories: Vec<Memory>,
    /// Announcements of the changes.
    pub messages: Vec<Message>,
}

/// Decides what the end of a pull request does to the memories that were applied in runs of it. Pure: the same facts give
/// the same changes. A memory that is not active has no weight to move: the change is refused, which happens once, too.
/// Fails when a memory does not fit its own changes.
pub fn credit(facts: &CreditFacts, policy: &Policy, at: Timestamp) -> Result<Credited, FoldError> {
    let mut memories: BTreeMap<MemoryId, Memory> =
        facts.memories.iter().map(|memory| (memory.id, memory.clone())).collect();
    let mut credited = Credited::default();
    let mut touched = Vec::new();
    let mut uses = facts.uses.clone();
    uses.sort_unstable();
    uses.dedup();
    for one in &uses {
        for end in facts.facts.ends() {
            let Some(memory) = memories.get(&one.memory) else { continue };
            let Some(change) = change_of(facts, one, end, memory, policy, at) else { continue };
            if !change.effect.leaves_memory() {
                let after = fold(Some(memory.clone()), &change)?.expect("a movement keeps its memory");
                memories.insert(after.id, after);
                touched.push(one.memory);
                credited.messages.push(announcement(&facts.key, &change));
            }
            credited.changes.push(change);
        }
    }
    touched.sort_unstable();
    touched.dedup();
    credited.memories = touched.iter().map(|id| memories[id].clone()).collect();
    Ok(credited)
}

/// `None` when it has happened before, or when the policy gives nothing for this.
fn change_of(
    facts: &CreditFacts,
    one: &Use,
    end: PullRequestEnd,
    memory: &Memory,
    policy: &Policy,
    at: Timestamp,
) -> Option<Change> {
    let cause = Cause::Outcome { workflow: facts.key.workflow.clone(), run: one.run.clone(), end };
    let id = |kind| change_id(&facts.key, memory.id, &cause, kind);
    if ["reweighted", "refused"].iter().any(|kind| facts.applied.contains(&id(kind))) {
        return None;
    }
    let (delta, why) = match end {
        PullRequestEnd::Merged => (Delta(policy.merged_delta), WeightReason::Merged),
        PullRequestEnd::ClosedUnmerged => (Delta(policy.closed_unmerged_delta), WeightReason::ClosedUnmerged),
    };
    if delta == Delta(0) {
        return None;
    }
    let told = told(facts, one, end);
    let (effect, reason) = if memory.status == Status::Active {
        let part = WeightPart { delta, why, run: Some(one.run.clone()), reason: told.clone() };
        let effect = Effect::Reweighted {
            before: memory.weight,
            delta,
            after: memory.weight.moved(delta),
            parts: vec![part],
            cue_not_met: memory.cue_not_met,
            contradicted_by: Vec::new(),
        };
        (effect, format!("{delta}: {told}"))
    } else {
        let reason = format!("it is {}: it has no weight to move, although {told}", memory.status);
        (Effect::Refused { asked: "credit".to_owned() }, reason)
    };
    Some(Change {
        id: id(effect.kind()),
        memory: memory.id,
        cause,
        effect,
        mutation: None,
        retrospective: None,
        epoch: None,
        at,
        reason,
    })
}

fn told(facts: &CreditFacts, one: &Use, end: PullRequestEnd) -> String {
    let what = match end {
        PullRequestEnd::Merged => "was merged",
        PullRequestEnd::ClosedUnmerged => "was closed without a merge",
    };
    format!("it was applied in run {}, whose pull request {} {what}", one.run, facts.pull_request)
}

fn announcement(key: &WorkflowKey, change: &Change) -> Message {
    let kind = change.effect.kind().to_owned();
    Notice::MemoryChanged { change: change.id, memory: change.memory, kind, at: change.at }.about(key)
}
