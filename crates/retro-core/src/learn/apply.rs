//! What the writer does with a batch of mutations: the policy of memory, as one plain function.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::settle::{Ask, Mutation};
use super::weigh::Account;
use crate::id::{ChangeId, Epoch, MemoryId, MutationId, RetrospectiveId, RunId, WorkflowKey};
use crate::memory::{Cause, Change, Effect, Memory, Tombstone, change_id, fold};
use crate::policy::Policy;
use crate::similar::{Embedder, Vectors};
use crate::time::after;

/// What the writer knows when it decides, read under the lock of the workflow.
#[derive(Debug, Clone)]
pub struct WriterFacts {
    /// The workflow.
    pub key: WorkflowKey,
    /// The retrospective that asks.
    pub retrospective: RetrospectiveId,
    /// Its epoch.
    pub epoch: Epoch,
    /// The last epoch before it that ended in a success.
    pub previous_epoch: Option<Epoch>,
    /// Its policy moment.
    pub as_of: Timestamp,
    /// Its policy.
    pub policy: Policy,
    /// Every memory of the workflow that is not deleted, superseded or graduated, and every other one that the
    /// batch names or that a change of `applied` is about. One of another workflow is treated like a missing one: its lock is not held.
    pub memories: Vec<Memory>,
    /// Tombstones of the workflow, expired ones included.
    pub tombstones: Vec<Tombstone>,
    /// Changes of the workflow whose cause is this retrospective or one of its runs: they never happen again, and
    /// neither does anything else that their causes would do to the memory as they have left it.
    pub applied: HashSet<ChangeId>,
}

/// What a batch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The new changes, in the order in which they happened.
    pub changes: Vec<Change>,
    /// Every memory that changed, as it is now.
    pub memories: Vec<Memory>,
    /// New tombstones.
    pub tombstones: Vec<Tombstone>,
    /// Memories whose tombstones have expired and are purged.
    pub expired: Vec<MemoryId>,
    /// One outcome a mutation, in their order.
    pub outcomes: Vec<MutationOutcome>,
}

/// What the writer did with one mutation, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutationOutcome {
    /// The mutation.
    pub mutation: MutationId,
    /// What it asked.
    pub asked: Asked,
    /// The changes it led to; none where it led to none.
    pub did: Vec<Did>,
    /// Why, in one sentence.
    pub why: String,
}

/// What a mutation asked, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// `observe`, `contradict`, `credit` or `sweep`.
    pub kind: String,
    /// The run that it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The memory that it names, or the lesson that it brings.
    pub about: String,
}

/// One change that a mutation led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Did {
    /// The change.
    pub change: ChangeId,
    /// Its kind.
    pub kind: String,
    /// The memory.
    pub memory: MemoryId,
}

/// Decides what a batch does. Pure: the same facts and batch give the same changes, byte for byte.
pub fn apply(facts: WriterFacts, batch: &[Mutation], embedder: &dyn Embedder) -> Applied {
    let mut writer = Writer::new(facts, batch, embedder);
    for (row, mutation) in batch.iter().enumerate() {
        match &mutation.ask {
            Ask::Observe { run, no_lesson: Some(why), .. } => writer.explain(row, why.reason(run)),
            Ask::Observe { memory, run, finding, .. } => writer.observe(row, *memory, run, finding),
            Ask::Contradict { memory, run, step, subject, reason, .. } => {
                writer.contradict(row, *memory, run, step, subject, reason);
            }
            Ask::Credit { memory, run, verdict, read, reason } => {
                writer.credit(row, *memory, run, *verdict, *read, reason);
            }
            Ask::Sweep => writer.sweep(row),
        }
    }
    writer.finish()
}

/// The state of one call of [`apply`]. Observing is in `observe.rs`, everything about weights in `weigh.rs`.
pub(super) struct Writer<'e> {
    pub(super) facts: WriterFacts,
    pub(super) vectors: Vectors<'e>,
    pub(super) memories: BTreeMap<MemoryId, Memory>,
    pub(super) live_tombstones: Vec<Tombstone>,
    /// Changes made by this call; those of earlier ones are in `facts.applied`.
    made: HashSet<ChangeId>,
    /// Memories that a run of this retrospective observed.
    pub(super) observed: BTreeSet<MemoryId>,
    /// What this retrospective says about each presented or contradicted memory.
    pub(super) accounts: BTreeMap<MemoryId, Account>,
    touched: BTreeSet<MemoryId>,
    new_tombstones: Vec<Tombstone>,
    changes: Vec<Change>,
    outcomes: Vec<MutationOutcome>,
}

