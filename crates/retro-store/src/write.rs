//! Port through which the writer changes memories. No other port changes them.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{MemoryId, ProposalId, RetrospectiveId, ReviewBatchId, Tenant, WorkflowKey};
use retro_core::learn::{
    AppliedBatch, ClosedRetrospective, ClosingFacts, PromoteError, PromoteFacts, Promotion, RuleFacts,
};
use retro_core::manual::{DecideError, DecidedProposal};
use retro_core::memory::{Change, FoldError, Memory, Tombstone};
use retro_core::message::Message;
use retro_core::outcome::{CreditFacts, OutcomeCredit, PullRequestRef};
use retro_core::review::{ReviewReport, RuleMutation};
use retro_core::similarity::MissingEmbeddings;

use crate::manual::DecideProposal;
use crate::review::DecidedReview;
use crate::{CommitResult, EmbeddingStore, MetricsStore, Result, TraceStore};

/// Decides how to close a retrospective: takes all facts about it while it is settling, and returns the effects. A
/// decision that compares by similarity may fail with [`MissingEmbeddings`]. Then nothing is stored, and the caller
/// repeats the call once the embeddings are loaded.
pub type DecideClose<'a> =
    &'a (dyn Fn(ClosingFacts) -> std::result::Result<ClosedRetrospective, MissingEmbeddings> + Send + Sync);

/// Effects of deleting a memory at a person's request.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// Change to store. A change with the same id is not stored twice.
    pub change: Change,
    /// Memory after the change, with the status deleted.
    pub memory: Memory,
    /// Tombstone that prevents a similar memory from being created.
    pub tombstone: Tombstone,
    /// Message that announces the deletion.
    pub message: Message,
}

/// The facts needed to decide about a batch of rule mutations.
#[derive(Debug, Clone)]
pub struct RuleBatchFacts {
    /// Id of the batch.
    pub id: ReviewBatchId,
    /// Decisions about the remarks of a pull request, from which the batch follows; `None` for a batch that was caused
    /// by a run or a timer.
    pub review: Option<DecidedReview>,
    /// Mutations that the batch consists of.
    pub mutations: Vec<RuleMutation>,
    /// Stored rules and tombstones that the mutations may affect.
    pub rules: RuleFacts,
}

/// Effects of applying a batch of rule mutations.
#[derive(Debug, Clone)]
pub struct ClosedRuleBatch {
    /// Changes, rules and tombstones to store.
    pub applied: AppliedBatch,
    /// Report about the reviews; `None` for a batch that does not come from a review.
    pub report: Option<ReviewReport>,
    /// Messages that announce the changes.
    pub messages: Vec<Message>,
}

/// Decides the effects of a batch of rule mutations.
pub type DecideRules<'a> =
    &'a (dyn Fn(RuleBatchFacts) -> std::result::Result<ClosedRuleBatch, MissingEmbeddings> + Send + Sync);

/// Decides the effects of a person's promotion of a rule.
pub type DecidePromotion<'a> = &'a (
        dyn Fn(
    &PromoteFacts,
) -> std::result::Result<std::result::Result<Promotion, PromoteError>, MissingEmbeddings>
            + Send
            + Sync
    );

/// Decides the effects of a person's deletion of a memory.
pub type DecideDeletion<'a> =
    &'a (dyn Fn(&WorkflowKey, &Memory) -> std::result::Result<Deletion, FoldError> + Send + Sync);

/// Decides the effects of crediting memories for the end of a pull request.
pub type DecideCredit<'a> =
    &'a (dyn Fn(&CreditFacts) -> std::result::Result<OutcomeCredit, FoldError> + Send + Sync);

/// Changes memories; the only port that does.
#[async_trait]
pub trait WriterStore: TraceStore + MetricsStore + EmbeddingStore {
    /// Closes a retrospective in one transaction under the lock of the workflow. If it is still settling, loads all
    /// facts, calls `decide`, and stores changes, memories, tombstones, report, workflow state, proposals and messages.
    /// Also stores the next retrospective if one opens, and the dead letter if this one failed. Stores all of this or
    /// nothing.
    async fn close_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        now: Timestamp,
        decide: DecideClose<'_>,
    ) -> Result<CommitResult>;

    /// Returns retrospectives that have been settling for at least `older_than_s` seconds, because their wake-up
    /// message was lost. Returns at most `limit`.
    async fn list_overdue_closings(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, RetrospectiveId)>>;

    /// Applies a batch of rule mutations in one transaction under the lock of the repository's rule scope. If the batch
    /// is still pending, loads all facts, calls `decide`, and stores changes, memories, tombstones, report and
    /// messages. Stores all of this or nothing.
    async fn close_rule_batch(
        &self,
        tenant: &Tenant,
        id: ReviewBatchId,
        decide: DecideRules<'_>,
    ) -> Result<CommitResult>;

    /// Returns rule batches that have been pending for at least `older_than_s` seconds, because their wake-up message
    /// was lost. Returns at most `limit`.
    async fn list_overdue_rule_batches(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, ReviewBatchId)>>;

    /// Promotes a rule in one transaction under the lock of the repository's rule scope. The inner error says why the
    /// rule cannot be promoted. Returns `NotFound` when the tenant has no such memory, and `AlreadyDone` when the same
    /// request promoted it before.
    async fn promote_rule(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        request: &str,
        decide: DecidePromotion<'_>,
    ) -> Result<std::result::Result<CommitResult, PromoteError>>;

    /// Credits memories for the end of a pull request, in one transaction under the lock of the workflow. Loads at most
    /// `limit` applications of memories that wait for credit, sorted by run and memory, calls `decide`, and stores
    /// changes, memories and messages. If more applications remain, one of the messages requests the next batch.
    /// Returns `AlreadyDone` when none waits.
    async fn credit_memories(
        &self,
        key: &WorkflowKey,
        pull_request: &PullRequestRef,
        limit: u32,
        decide: DecideCredit<'_>,
    ) -> Result<std::result::Result<CommitResult, FoldError>>;

    /// Returns pull requests whose credit has been due for at least `older_than_s` seconds, because the wake-up message
    /// was lost. Returns at most `limit`.
    async fn list_overdue_credits(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(WorkflowKey, PullRequestRef)>>;

    /// Deletes a memory in one transaction under the lock of the workflow. The inner error says why the memory cannot
    /// be deleted. Returns `NotFound` when the tenant has no such memory.
    async fn delete_memory(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        decide: DecideDeletion<'_>,
    ) -> Result<std::result::Result<CommitResult, FoldError>>;

    /// Decides on a proposal at a person's request, in one transaction under the lock of the workflow, and stores
    /// changes, memory, decision and messages. Of two concurrent decisions, one is stored, and the other call returns
    /// it as the inner error. Returns `None` when the tenant has no such proposal.
    async fn decide_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        decide: DecideProposal<'_>,
    ) -> Result<Option<std::result::Result<DecidedProposal, DecideError>>>;
}
