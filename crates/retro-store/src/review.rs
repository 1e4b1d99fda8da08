//! Port of the reviewer, which stores review events of pull requests and the decisions about them.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{EventKey, ReviewBatchId, Tenant, WorkflowKey};
use retro_core::message::Message;
use retro_core::policy::Policy;
use retro_core::retention::SeenContent;
use retro_core::review::{
    DecidedRemark, OtherRequest, ReadRemark, Remark, RemarkKey, ReviewKey, ReviewedPullRequest, RuleMutation,
};
use serde::{Deserialize, Serialize};

use crate::{CommitResult, Result};

/// Maximum number of requests on other pull requests that a decision considers. The latest ones are considered, so a
/// request that is repeated after more than this many others counts as new.
pub const OTHER_REQUESTS_MAX: u32 = 500;

/// Identifies a pull request of a tenant. Each review batch is about one pull request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PullRequestKey {
    /// Tenant to which the pull request belongs.
    pub tenant: Tenant,
    /// Repository and number of the pull request.
    pub pull_request: ReviewedPullRequest,
}

/// An event about the review of a pull request.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewEvent {
    /// Identity of the event.
    pub event: EventKey,
    /// SHA-256 of the event's canonical data, by which two events with one identity are compared.
    pub content_hash: String,
    /// Pull request that the event is about. It belongs to the event's tenant.
    pub pull_request: ReviewedPullRequest,
    /// Author of the pull request; `None` when the event does not name one.
    pub author: Option<String>,
    /// Content of the event; `None` for an event that only describes the pull request.
    pub kind: Option<ReviewEventKind>,
}

/// Content of a review event.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one per event, and most are remarks")]
pub enum ReviewEventKind {
    /// A remark was made, edited or deleted. A deleted remark comes without its text and stays deleted.
    Remark {
        /// The remark, with secrets redacted.
        remark: Remark,
        /// Number of 👍 reactions to the remark.
        thumbs_up: u64,
        /// Time of the change to the remark, by GitHub's clock. The newest change wins.
        changed_at: Timestamp,
    },
    /// A thread was resolved or reopened.
    Thread {
        /// GitHub's id of the line comment that began the thread.
        first_comment: u64,
        /// `true` when the thread was resolved, `false` when it was reopened.
        resolved: bool,
        /// Time of the change to the thread. The newest change wins.
        at: Timestamp,
    },
}

/// Outcome of recording a review event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReviewEventResult {
    /// The event had new content and was stored. A decision about the pull request is due after the wait.
    Recorded,
    /// The event contained nothing newer than the stored state.
    Unchanged,
    /// The pull request already has [`retro_core::review::REMARKS_MAX`] remarks; the event was dropped.
    LimitReached,
    /// The same event was recorded before. Nothing changed.
    Duplicate,
    /// Another event with the same identity was recorded before. Holds what is stored about that event.
    Conflict(SeenContent),
}

/// All stored facts about the reviews of a pull request.
#[derive(Debug, Clone, PartialEq)]
pub struct PullRequestReviews {
    /// Revision of the facts, which increases with each event that has new content.
    pub revision: u64,
    /// Number of earlier review batches about the pull request.
    pub rounds: u64,
    /// Author of the pull request; `None` when no event named one.
    pub author: Option<String>,
    /// Remarks sorted by key, each with its number of 👍 reactions; at most [`retro_core::review::REMARKS_MAX`].
    pub remarks: Vec<(Remark, u64)>,
    /// GitHub's ids of the line comments that began the resolved threads, in sorted order.
    pub resolved_threads: Vec<u64>,
    /// Requests on other pull requests of the repository, at most [`OTHER_REQUESTS_MAX`]. The latest request comes
    /// first.
    pub other_requests: Vec<OtherRequest>,
}

/// Decisions about all remarks of a pull request, which the writer uses for its report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecidedReview {
    /// Key of the decided remarks: all remarks on the pull request, or those of one review.
    pub review: ReviewKey,
    /// Remarks on which the decisions are based.
    pub remarks: Vec<ReadRemark>,
    /// One decision about each remark.
    pub decided: Vec<DecidedRemark>,
}

/// A review batch to be stored for the writer.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReviewBatch {
    /// Id of the batch.
    pub id: ReviewBatchId,
    /// Scope under which the writer stores the repository's rules.
    pub rule_scope: WorkflowKey,
    /// Number of the batch among those about the pull request, from 1.
    pub round: u64,
    /// Policy time at which the decision was made.
    pub as_of: Timestamp,
    /// Policy that was in force when the decision was made.
    pub policy: Policy,
    /// Decisions about the remarks.
    pub review: DecidedReview,
    /// Mutations of rules that the writer applies.
    pub mutations: Vec<RuleMutation>,
    /// Remarks that became a rule, each with the title of the rule.
    pub requests: Vec<(RemarkKey, String)>,
    /// Message that wakes the writer.
    pub message: Message,
}

/// Stores review events and decisions.
#[async_trait]
pub trait ReviewerStore: Send + Sync {
    /// Records events with their identities in one transaction, in order. New content makes a decision about its pull
    /// request due `wait_s` seconds later, unless it is due already. The wait is needed because a review and its
    /// comments are separate events that arrive in any order. Returns one result per event.
    async fn record_events(&self, events: &[ReviewEvent], wait_s: u64) -> Result<Vec<ReviewEventResult>>;

    /// Returns pull requests whose wait is over, at most `limit`. Those that have been due longest come first.
    async fn list_due_reviews(&self, limit: u32) -> Result<Vec<PullRequestKey>>;

    /// Returns all stored facts about the reviews of a pull request; `None` when the tenant has no such pull request.
    async fn find_pull_request_reviews(&self, key: &PullRequestKey) -> Result<Option<PullRequestReviews>>;

    /// Stores the decision about this revision and its message in one transaction, so that the pull request is no
    /// longer due. `settled` is `None` when there was nothing to decide. Returns `AlreadyDone` and stores nothing when
    /// the revision is outdated or another process has already decided about it.
    async fn commit_review(
        &self,
        key: &PullRequestKey,
        revision: u64,
        settled: Option<&NewReviewBatch>,
    ) -> Result<CommitResult>;
}