impl<'e> Writer<'e> {
    fn new(facts: WriterFacts, batch: &[Mutation], embedder: &'e dyn Embedder) -> Self {
        let ours = |memory: &&Memory| memory.scope.workflow() == Some(&facts.key.workflow);
        let memories = facts.memories.iter().filter(ours).map(|memory| (memory.id, memory.clone())).collect();
        let live_tombstones =
            facts.tombstones.iter().filter(|stone| stone.until > facts.as_of).cloned().collect();
        let outcomes = batch
            .iter()
            .map(|mutation| MutationOutcome {
                mutation: mutation.id,
                asked: asked(&mutation.ask),
                did: Vec::new(),
                why: String::new(),
            })
            .collect();
        Self {
            facts,
            vectors: Vectors::new(embedder),
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

    pub(super) fn run_cause(&self, run: &RunId) -> Cause {
        Cause::Run { workflow: self.facts.key.workflow.clone(), run: run.clone() }
    }

    pub(super) fn retrospective_cause(&self) -> Cause {
        Cause::Retrospective { id: self.facts.retrospective }
    }

    /// Makes a change, unless one with its effect key has happened, and tells the mutation of `row`. Returns
    /// whether it was made.
    pub(super) fn make(
        &mut self,
        row: usize,
        memory: MemoryId,
        cause: Cause,
        effect: Effect,
        reason: String,
    ) -> bool {
        let id = change_id(&self.facts.key, memory, &cause, effect.kind());
        if self.facts.applied.contains(&id) || self.made.contains(&id) {
            self.explain(row, format!("this has happened before: {reason}"));
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
        match fold(self.memories.get(&memory).cloned(), &change) {
            Ok(after) => {
                if !change.effect.leaves_memory() {
                    self.touched.insert(memory);
                }
                self.memories.extend(after.map(|after| (memory, after)));
            }
            Err(error) => {
                self.explain(row, error.to_string());
                return false;
            }
        }
        self.made.insert(id);
        self.outcomes[row].did.push(Did { change: id, kind: change.effect.kind().to_owned(), memory });
        self.explain(row, reason);
        self.changes.push(change);
        true
    }

    /// Whether an earlier pass over this batch, or over this run, made one of these kinds of change.
    pub(super) fn happened_before(&self, memory: MemoryId, cause: &Cause, kinds: &[&str]) -> bool {
        let key = &self.facts.key;
        kinds.iter().any(|kind| self.facts.applied.contains(&change_id(key, memory, cause, kind)))
    }

    /// Deletes a memory and leaves a tombstone in its scope.
    pub(super) fn bury(&mut self, row: usize, id: MemoryId, cause: Cause, reason: String) {
        let until = after(self.facts.as_of, self.facts.policy.tombstone_s);
        let stone = tombstone(&self.memories[&id], until, reason.clone());
        if self.make(row, id, cause, Effect::Deleted { tombstone_until: Some(until) }, reason) {
            self.live_tombstones.push(stone.clone());
            self.new_tombstones.push(stone);
        }
    }

    /// Says why to the mutation of `row`.
    pub(super) fn explain(&mut self, row: usize, why: impl Into<String>) {
        self.outcomes[row].why = why.into();
    }

    /// Tells every mutation of `rows` what the first of them led to.
    pub(super) fn share(&mut self, rows: &[usize]) {
        let Some((first, others)) = rows.split_first() else { return };
        let (did, why) = (self.outcomes[*first].did.clone(), self.outcomes[*first].why.clone());
        for row in others {
            self.outcomes[*row].did.clone_from(&did);
            self.outcomes[*row].why.clone_from(&why);
        }
    }

    fn finish(self) -> Applied {
        let expired = self.facts.tombstones.iter().filter(|stone| stone.until <= self.facts.as_of);
        Applied {
            expired: expired.map(|stone| stone.memory).collect(),
            memories: self.touched.iter().map(|id| self.memories[id].clone()).collect(),
            changes: self.changes,
            tombstones: self.new_tombstones,
            outcomes: self.outcomes,
        }
    }
}

pub(super) fn asked(ask: &Ask) -> Asked {
    let (run, about) = match ask {
        Ask::Observe { run, finding, .. } => (Some(run.clone()), finding.title.clone()),
        Ask::Contradict { memory, run, .. } => (Some(run.clone()), memory.to_string()),
        Ask::Credit { memory, run, verdict, .. } => {
            (Some(run.clone()), format!("{memory}: {}", verdict.as_str()))
        }
        Ask::Sweep => (None, "every active memory".to_owned()),
    };
    Asked { kind: ask.kind().to_owned(), run, about }
}

fn tombstone(memory: &Memory, until: Timestamp, reason: String) -> Tombstone {
    Tombstone { memory: memory.id, scope: memory.scope.clone(), lesson: memory.lesson.clone(), until, reason }
}

/// What a person's deletion does: one change caused by the request, and a tombstone. Fails when the memory is
/// not in a state to be deleted.
pub fn delete_by_operator(
    key: &WorkflowKey,
    memory: &Memory,
    request: &str,
    reason: &str,
    as_of: Timestamp,
    policy: &Policy,
) -> Result<(Change, Memory, Tombstone), crate::memory::FoldError> {
    let cause = Cause::Operator { request: request.to_owned() };
    let until = after(as_of, policy.tombstone_s);
    let change = Change {
        id: change_id(key, memory.id, &cause, "deleted"),
        memory: memory.id,
        cause,
        effect: Effect::Deleted { tombstone_until: Some(until) },
        mutation: None,
        retrospective: None,
        epoch: None,
        at: as_of,
        reason: reason.to_owned(),
    };
    let after = fold(Some(memory.clone()), &change)?.expect("a deletion keeps its row");
    Ok((change, after, tombstone(memory, until, reason.to_owned())))
}
