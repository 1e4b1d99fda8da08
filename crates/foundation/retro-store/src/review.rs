//! Storage port of the reviewer, which stores review events of pull requests and the decisions on their
//! remarks.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{
    EventKey, RemarkKey, ReviewBatchId, ReviewKey, ReviewedPullRequest, Tenant, WorkflowKey,
};
use retro_core::message::Message;
use retro_core::model_use::ReviewSpending;
use retro_core::pipeline::{PipelineHashes, PipelineVersion};
use retro_core::policy::Policy;
use retro_core::remark::Remark;
use retro_core::retention::SeenContent;
use retro_core::review::{DecidedRemark, OtherRequest, ReadRemark, ReviewReading, RuleMutation};
use serde::{Deserialize, Serialize};

use crate::{CommitResult, ModelCall, Result};

/// Maximum number of requests on other pull requests that a decision considers, newest first. A request
/// repeated after more than this many others counts as new.
pub const OTHER_REQUESTS_MAX: u32 = 500;

/// Key of a pull request with its tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PullRequestKey {
    /// Tenant of the repository.
    pub tenant: Tenant,
    /// Repository and number of the pull request.
    pub pull_request: ReviewedPullRequest,
}

/// Event about the review of a pull request.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewEvent {
    /// Tenant, source and id of the event.
    pub event: EventKey,
    /// SHA-256 of the event's canonical data, which distinguishes a duplicate from a conflicting event with
    /// the same identity.
    pub content_hash: String,
    /// Reviewed pull request, in the event's tenant.
    pub pull_request: ReviewedPullRequest,
    /// Author of the pull request; `None` if the event names none.
    pub author: Option<String>,
    /// Content of the event; `None` if the event only describes the pull request.
    pub kind: Option<ReviewEventKind>,
}

/// Content of a review event.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one per event, and most are remarks")]
pub enum ReviewEventKind {
    /// A remark was made, edited or deleted. A deleted remark has no text and stays deleted.
    Remark {
        /// Remark with secrets redacted.
        remark: Remark,
        /// Number of 👍 reactions to the remark.
        thumbs_up: u64,
        /// Time of the change, by GitHub's clock. The newest change wins.
        changed_at: Timestamp,
    },
    /// A thread was resolved or reopened.
    Thread {
        /// GitHub id of the line comment that started the thread.
        first_comment: u64,
        /// `true` if the thread was resolved, `false` if it was reopened.
        resolved: bool,
        /// Time of the change to the thread. The newest change wins.
        at: Timestamp,
    },
}

/// Outcome of recording a review event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReviewEventResult {
    /// The event had new content and was stored. A decision on the pull request is due after the wait.
    Recorded,
    /// The event has nothing newer than the stored state.
    Unchanged,
    /// The pull request already has [`retro_core::review::REMARKS_MAX`] remarks, so the event was dropped.
    LimitReached,
    /// The same event was stored before. Nothing changed.
    Duplicate,
    /// A different event with the same identity was stored before; contains its inbox entry. Nothing changed.
    Conflict(SeenContent),
}

/// Stored facts about the reviews of a pull request.
#[derive(Debug, Clone, PartialEq)]
pub struct PullRequestReviews {
    /// Revision of the facts, which increases with each event that has new content.
    pub revision: u64,
    /// Number of earlier review batches of the pull request.
    pub rounds: u64,
    /// Author of the pull request; `None` if no event has named one.
    pub author: Option<String>,
    /// Remarks sorted by key, each with its number of 👍 reactions; at most
    /// [`retro_core::review::REMARKS_MAX`].
    pub remarks: Vec<(Remark, u64)>,
    /// GitHub ids of the line comments that started the resolved threads, in ascending order.
    pub resolved_threads: Vec<u64>,
    /// Requests on other pull requests of the repository: first those of which a person made a rule, then the others,
    /// newest first; at most [`OTHER_REQUESTS_MAX`].
    pub other_requests: Vec<OtherRequest>,
}

/// Decisions on the remarks of a pull request, from which the writer builds its report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecidedReview {
    /// Key of the decided remarks: a whole pull request or one review.
    pub review: ReviewKey,
    /// Remarks on which the decisions are based.
    pub remarks: Vec<ReadRemark>,
    /// One decision per remark.
    pub decided: Vec<DecidedRemark>,
    /// Version of the review pipeline under which the remarks were read; `None` if an earlier version of the program decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineHashes>,
    /// How the remarks were read; `None` if an earlier version of the program decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<ReviewReading>,
}

