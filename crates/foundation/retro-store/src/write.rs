//! Storage port of the writer, the only port that changes memories.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{MemoryId, ProposalId, RetrospectiveId, ReviewBatchId, Tenant, WorkflowKey};
use retro_core::learn::{
    AddedMemory, AddedRule, AdditionError, AdditionFacts, ClosedRetrospective, ClosingFacts, DecidedMemory,
    FeedbackChanges, LessonSaving, MemoryDecisionError, MemoryDecisionFacts, PromoteError, PromoteFacts,
    RuleAddition, RuleAdditionError, RuleAdditionFacts, RuleChanges, RuleFacts, SaveError, SaveFacts,
    SavedLesson, WrittenMemory,
};
use retro_core::manual::{DecideError, DecidedProposal, ProposalFacts};
use retro_core::memory::{AppliedBatch, Change, FoldError, Memory, Tombstone};
use retro_core::message::Message;
use retro_core::outcome::{CreditFacts, OutcomeCredit};
use retro_core::pull_request::PullRequestRef;
use retro_core::review::{ReviewReport, RuleMutation};
use retro_core::similarity::ComparesTexts;

use crate::manual::DecideProposal;
use crate::review::DecidedReview;
use crate::{CommitResult, Decision, EmbeddingStore, MetricsStore, Result, TraceStore};

/// Callback that decides the effects of closing a settling retrospective.
pub type DecideClose<'a> = &'a (dyn Fn(ClosingFacts) -> Decision<ClosedRetrospective> + Send + Sync);

/// Effects of an operator's deletion of a memory.
#[derive(Debug, Clone)]
pub struct Deletion {
    /// Change to append. A change whose id is already stored is ignored.
    pub change: Change,
    /// Memory after the change, in status deleted.
    pub memory: Memory,
    /// Tombstone that blocks similar memories.
    pub tombstone: Tombstone,
    /// Message that announces the deletion.
    pub message: Message,
}

/// Effects of an operator's release of a memory from quarantine.
#[derive(Debug, Clone)]
pub struct Release {
    /// Change to append. A change whose id is already stored is ignored.
    pub change: Change,
    /// Memory after the change.
    pub memory: Memory,
    /// Message that announces the release.
    pub message: Message,
}

/// Stored facts from which a batch of rule mutations is decided.
#[derive(Debug, Clone)]
pub struct RuleBatchFacts {
    /// Id of the batch.
    pub id: ReviewBatchId,
    /// Decisions about the remarks that caused the batch; `None` for a batch caused by a run or a timer.
    pub review: Option<DecidedReview>,
    /// Mutations of the batch.
    pub mutations: Vec<RuleMutation>,
    /// Rules and tombstones that the mutations may affect.
    pub rules: RuleFacts,
}

impl ComparesTexts for RuleBatchFacts {
    fn texts_to_compare(&self) -> Vec<String> {
        self.rules.texts_to_compare(&self.mutations)
    }
}

/// Effects of applying a batch of rule mutations.
#[derive(Debug, Clone)]
pub struct ClosedRuleBatch {
    /// Changes, rules and tombstones to store.
    pub applied: AppliedBatch,
    /// Report about the review; `None` for a batch that was not caused by a review.
    pub report: Option<ReviewReport>,
    /// What becomes of the waiting feedback on the rules.
    pub feedback: FeedbackChanges,
    /// Messages that announce the changes.
    pub messages: Vec<Message>,
}

/// Callback that decides the effects of a batch of rule mutations.
pub type DecideRules<'a> = &'a (dyn Fn(RuleBatchFacts) -> Decision<ClosedRuleBatch> + Send + Sync);

/// Callback that decides the effects of promoting a rule. The inner error is the reason for a refusal.
pub type DecidePromotion<'a> =
    &'a (dyn Fn(&PromoteFacts) -> Decision<std::result::Result<RuleChanges, PromoteError>> + Send + Sync);

/// Callback that decides the effects of adding a rule that a person asks for. The inner error is the reason for a
/// refusal.
pub type DecideRuleAddition<'a> = &'a (
        dyn Fn(&RuleAdditionFacts) -> Decision<std::result::Result<AddedRule, RuleAdditionError>>
            + Send
            + Sync
    );

/// Callback that decides the effects of deleting a memory.
pub type DecideDeletion<'a> =
    &'a (dyn Fn(&WorkflowKey, &Memory) -> std::result::Result<Deletion, FoldError> + Send + Sync);

/// Callback that decides the effects of releasing a memory from quarantine.
pub type DecideRelease<'a> =
    &'a (dyn Fn(&WorkflowKey, &Memory) -> std::result::Result<Release, FoldError> + Send + Sync);

