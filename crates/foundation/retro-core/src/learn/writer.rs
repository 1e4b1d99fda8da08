//! State of the writer while it applies a batch of mutations to the memories of a workflow.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;

use super::account::MemoryAccount;
use super::feedback::WaitingFeedback;
use super::settle::{Mutation, MutationKind};
use crate::audience::Audience;
use crate::id::{ChangeId, Epoch, MemoryId, RetrospectiveId, RunId, Workflow, WorkflowKey};
use crate::matching::LessonMatcher;
use crate::memory::{
    ChangeCause, LedgerFacts, Lesson, Memory, MemoryLedger, MemoryScope, OutcomeReason, Tombstone,
};
use crate::pipeline::PipelineHash;
use crate::policy::Policy;
use crate::similarity::{ComparedLessons, Embedder, VectorCache};
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
    /// Version of the pipeline of the retrospective; `None` if it was opened by a program that stored none.
    pub pipeline: Option<PipelineHash>,
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
    /// Waiting feedback on memories of the workflow.
    pub feedback: Vec<WaitingFeedback>,
}

impl WriterFacts {
    /// Returns every text that applying the batch may compare, each once and those of the findings first.
    pub fn texts_to_compare(&self, batch: &[Mutation]) -> Vec<String> {
        let observed: Vec<(MemoryScope, Lesson)> = batch
            .iter()
            .filter_map(|mutation| match &mutation.request {
                MutationKind::Observe { finding, no_lesson: None, .. } => {
                    let (workflow, step) = (self.key.workflow.clone(), finding.step.clone());
                    let audience = Audience::of_run(finding.origin.repository.as_ref());
                    Some((MemoryScope::Step { workflow, step, audience }, Lesson::from_finding(finding)))
                }
                _ => None,
            })
            .collect();
        let mut compared = ComparedLessons::default();
        for (scope, lesson) in &observed {
            compared.add_new(scope, lesson);
        }
        for memory in &self.memories {
            compared.add_known(&memory.scope, &memory.lesson);
        }
        for tombstone in &self.tombstones {
            compared.add_known(&tombstone.scope, &tombstone.lesson);
        }
        compared.into_texts()
    }
}

/// State of one `apply_mutations` call. The methods for observations are in `observe.rs`, those for weights
/// in `weigh.rs`.
pub(super) struct MemoryWriter<'e> {
    pub(super) ledger: MemoryLedger,
    pub(super) workflow: Workflow,
    pub(super) retrospective: RetrospectiveId,
    pub(super) epoch: Epoch,
    /// Epoch of the most recent earlier retrospective that succeeded; `None` if there is none.
    pub(super) previous_epoch: Option<Epoch>,
    pub(super) as_of: Timestamp,
    pub(super) policy: Policy,
    pub(super) vectors: VectorCache<'e>,
    /// Memories whose lessons were observed in a run of this retrospective.
    pub(super) observed: BTreeSet<MemoryId>,
    /// Verdicts of this retrospective by memory. Credits and contradictions add to them, and the sweep
    /// applies them.
    pub(super) accounts: BTreeMap<MemoryId, MemoryAccount>,
    /// Memories that this batch has widened, with those that take their place: these get the verdicts.
    pub(super) successors: BTreeMap<MemoryId, MemoryId>,
}

impl<'e> MemoryWriter<'e> {
    pub(super) fn new(facts: WriterFacts, batch: &[Mutation], embedder: &'e dyn Embedder) -> Self {
        let WriterFacts {
            key,
            retrospective,
            epoch,
            previous_epoch,
            as_of,
            policy,
            pipeline,
            memories,
            tombstones,
            applied,
            feedback: _,
        } = facts;
        let workflow = key.workflow.clone();
        // A memory of another workflow must not change here: the lock of that workflow is not held.
        let of_workflow = |memory: &Memory| memory.scope.workflow() == Some(&workflow);
        let memories = memories.into_iter().filter(of_workflow).map(|memory| (memory.id, memory)).collect();
        let ledger = MemoryLedger::open(
            LedgerFacts {
                key,
                retrospective: Some((retrospective, epoch)),
                pipeline,
                as_of,
                memories,
                tombstones,
                applied,
            },
            batch.iter().map(|mutation| (mutation.id, mutation.request.summarize())),
            OutcomeReason::Last,
        );
        Self {
            ledger,
            workflow,
            retrospective,
            epoch,
            previous_epoch,
            as_of,
            policy,
            vectors: VectorCache::new(embedder),
            observed: BTreeSet::new(),
            accounts: BTreeMap::new(),
            successors: BTreeMap::new(),
        }
    }

    pub(super) fn run_cause(&self, run: &RunId) -> ChangeCause {
        ChangeCause::Run { workflow: self.workflow.clone(), run: run.clone() }
    }

    pub(super) fn retrospective_cause(&self) -> ChangeCause {
        ChangeCause::Retrospective { id: self.retrospective }
    }

    pub(super) const fn lesson_matcher(&self) -> LessonMatcher<'_, '_> {
        LessonMatcher { vectors: &self.vectors, policy: &self.policy }
    }

    /// Deletes a memory and creates a tombstone in its scope.
    pub(super) fn delete_with_tombstone(
        &mut self,
        row: usize,
        id: MemoryId,
        cause: ChangeCause,
        reason: String,
    ) {
        let until = add_seconds(self.as_of, self.policy.tombstone_s);
        self.ledger.delete_with_tombstone(row, id, cause, until, reason);
    }
}
