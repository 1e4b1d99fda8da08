//! Decides how a batch of mutations changes the memories of a workflow, as one pure function.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::settle::{Mutation, MutationKind};
use super::weigh::MemoryAccount;
use crate::id::{ChangeId, Epoch, MemoryId, MutationId, RetrospectiveId, RunId, WorkflowKey};
use crate::memory::{Change, ChangeCause, ChangeEffect, Memory, Tombstone, change_id, fold_change};
use crate::policy::Policy;
use crate::similarity::{Embedder, VectorCache};
use crate::time::add_seconds;

/// Stored facts that the writer needs to decide about a batch, read under the lock of the workflow.
#[derive(Debug, Clone)]
pub struct WriterFacts {
    /// Workflow whose memories change.
    pub key: WorkflowKey,
    /// Retrospective that requests the mutations.
    pub retrospective: RetrospectiveId,
    /// Epoch of the retrospective.
    pub epoch: Epoch,
    /// Epoch of the most recent earlier retrospective that succeeded; `None` if there is none.
    pub previous_epoch: Option<Epoch>,
    /// Policy time of the retrospective.
    pub as_of: Timestamp,
    /// Policy of the retrospective.
    pub policy: Policy,
    /// All living memories of the workflow, and all others that the batch names or that a change in `applied`
    /// refers to. A memory of another workflow is treated as missing, because the lock of that workflow is
    /// not held.
    pub memories: Vec<Memory>,
    /// Tombstones of the workflow, including expired ones.
    pub tombstones: Vec<Tombstone>,
    /// Ids of the workflow's stored changes that were caused by this retrospective or one of its runs. These
    /// changes are not made again, and the same causes do not lead to other changes just because the memories
    /// have changed since.
    pub applied: HashSet<ChangeId>,
}

/// Result of applying a batch of mutations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedBatch {
    /// New changes, in the order in which they were made.
    pub changes: Vec<Change>,
    /// Memories that changed, in their new state.
    pub memories: Vec<Memory>,
    /// Tombstones of the memories that the batch deleted; empty for rules.
    pub tombstones: Vec<Tombstone>,
    /// Memories whose tombstones have expired. The writer purges these tombstones.
    pub expired: Vec<MemoryId>,
    /// One outcome per mutation, in the order of the batch.
    pub outcomes: Vec<MutationOutcome>,
}

/// Outcome of one mutation: what was requested, what the writer changed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutationOutcome {
    /// Id of the mutation.
    pub mutation: MutationId,
    /// Summary of the mutation.
    pub request: MutationSummary,
    /// Changes that resulted from the mutation; empty if it had no effect.
    pub changes: Vec<ChangeSummary>,
    /// Reason for the outcome, in one sentence.
    pub reason: String,
}

/// Short summary of a mutation, for reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutationSummary {
    /// Kind of the mutation, such as `observe` or `credit`.
    pub kind: String,
    /// Run that led to the mutation; `None` if no single run did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Subject of the mutation: title of the observed lesson, id of the memory (with the verdict for a
    /// credit), withdrawn remark, or description of the memories.
    pub about: String,
}

/// Short summary of one change that resulted from a mutation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeSummary {
    /// Id of the change.
    pub change: ChangeId,
    /// Kind of the change, such as `created` or `reweighted`.
    pub kind: String,
    /// Memory that changed.
    pub memory: MemoryId,
}

/// Decides the effects of a batch of mutations. This is a pure function: the same facts and batch give the
/// same changes, byte for byte.
pub fn apply_mutations(facts: WriterFacts, batch: &[Mutation], embedder: &dyn Embedder) -> AppliedBatch {
    let mut writer = MemoryWriter::new(facts, batch, embedder);
    for (row, mutation) in batch.iter().enumerate() {
        match &mutation.request {
            MutationKind::Observe { run, no_lesson: Some(why), .. } => {
                writer.explain_outcome(row, why.describe(run))
            }
            MutationKind::Observe { memory, run, finding, .. } => {
                writer.apply_observation(row, *memory, run, finding)
            }
            MutationKind::Contradict { memory, run, step, subject, reason, .. } => {
                writer.apply_contradiction(row, *memory, run, step, subject, reason);
            }
            MutationKind::Credit { memory, run, verdict, read, reason } => {
                writer.apply_credit(row, *memory, run, *verdict, *read, reason);
            }
            MutationKind::Sweep => writer.sweep_memories(row),
        }
    }
    writer.into_applied()
}