/// Callback that decides what a person asks of one memory. The error is the reason for a refusal.
pub type DecideMemory<'a> = &'a (
        dyn Fn(&MemoryDecisionFacts) -> std::result::Result<DecidedMemory, MemoryDecisionError> + Send + Sync
    );

/// Callback that decides the effects of adding a memory that a person wrote. The inner error is the reason for a
/// refusal.
pub type DecideAddition<'a> =
    &'a (dyn Fn(&AdditionFacts) -> Decision<std::result::Result<AddedMemory, AdditionError>> + Send + Sync);

/// Callback that decides the effects of saving a lesson. The inner error is the reason for a refusal.
pub type DecideSave<'a> =
    &'a (dyn Fn(&SaveFacts) -> Decision<std::result::Result<LessonSaving, SaveError>> + Send + Sync);

/// Callback that decides the effects of crediting memories for the outcome of a pull request.
pub type DecideCredit<'a> =
    &'a (dyn Fn(&CreditFacts) -> std::result::Result<OutcomeCredit, FoldError> + Send + Sync);

/// Applies decided changes to memories and rules.
#[async_trait]
pub trait WriterStore: TraceStore + MetricsStore + EmbeddingStore {
    /// Loads the facts for closing a retrospective from one snapshot, without a lock. They tell which texts the
    /// decision may compare. Returns `None` if the tenant has no such retrospective that is settling.
    async fn load_closing_facts(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Option<ClosingFacts>>;

    /// Closes a retrospective in one transaction under the workflow lock.
    ///
    /// If the retrospective is still settling, loads all facts, calls `decide`, and stores changes, memories,
    /// tombstones, report, workflow state, proposals and messages, the next retrospective if one opens, and
    /// the dead letter if this retrospective failed. Stores nothing if `decide` makes no decision.
    async fn close_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        now: Timestamp,
        decide: DecideClose<'_>,
    ) -> Result<Decision<CommitResult>>;

    /// Returns at most `limit` retrospectives that have been settling for at least `older_than_s` seconds, so
    /// their wake-up messages are presumed lost.
    async fn list_overdue_closings(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, RetrospectiveId)>>;

    /// Loads the facts for applying a batch of rule mutations from one snapshot, without a lock. They tell which
    /// texts the decision may compare; the use counts do not include the runs of the batch. Returns `None` if
    /// the tenant has no such batch that is pending.
    async fn load_rule_batch_facts(
        &self,
        tenant: &Tenant,
        id: ReviewBatchId,
    ) -> Result<Option<RuleBatchFacts>>;

    /// Applies a batch of rule mutations in one transaction under the lock of the repository's rule scope. If
    /// the batch is still pending, loads all facts, calls `decide`, and stores changes, memories, tombstones,
    /// report and messages. Stores nothing if `decide` makes no decision.
    async fn close_rule_batch(
        &self,
        tenant: &Tenant,
        id: ReviewBatchId,
        decide: DecideRules<'_>,
    ) -> Result<Decision<CommitResult>>;

    /// Returns at most `limit` rule batches that have been pending for at least `older_than_s` seconds, so
    /// their wake-up messages are presumed lost.
    async fn list_overdue_rule_batches(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, ReviewBatchId)>>;

    /// Loads the facts for promoting a rule from one snapshot, without a lock. They tell which texts the decision
    /// may compare. Returns `None` if the tenant has no such memory.
    async fn load_promote_facts(&self, tenant: &Tenant, id: MemoryId) -> Result<Option<PromoteFacts>>;

    /// Promotes a rule in one transaction under the lock of the repository's rule scope.
    ///
    /// Returns `NotFound` if the tenant has no such memory and `AlreadyDone` if `request` has already
    /// promoted it. Stores nothing if `decide` makes no decision. The innermost error is the reason why the rule
    /// cannot be promoted.
    async fn promote_rule(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        request: &str,
        decide: DecidePromotion<'_>,
    ) -> Result<Decision<std::result::Result<CommitResult, PromoteError>>>;

    /// Loads the facts for adding a rule that a person asks for from one snapshot, without a lock. They tell which
    /// texts the decision may compare. The repository may be unknown. Returns `None` if the rule shall come from a
    /// remark that the tenant does not have, or that its author has deleted.
    async fn load_rule_addition_facts(
        &self,
        tenant: &Tenant,
        addition: &RuleAddition,
    ) -> Result<Option<RuleAdditionFacts>>;

