//! The writer's port. Nothing else changes memory.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{MemoryId, ProposalId, RetrospectiveId, ReviewBatchId, Tenant, WorkflowKey};
use retro_core::learn::{Applied, Closing, ClosingFacts, PromoteFacts, Promotion, RuleFacts, Unpromoted};
use retro_core::manual::{Decided, Undecided};
use retro_core::memory::{Change, FoldError, Memory, Tombstone};
use retro_core::message::Message;
use retro_core::outcome::{CreditFacts, Credited, PullRequestRef};
use retro_core::review::{ReviewReport, RuleMutation};
use retro_core::similar::Unready;

use crate::manual::DecideProposal;
use crate::review::DecidedReview;
use crate::{LevelStore, Result, Step, TraceStore, VectorStore};

/// What a writer decides with: everything about a settling retrospective in, its closing out. Whatever decides by similarity
/// may be [`Unready`]: then nothing is stored, and it is asked again once it has the vectors that it wants.
pub type Decide<'a> = &'a (dyn Fn(ClosingFacts) -> std::result::Result<Closing, Unready> + Send + Sync);

/// What a person's deletion does.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// The change; one with the same id is not stored twice.
    pub change: Change,
    /// The memory afterwards.
    pub memory: Memory,
    /// The tombstone.
    pub tombstone: Tombstone,
    /// The announcement.
    pub message: Message,
}

/// Everything about a batch that asks something of a repository's rules.
#[derive(Debug, Clone)]
pub struct RuleBatchFacts {
    /// The batch.
    pub id: ReviewBatchId,
    /// What was decided about the reviews of a pull request; `None` for what a run or the clock asks.
    pub review: Option<DecidedReview>,
    /// What is asked.
    pub mutations: Vec<RuleMutation>,
    /// What the writer knows.
    pub rules: RuleFacts,
}

/// What such a batch does.
#[derive(Debug, Clone)]
pub struct RulesClosed {
    /// To memory.
    pub applied: Applied,
    /// The report, of reviews.
    pub report: Option<ReviewReport>,
    /// Announcements.
    pub messages: Vec<Message>,
}

/// What such a batch is decided with.
pub type DecideRules<'a> =
    &'a (dyn Fn(RuleBatchFacts) -> std::result::Result<RulesClosed, Unready> + Send + Sync);

/// What a person's promotion of a rule is decided with.
pub type DecidePromotion<'a> = &'a (
        dyn Fn(&PromoteFacts) -> std::result::Result<std::result::Result<Promotion, Unpromoted>, Unready>
            + Send
            + Sync
    );

/// What a deletion is decided with.
pub type DecideDeletion<'a> =
    &'a (dyn Fn(&WorkflowKey, &Memory) -> std::result::Result<Deletion, FoldError> + Send + Sync);

/// What late credit is decided with.
pub type DecideCredit<'a> =
    &'a (dyn Fn(&CreditFacts) -> std::result::Result<Credited, FoldError> + Send + Sync);

/// Writing.
#[async_trait]
pub trait WriterStore: TraceStore + LevelStore + VectorStore {
    /// One transaction under the lock of the workflow: if the retrospective is still settling, loads everything,
    /// lets `decide` close it, and stores changes, memories, tombstones, report, workflow state, the next
    /// retrospective if one opens, proposals, messages, and the dead letter of a failed one. All or nothing.
    async fn close(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        now: Timestamp,
        decide: Decide<'_>,
    ) -> Result<Step>;

    /// Retrospectives that have been settling for `older_than_s` seconds: their wake-up was lost. At most `limit`.
    async fn overdue_closings(&self, older_than_s: u64, limit: u32)
    -> Result<Vec<(Tenant, RetrospectiveId)>>;

    /// One transaction under the lock of the repository's keeper: if the batch still waits, loads everything, lets `decide`
    /// apply it, and stores changes, memories, tombstones, report and messages. All or nothing.
    async fn close_rules(&self, tenant: &Tenant, id: ReviewBatchId, decide: DecideRules<'_>) -> Result<Step>;

    /// Batches of rules that have waited for `older_than_s` seconds: their wake-up was lost. At most `limit`.
    async fn overdue_rules(&self, older_than_s: u64, limit: u32) -> Result<Vec<(Tenant, ReviewBatchId)>>;

    /// One transaction under the lock of the repository's keeper: promotes a rule as `decide` says. The inner result tells
    /// why it cannot be promoted as it stands. `Unknown` when the tenant has no such memory, `AlreadyDone` when this very
    /// request promoted it before.
    async fn promote_rule(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        request: &str,
        decide: DecidePromotion<'_>,
    ) -> Result<std::result::Result<Step, Unpromoted>>;

    /// One transaction under the lock of the workflow: if memories wait for credit behind this pull request, lets `decide`
    /// credit the next of them, at most `limit` uses by run and memory, and stores changes, memories and messages; where more
    /// wait, another message for them is among these. `AlreadyDone` when nothing waits.
    async fn credit(
        &self,
        key: &WorkflowKey,
        pull_request: &PullRequestRef,
        limit: u32,
        decide: DecideCredit<'_>,
    ) -> Result<std::result::Result<Step, FoldError>>;

    /// Credits that have been waiting for `older_than_s` seconds: their wake-up was lost. At most `limit`.
    async fn overdue_credits(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(WorkflowKey, PullRequestRef)>>;

    /// One transaction under the lock of the workflow: deletes a memory as `decide` says. The inner result tells
    /// why the memory cannot be deleted as it stands. `Unknown` when the tenant has no such memory.
    async fn delete_memory(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        decide: DecideDeletion<'_>,
    ) -> Result<std::result::Result<Step, FoldError>>;

    /// One transaction under the lock of the workflow: lets a person decide about a proposal, and stores changes,
    /// memory, decision and messages. Two at once leave one decision; the other is told of it by the inner error.
    /// `None` when the tenant has no such proposal.
    async fn decide_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        decide: DecideProposal<'_>,
    ) -> Result<Option<std::result::Result<Decided, Undecided>>>;
}