/// State of one [`apply_mutations`] call. The methods for observations are in `observe.rs`, those for weights
/// in `weigh.rs`.
pub(super) struct MemoryWriter<'e> {
    pub(super) facts: WriterFacts,
    pub(super) vectors: VectorCache<'e>,
    pub(super) memories: BTreeMap<MemoryId, Memory>,
    pub(super) live_tombstones: Vec<Tombstone>,
    /// Ids of the changes made by this call. Those of earlier calls are in `facts.applied`.
    made: HashSet<ChangeId>,
    /// Memories whose lessons were observed in a run of this retrospective.
    pub(super) observed: BTreeSet<MemoryId>,
    /// Verdicts of this retrospective by memory. Credits and contradictions add to them, and the sweep
    /// applies them.
    pub(super) accounts: BTreeMap<MemoryId, MemoryAccount>,
    touched: BTreeSet<MemoryId>,
    new_tombstones: Vec<Tombstone>,
    changes: Vec<Change>,
    outcomes: Vec<MutationOutcome>,
}

impl<'e> MemoryWriter<'e> {
    fn new(facts: WriterFacts, batch: &[Mutation], embedder: &'e dyn Embedder) -> Self {
        // A memory of another workflow must not change here: the lock of that workflow is not held.
        let of_workflow = |memory: &&Memory| memory.scope.workflow() == Some(&facts.key.workflow);
        let memories =
            facts.memories.iter().filter(of_workflow).map(|memory| (memory.id, memory.clone())).collect();
        let live_tombstones =
            facts.tombstones.iter().filter(|stone| stone.until > facts.as_of).cloned().collect();
        let outcomes = batch
            .iter()
            .map(|mutation| MutationOutcome {
                mutation: mutation.id,
                request: summarize_mutation(&mutation.request),
                changes: Vec::new(),
                reason: String::new(),
            })
            .collect();
        Self {
            facts,
            vectors: VectorCache::new(embedder),
            memories,
            live_tombstones,
            made: HashSet::new(),
            observed: BTreeSet::new(),
            accounts: BTreeMap::new(),
            touched: BTreeSet::new(),
            new_tombstones: Vec::new(),
            changes: Vec::new(),
            outcomes,
        }
    }

    pub(super) fn run_cause(&self, run: &RunId) -> ChangeCause {
        ChangeCause::Run { workflow: self.facts.key.workflow.clone(), run: run.clone() }
    }

    pub(super) fn retrospective_cause(&self) -> ChangeCause {
        ChangeCause::Retrospective { id: self.facts.retrospective }
    }

    /// Makes a change and adds it to the outcome of the mutation at index `row`. Returns `true` if the change
    /// was made. If its effect key was used before or it is illegal for the memory, only explains that in the
    /// outcome.
    pub(super) fn make_change(
        &mut self,
        row: usize,
        memory: MemoryId,
        cause: ChangeCause,
        effect: ChangeEffect,
        reason: String,
    ) -> bool {
        let id = change_id(&self.facts.key, memory, &cause, effect.kind());
        if self.facts.applied.contains(&id) || self.made.contains(&id) {
            self.explain_outcome(row, format!("this has happened before: {reason}"));
            return false;
        }
        let change = Change {
            id,
            memory,
            cause,
            effect,
            mutation: Some(self.outcomes[row].mutation),
            retrospective: Some(self.facts.retrospective),
            epoch: Some(self.facts.epoch),
            at: self.facts.as_of,
            reason: reason.clone(),
        };
        // Folded before it is recorded, so an illegal change reaches neither the log nor the memory.
        match fold_change(self.memories.get(&memory).cloned(), &change) {
            Ok(after) => {
                if !change.effect.leaves_memory_unchanged() {
                    self.touched.insert(memory);
                }
                self.memories.extend(after.map(|after| (memory, after)));
            }
            Err(error) => {
                self.explain_outcome(row, error.to_string());
                return false;
            }
        }
        self.made.insert(id);
        self.outcomes[row].changes.push(ChangeSummary {
            change: id,
            kind: change.effect.kind().to_owned(),
            memory,
        });
        self.explain_outcome(row, reason);
        self.changes.push(change);
        true
    }

