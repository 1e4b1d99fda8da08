//! Decides, as one pure function, how a batch of mutations changes the memories of a workflow.

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

/// Stored facts on which the writer's decision about a batch depends, read under the lock of the workflow.
#[derive(Debug, Clone)]
pub struct WriterFacts {
    /// Workflow whose memories change.
    pub key: WorkflowKey,
    /// Retrospective that requests the mutations.
    pub retrospective: RetrospectiveId,
    /// Epoch of the retrospective.
    pub epoch: Epoch,
    /// Most recent earlier epoch whose retrospective succeeded; `None` if there is none.
    pub previous_epoch: Option<Epoch>,
    /// Policy moment of the retrospective.
    pub as_of: Timestamp,
    /// Policy under which the retrospective runs.
    pub policy: Policy,
    /// All memories of the workflow that are not deleted, superseded or graduated, and all others that the batch names
    /// or that a change in `applied` is about. A memory of another workflow is treated as missing, because the lock of
    /// that workflow is not held.
    pub memories: Vec<Memory>,
    /// Tombstones of the workflow, including expired ones.
    pub tombstones: Vec<Tombstone>,
    /// Ids of the stored changes of the workflow whose cause is this retrospective or one of its runs. These changes
    /// are not made again, and neither are further changes that the same causes would request because the memories have
    /// changed since.
    pub applied: HashSet<ChangeId>,
}

/// Result of applying a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedBatch {
    /// New changes, in the order in which they were made.
    pub changes: Vec<Change>,
    /// Memories that changed, in their new state.
    pub memories: Vec<Memory>,
    /// Tombstones of the memories that the batch deleted; empty for rules.
    pub tombstones: Vec<Tombstone>,
    /// Memories whose tombstones have expired, so that the writer purges the tombstones.
    pub expired: Vec<MemoryId>,
    /// Outcomes of the mutations, one for each, in the order of the batch.
    pub outcomes: Vec<MutationOutcome>,
}

/// Outcome of one mutation: what was requested, what the writer changed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutationOutcome {
    /// Id of the mutation.
    pub mutation: MutationId,
    /// Summary of what the mutation requests.
    pub asked: MutationSummary,
    /// Changes that resulted from the mutation; empty if there are none.
    pub did: Vec<ChangeSummary>,
    /// Reason for the outcome, as one sentence.
    pub why: String,
}

/// Short summary of a mutation, for reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutationSummary {
    /// Kind of the mutation, such as `observe` or `credit`.
    pub kind: String,
    /// Run that the mutation comes from; `None` if it does not come from a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Subject of the mutation: title of the observed lesson, id of the memory (with the verdict for a credit), or
    /// description of the memories.
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

/// Decides the effects of a batch. This is a pure function: the same facts and batch give the same changes, byte for
/// byte.
pub fn apply_mutations(facts: WriterFacts, batch: &[Mutation], embedder: &dyn Embedder) -> AppliedBatch {
    let mut writer = MemoryWriter::new(facts, batch, embedder);
    for (row, mutation) in batch.iter().enumerate() {
        match &mutation.ask {
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

/// State of one call of [`apply_mutations`]. The methods for observations are in `observe.rs`, those for weights in
/// `weigh.rs`.
pub(super) struct MemoryWriter<'e> {
    pub(super) facts: WriterFacts,
    pub(super) vectors: VectorCache<'e>,
    pub(super) memories: BTreeMap<MemoryId, Memory>,
    pub(super) live_tombstones: Vec<Tombstone>,
    /// Ids of the changes made by this call. Those of earlier calls are in `facts.applied`.
    made: HashSet<ChangeId>,
    /// Memories whose lessons were observed in a run of this retrospective.
    pub(super) observed: BTreeSet<MemoryId>,
    /// Verdicts of this retrospective, by the presented or contradicted memory that they are about.
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
                asked: summarize_mutation(&mutation.ask),
                did: Vec::new(),
                why: String::new(),
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

    /// Makes a change unless its effect key has already been used, and adds the change to the outcome of the mutation
    /// at index `row`. Returns whether the change was made.
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
        self.outcomes[row].did.push(ChangeSummary {
            change: id,
            kind: change.effect.kind().to_owned(),
            memory,
        });
        self.explain_outcome(row, reason);
        self.changes.push(change);
        true
    }

    /// Returns whether an earlier call that processed this retrospective or run already made a change of one of these
    /// kinds.
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
            self.live_tombstones.push(tombstone.clone());
            self.new_tombstones.push(tombstone);
        }
    }

    /// Sets the reason in the outcome of the mutation at index `row`.
    pub(super) fn explain_outcome(&mut self, row: usize, why: impl Into<String>) {
        self.outcomes[row].why = why.into();
    }

    /// Copies the outcome of the first of these mutations to the others; `rows` contains their indices.
    pub(super) fn copy_outcome(&mut self, rows: &[usize]) {
        let Some((first, others)) = rows.split_first() else { return };
        let (did, why) = (self.outcomes[*first].did.clone(), self.outcomes[*first].why.clone());
        for row in others {
            self.outcomes[*row].did.clone_from(&did);
            self.outcomes[*row].why.clone_from(&why);
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

pub(super) fn summarize_mutation(ask: &MutationKind) -> MutationSummary {
    let (run, about) = match ask {
        MutationKind::Observe { run, finding, .. } => (Some(run.clone()), finding.title.clone()),
        MutationKind::Contradict { memory, run, .. } => (Some(run.clone()), memory.to_string()),
        MutationKind::Credit { memory, run, verdict, .. } => {
            (Some(run.clone()), format!("{memory}: {}", verdict.as_str()))
        }
        MutationKind::Sweep => (None, "every active memory".to_owned()),
    };
    MutationSummary { kind: ask.as_str().to_owned(), run, about }
}

fn build_tombstone(memory: &Memory, until: Timestamp, reason: String) -> Tombstone {
    Tombstone { memory: memory.id, scope: memory.scope.clone(), lesson: memory.lesson.clone(), until, reason }
}

/// Decides the effects of an operator's deletion, which are one change caused by the request and one tombstone. Fails
/// when a memory with this status cannot be deleted.
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