    /// Adds a rule that a person asks for, in one transaction under the lock of the repository's rule scope, and stores
    /// changes, memories and messages. Stores nothing if `decide` makes no decision or no change. Returns `None` if
    /// [`load_rule_addition_facts`](Self::load_rule_addition_facts) does. The innermost error is the reason why nothing
    /// was added.
    async fn add_rule(
        &self,
        tenant: &Tenant,
        addition: &RuleAddition,
        decide: DecideRuleAddition<'_>,
    ) -> Result<Decision<Option<std::result::Result<AddedRule, RuleAdditionError>>>>;

    /// Credits memories for the outcome of a pull request, in one transaction under the workflow lock.
    ///
    /// Loads at most `limit` uncredited memory applications, sorted by run and memory, calls `decide`, and
    /// stores changes, memories and messages. If more applications remain, one of the messages requests the
    /// next batch. Returns `AlreadyDone` if no credit is due. The inner error is that of `decide`.
    async fn credit_memories(
        &self,
        key: &WorkflowKey,
        pull_request: &PullRequestRef,
        limit: u32,
        decide: DecideCredit<'_>,
    ) -> Result<std::result::Result<CommitResult, FoldError>>;

    /// Returns at most `limit` pull requests whose credit has been due for at least `older_than_s` seconds,
    /// so their wake-up messages are presumed lost.
    async fn list_overdue_credits(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(WorkflowKey, PullRequestRef)>>;

    /// Deletes a memory in one transaction under the workflow lock. Returns `NotFound` if the tenant has no
    /// such memory. The inner error is the reason why the memory cannot be deleted.
    async fn delete_memory(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        decide: DecideDeletion<'_>,
    ) -> Result<std::result::Result<CommitResult, FoldError>>;

    /// Releases a memory from quarantine in one transaction under the workflow lock; for a rule, under the lock of
    /// the repository's rule scope. Returns `NotFound` if the tenant has no such memory and `AlreadyDone` if the
    /// same request has already released it. The inner error is the reason why the memory cannot be released,
    /// such as that it is not held.
    async fn release_memory(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        decide: DecideRelease<'_>,
    ) -> Result<std::result::Result<CommitResult, FoldError>>;

    /// Decides a memory or a rule at a person's request, in one transaction under the lock of its workflow or rule
    /// scope. Loads the facts, calls `decide`, and stores changes, memory and messages, and deletes the tombstone if
    /// it is lifted. Returns `NotFound` if the tenant has no such memory and `AlreadyDone` if `decide` makes no
    /// change. The inner error is that of `decide`.
    async fn decide_memory(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        decide: DecideMemory<'_>,
    ) -> Result<std::result::Result<CommitResult, MemoryDecisionError>>;

    /// Loads the facts for adding a memory that a person wrote from one snapshot, without a lock. They tell which
    /// texts the decision may compare. The workflow may be unknown.
    async fn load_addition_facts(&self, key: &WorkflowKey, written: &WrittenMemory) -> Result<AdditionFacts>;

    /// Adds a memory that a person wrote in one transaction under the workflow lock, and stores changes, memory and
    /// messages. Stores nothing if `decide` makes no decision or no change. The innermost error is the reason why
    /// nothing was added.
    async fn add_memory(
        &self,
        key: &WorkflowKey,
        written: &WrittenMemory,
        decide: DecideAddition<'_>,
    ) -> Result<Decision<std::result::Result<AddedMemory, AdditionError>>>;

    /// Loads the facts for saving a lesson from one snapshot, without a lock. They tell which texts the decision may
    /// compare. The workflow may be unknown.
    async fn load_save_facts(&self, key: &WorkflowKey, saved: &SavedLesson) -> Result<SaveFacts>;

    /// Saves a lesson that an agent states, in one transaction under the workflow lock, and stores changes, memory and
    /// messages. Stores nothing if `decide` makes no decision or no change. The innermost error is the reason why
    /// nothing was saved.
    async fn save_lesson(
        &self,
        key: &WorkflowKey,
        saved: &SavedLesson,
        decide: DecideSave<'_>,
    ) -> Result<Decision<std::result::Result<LessonSaving, SaveError>>>;

    /// Loads the facts for deciding a proposal from one snapshot, without a lock. They tell which texts the
    /// decision may compare. Returns `None` if the tenant has no such proposal.
    async fn load_proposal_facts(&self, tenant: &Tenant, id: ProposalId) -> Result<Option<ProposalFacts>>;

    /// Accepts or refuses a proposal in one transaction under the workflow lock, and stores changes, memory,
    /// decision and messages. The first of two concurrent decisions wins; the second call returns it in the
    /// innermost error. Returns `None` if the tenant has no such proposal. Stores nothing if `decide` makes no
    /// decision.
    async fn decide_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        decide: DecideProposal<'_>,
    ) -> Result<Decision<Option<std::result::Result<DecidedProposal, DecideError>>>>;
}
