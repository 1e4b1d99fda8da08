//! The ledger of one batch of mutations: records each change once, folds it into its memory, and explains the
//! outcome of the mutation that requested it. The writer uses it for the memories of a workflow and for the
//! rules of a repository.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use retro_gate::Danger;
use serde::{Deserialize, Serialize};

use super::{Change, ChangeCause, ChangeEffect, Memory, Tombstone, change_id, fold_change};
use crate::gate::judge_lesson;
use crate::id::{ChangeId, Epoch, MemoryId, MutationId, RetrospectiveId, RunId, WorkflowKey};
use crate::pipeline::PipelineHash;

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

impl AppliedBatch {
    /// Returns the memories `before` the batch with its changes: changed memories in their places, followed by
    /// the new ones.
    pub(crate) fn memories_after(&self, before: &[Memory]) -> Vec<Memory> {
        let mut after = before.to_vec();
        for memory in &self.memories {
            match after.iter_mut().find(|old| old.id == memory.id) {
                Some(old) => old.clone_from(memory),
                None => after.push(memory.clone()),
            }
        }
        after
    }

    /// Returns the changes that had an effect on a memory, in order.
    pub(crate) fn effective_changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| !change.effect.leaves_memory_unchanged())
    }
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

impl MutationOutcome {
    /// Creates the outcome of a mutation that has changed nothing, for this reason.
    pub(crate) const fn without_changes(
        mutation: MutationId,
        request: MutationSummary,
        reason: String,
    ) -> Self {
        Self { mutation, request, changes: Vec::new(), reason }
    }
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

/// Facts from which a [`MemoryLedger`] starts, read under the lock of the workflow or rule scope.
pub(crate) struct LedgerFacts {
    /// Workflow or rule scope whose memories change. It is part of every effect key.
    pub(crate) key: WorkflowKey,
    /// Retrospective that requests the mutations, with its epoch; `None` if a review or a run does.
    pub(crate) retrospective: Option<(RetrospectiveId, Epoch)>,
    /// Version of the pipeline of the retrospective or review; `None` if there is none.
    pub(crate) pipeline: Option<PipelineHash>,
    /// Policy time of the batch, and the time of its changes.
    pub(crate) as_of: Timestamp,
    /// Memories that the batch may change.
    pub(crate) memories: BTreeMap<MemoryId, Memory>,
    /// Tombstones of the workflow or rule scope, including expired ones.
    pub(crate) tombstones: Vec<Tombstone>,
    /// Ids of the stored changes that are not made again.
    pub(crate) applied: HashSet<ChangeId>,
}

/// Explanation of a mutation that makes several changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeReason {
    /// The last reason replaces the earlier ones.
    Last,
    /// From the second change on, each reason is appended to the earlier ones.
    Joined,
}

/// Changes, memories and outcomes of one batch of mutations, while it is applied. A mutation is named by its
/// index in the batch, its *row*.
pub(crate) struct MemoryLedger {
    key: WorkflowKey,
    retrospective: Option<(RetrospectiveId, Epoch)>,
    pipeline: Option<PipelineHash>,
    as_of: Timestamp,
    memories: BTreeMap<MemoryId, Memory>,
    live_tombstones: Vec<Tombstone>,
    expired: Vec<MemoryId>,
    /// Ids of the changes made by earlier batches.
    applied: HashSet<ChangeId>,
    /// Ids of the changes made by this batch.
    made: HashSet<ChangeId>,
    touched: BTreeSet<MemoryId>,
    new_tombstones: Vec<Tombstone>,
    changes: Vec<Change>,
    outcome_reason: OutcomeReason,
    outcomes: Vec<MutationOutcome>,
}

impl MemoryLedger {
    /// Opens the ledger of a batch, given the id and the summary of each of its mutations in order.
    pub(crate) fn open(
        facts: LedgerFacts,
        mutations: impl Iterator<Item = (MutationId, MutationSummary)>,
        outcome_reason: OutcomeReason,
    ) -> Self {
        let LedgerFacts { key, retrospective, pipeline, as_of, memories, tombstones, applied } = facts;
        let (live_tombstones, expired): (Vec<_>, Vec<_>) =
            tombstones.into_iter().partition(|tombstone| tombstone.until > as_of);
        let outcomes = mutations
            .map(|(mutation, request)| MutationOutcome::without_changes(mutation, request, String::new()))
            .collect();
        Self {
            key,
            retrospective,
            pipeline,
            as_of,
            memories,
            live_tombstones,
            expired: expired.into_iter().map(|tombstone| tombstone.memory).collect(),
            applied,
            made: HashSet::new(),
            touched: BTreeSet::new(),
            new_tombstones: Vec::new(),
            changes: Vec::new(),
            outcome_reason,
            outcomes,
        }
    }

    /// Returns the memories with the changes made so far.
    pub(crate) const fn memories(&self) -> &BTreeMap<MemoryId, Memory> {
        &self.memories
    }

    /// Returns the tombstones that have not expired, including those of this batch.
    pub(crate) fn live_tombstones(&self) -> &[Tombstone] {
        &self.live_tombstones
    }