    /// Returns `true` if an earlier call made a change of one of these kinds to the memory for this cause.
    pub(super) fn was_made_before(&self, memory: MemoryId, cause: &ChangeCause, kinds: &[&str]) -> bool {
        let key = &self.facts.key;
        kinds.iter().any(|kind| self.facts.applied.contains(&change_id(key, memory, cause, kind)))
    }

    /// Deletes a memory and creates a tombstone in its scope.
    pub(super) fn delete_with_tombstone(
        &mut self,
        row: usize,
        id: MemoryId,
        cause: ChangeCause,
        reason: String,
    ) {
        let until = add_seconds(self.facts.as_of, self.facts.policy.tombstone_s);
        let tombstone = build_tombstone(&self.memories[&id], until, reason.clone());
        if self.make_change(row, id, cause, ChangeEffect::Deleted { tombstone_until: Some(until) }, reason) {
            // Later mutations of the same batch must see the tombstone.
            self.live_tombstones.push(tombstone.clone());
            self.new_tombstones.push(tombstone);
        }
    }

    /// Sets the reason in the outcome of the mutation at index `row`.
    pub(super) fn explain_outcome(&mut self, row: usize, reason: impl Into<String>) {
        self.outcomes[row].reason = reason.into();
    }

    /// Copies the outcome of the first of the mutations at the indices `rows` to the others.
    pub(super) fn copy_outcome(&mut self, rows: &[usize]) {
        let Some((first, others)) = rows.split_first() else { return };
        let (changes, reason) = (self.outcomes[*first].changes.clone(), self.outcomes[*first].reason.clone());
        for row in others {
            self.outcomes[*row].changes.clone_from(&changes);
            self.outcomes[*row].reason.clone_from(&reason);
        }
    }

    fn into_applied(self) -> AppliedBatch {
        let expired = self.facts.tombstones.iter().filter(|stone| stone.until <= self.facts.as_of);
        AppliedBatch {
            expired: expired.map(|stone| stone.memory).collect(),
            memories: self.touched.iter().map(|id| self.memories[id].clone()).collect(),
            changes: self.changes,
            tombstones: self.new_tombstones,
            outcomes: self.outcomes,
        }
    }
}

pub(super) fn summarize_mutation(request: &MutationKind) -> MutationSummary {
    let (run, about) = match request {
        MutationKind::Observe { run, finding, .. } => (Some(run.clone()), finding.title.clone()),
        MutationKind::Contradict { memory, run, .. } => (Some(run.clone()), memory.to_string()),
        MutationKind::Credit { memory, run, verdict, .. } => {
            (Some(run.clone()), format!("{memory}: {}", verdict.as_str()))
        }
        MutationKind::Sweep => (None, "every active memory".to_owned()),
    };
    MutationSummary { kind: request.as_str().to_owned(), run, about }
}

fn build_tombstone(memory: &Memory, until: Timestamp, reason: String) -> Tombstone {
    Tombstone { memory: memory.id, scope: memory.scope.clone(), lesson: memory.lesson.clone(), until, reason }
}

/// Decides the effects of deleting a memory at an operator's request: one change and one tombstone. Fails if
/// a memory with this status cannot be deleted.
pub fn delete_by_operator(
    key: &WorkflowKey,
    memory: &Memory,
    request: &str,
    reason: &str,
    as_of: Timestamp,
    policy: &Policy,
) -> Result<(Change, Memory, Tombstone), crate::memory::FoldError> {
    let cause = ChangeCause::Operator { request: request.to_owned() };
    let until = add_seconds(as_of, policy.tombstone_s);
    let change = Change {
        id: change_id(key, memory.id, &cause, "deleted"),
        memory: memory.id,
        cause,
        effect: ChangeEffect::Deleted { tombstone_until: Some(until) },
        mutation: None,
        retrospective: None,
        epoch: None,
        at: as_of,
        reason: reason.to_owned(),
    };
    let after = fold_change(Some(memory.clone()), &change)?.expect("a deletion keeps the memory");
    Ok((change, after, build_tombstone(memory, until, reason.to_owned())))
}