/// Claim on the reviews of a pull request, under which a language model may be asked about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewClaim {
    /// The pull request.
    pub key: PullRequestKey,
    /// Fencing token, which only grows.
    pub token: u64,
    /// 1-based number of the decision that the claim is for.
    pub round: u64,
}

/// Call of a model about the reviews of a pull request.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewCall {
    /// Number of the decision for which it was made.
    pub round: u64,
    /// The call.
    pub call: ModelCall,
}

/// Review batch to store for the writer.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReviewBatch {
    /// Id of the batch.
    pub id: ReviewBatchId,
    /// Rule scope of the repository, under which the writer stores its rules.
    pub rule_scope: WorkflowKey,
    /// 1-based number of the batch within its pull request.
    pub round: u64,
    /// Policy time of the decision.
    pub as_of: Timestamp,
    /// Policy that was in force when the decision was made.
    pub policy: Policy,
    /// Version of the review pipeline under which the remarks were read. It is stored if it is new to the tenant.
    pub pipeline: PipelineVersion,
    /// Decisions on the remarks.
    pub review: DecidedReview,
    /// Rule mutations for the writer to apply.
    pub mutations: Vec<RuleMutation>,
    /// Remarks that became rules, each with the title of its rule.
    pub requests: Vec<(RemarkKey, String)>,
    /// Message that wakes the writer.
    pub message: Message,
}

/// Stores review events and decisions.
#[async_trait]
pub trait ReviewerStore: Send + Sync {
    /// Records events in order in one transaction, and returns one result per event. New content makes a
    /// decision on its pull request due in `wait_s` seconds, unless one is already due. The wait is needed
    /// because a review and its comments are separate events that arrive in any order.
    async fn record_events(&self, events: &[ReviewEvent], wait_s: u64) -> Result<Vec<ReviewEventResult>>;

    /// Returns at most `limit` pull requests whose decision is due and that nobody has claimed, longest overdue first.
    async fn list_due_reviews(&self, limit: u32) -> Result<Vec<PullRequestKey>>;

    /// Returns the stored facts about the reviews of a pull request; `None` if the tenant has no such pull
    /// request.
    async fn find_pull_request_reviews(&self, key: &PullRequestKey) -> Result<Option<PullRequestReviews>>;

    /// Stores the decision on a revision with its message in one transaction, after which the pull request is
    /// no longer due. `settled` is `None` if there was nothing to decide. Returns `AlreadyDone` and stores
    /// no decision if the revision is outdated or was already decided by another process. The claim ends either way.
    async fn commit_review(
        &self,
        key: &PullRequestKey,
        revision: u64,
        claim: Option<&ReviewClaim>,
        settled: Option<&NewReviewBatch>,
    ) -> Result<CommitResult>;

    /// Claims the reviews of a pull request that is due for `lease_s` seconds, by the database's clock, under a token that
    /// only grows. Returns `None` if it is not due any more, or if somebody else holds it.
    async fn claim_reviews(&self, key: &PullRequestKey, lease_s: u64) -> Result<Option<ReviewClaim>>;

    /// Extends a claim to `lease_s` seconds from now. Fails with [`StoreError::Fenced`](crate::StoreError::Fenced) if it is no
    /// longer valid.
    async fn extend_review_claim(&self, claim: &ReviewClaim, lease_s: u64) -> Result<()>;

    /// Lists the calls of models about the reviews of a pull request, in order.
    async fn list_review_calls(&self, key: &PullRequestKey) -> Result<Vec<ReviewCall>>;

    /// Stores a call. Fails with [`StoreError::Fenced`](crate::StoreError::Fenced) if the claim is no longer valid.
    async fn append_review_call(&self, claim: &ReviewClaim, call: &ModelCall) -> Result<()>;

    /// Sums what was spent on the reviews of a pull request, and by everyone since midnight UTC, by the database's clock.
    async fn load_review_spending(&self, key: &PullRequestKey) -> Result<ReviewSpending>;
}