    /// Returns `true` if this batch changed the memory.
    pub(crate) fn has_changed(&self, memory: MemoryId) -> bool {
        self.touched.contains(&memory)
    }

    /// Returns `true` if the mutation at index `row` has led to a change.
    pub(crate) fn has_changes(&self, row: usize) -> bool {
        !self.outcomes[row].changes.is_empty()
    }

    /// Returns `true` if an earlier batch made any change for the causes of this one.
    pub(crate) fn has_earlier_changes(&self) -> bool {
        !self.applied.is_empty()
    }

    /// Makes a change and adds it to the outcome of the mutation at index `row`. Returns `true` if the change
    /// was made. If its effect key was used before or it is illegal for the memory, only explains that in the
    /// outcome.
    pub(crate) fn make_change(
        &mut self,
        row: usize,
        memory: MemoryId,
        cause: ChangeCause,
        effect: ChangeEffect,
        reason: String,
    ) -> bool {
        let change = Change {
            mutation: Some(self.outcomes[row].mutation),
            retrospective: self.retrospective.map(|(id, _)| id),
            epoch: self.retrospective.map(|(_, epoch)| epoch),
            pipeline: self.pipeline.clone(),
            ..Change::new(&self.key, memory, cause, effect, reason.clone(), self.as_of)
        };
        if self.applied.contains(&change.id) || self.made.contains(&change.id) {
            self.explain_outcome(row, format!("this has happened before: {reason}"));
            return false;
        }
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
        self.made.insert(change.id);
        self.outcomes[row].changes.push(ChangeSummary {
            change: change.id,
            kind: change.effect.kind().to_owned(),
            memory,
        });
        self.explain_outcome(row, reason);
        self.changes.push(change);
        true
    }

    /// Deletes a memory and creates a tombstone in its scope, which stands until `until`.
    pub(crate) fn delete_with_tombstone(
        &mut self,
        row: usize,
        id: MemoryId,
        cause: ChangeCause,
        until: Timestamp,
        reason: String,
    ) {
        let tombstone = Tombstone::of_memory(&self.memories[&id], until, reason.clone());
        if self.make_change(row, id, cause, ChangeEffect::Deleted { tombstone_until: Some(until) }, reason) {
            // Later mutations of the same batch must see the tombstone.
            self.live_tombstones.push(tombstone.clone());
            self.new_tombstones.push(tombstone);
        }
    }

    /// Puts the living memories into quarantine to which the gate objects now. An earlier version of the gate, or
    /// another policy, let them through. `held` contains the dangers that the policy holds.
    pub(crate) fn hold_endangering(&mut self, row: usize, cause: &ChangeCause, held: &[Danger]) {
        let open = self.memories.values().filter(|memory| {
            memory.status.is_living() && memory.quarantine.is_none() && memory.released_by.is_none()
        });
        let objections: Vec<_> = open
            .filter_map(|memory| {
                let decision = judge_lesson(&memory.scope, &memory.lesson, held);
                Some((memory.id, decision.objection()?.to_owned()))
            })
            .collect();
        for (id, why) in objections {
            self.make_change(row, id, cause.clone(), ChangeEffect::Held { why: why.clone() }, why);
        }
    }

    /// Returns `true` if this batch or an earlier one made a change of this kind to the memory for this cause.
    pub(crate) fn was_made(&self, memory: MemoryId, cause: &ChangeCause, kind: &str) -> bool {
        let id = change_id(&self.key, memory, cause, kind);
        self.applied.contains(&id) || self.made.contains(&id)
    }

    /// Returns `true` if an earlier batch made a change of one of these kinds to the memory for this cause.
    pub(crate) fn was_made_before(&self, memory: MemoryId, cause: &ChangeCause, kinds: &[&str]) -> bool {
        kinds.iter().any(|kind| self.applied.contains(&change_id(&self.key, memory, cause, kind)))
    }

    /// Explains the outcome of the mutation at index `row`.
    pub(crate) fn explain_outcome(&mut self, row: usize, reason: impl Into<String>) {
        let (outcome, reason) = (&mut self.outcomes[row], reason.into());
        // One mutation made several changes: the reason for the last one must not replace the others.
        if self.outcome_reason == OutcomeReason::Joined && outcome.changes.len() > 1 {
            outcome.reason.push_str("; ");
            outcome.reason.push_str(&reason);
        } else {
            outcome.reason = reason;
        }
    }

    /// Copies the outcome of the first of the mutations at the indices `rows` to the others.
    pub(crate) fn copy_outcome(&mut self, rows: &[usize]) {
        let Some((first, others)) = rows.split_first() else { return };
        let (changes, reason) = (self.outcomes[*first].changes.clone(), self.outcomes[*first].reason.clone());
        for row in others {
            self.outcomes[*row].changes.clone_from(&changes);
            self.outcomes[*row].reason.clone_from(&reason);
        }
    }

    /// Closes the ledger and returns the result of the batch.
    pub(crate) fn into_applied(self) -> AppliedBatch {
        AppliedBatch {
            expired: self.expired,
            memories: self.touched.iter().map(|id| self.memories[id].clone()).collect(),
            changes: self.changes,
            tombstones: self.new_tombstones,
            outcomes: self.outcomes,
        }
    }
}
