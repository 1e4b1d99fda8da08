//! The reviewer's port: review events of pull requests, and the decisions about them.

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

/// Maximum number of requests on other pull requests that a decision considers, the latest ones. A request
/// that is repeated after more than this many others counts as new.
pub const OTHER_REQUESTS_MAX: u32 = 500;

/// Key of a tenant's pull request. Each review batch is about one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PullRequestKey {
    /// Tenant that owns the pull request.
    pub tenant: Tenant,
    /// Repository and number.
    pub pull_request: ReviewedPullRequest,
}

/// A review event of a pull request.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewEvent {
    /// Identity of the event.
    pub event: EventKey,
    /// SHA-256 of the event's canonical data.
    pub content_hash: String,
    /// Pull request, of the event's tenant.
    pub pull_request: ReviewedPullRequest,
    /// Author of the pull request, if the event names one.
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
        /// Remark, with secrets redacted.
        remark: Remark,
        /// Number of 👍 reactions.
        thumbs_up: u64,
        /// Time of the change, by GitHub's clock. The newest change wins.
        changed_at: Timestamp,
    },
    /// A thread was resolved or reopened.
    Thread {
        /// GitHub's id of the line comment that began the thread.
        first_comment: u64,
        /// `true` when the thread is resolved.
        resolved: bool,
        /// Time of the change. The newest change wins.
        at: Timestamp,
    },
}

/// Outcome of recording a review event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReviewEventResult {
    /// The event had new content. The pull request becomes due after the wait.
    Recorded,
    /// The event contained nothing newer than the stored state.
    Unchanged,
    /// The pull request already has [`retro_core::review::REMARKS_MAX`] remarks; the event was dropped.
    LimitReached,
    /// The event was recorded before.
    Duplicate,
    /// Another event with the same identity was recorded before.
    Conflict(SeenContent),
}

/// Everything stored about the reviews of a pull request.
#[derive(Debug, Clone, PartialEq)]
pub struct PullRequestReviews {
    /// Revision, which grows with each new event.
    pub revision: u64,
    /// Number of earlier batches.
    pub rounds: u64,
    /// Author of the pull request, if an event named one.
    pub author: Option<String>,
    /// Remarks by key, each with its number of 👍 reactions; at most [`retro_core::review::REMARKS_MAX`].
    pub remarks: Vec<(Remark, u64)>,
    /// GitHub's ids of the line comments whose threads are resolved, in order.
    pub resolved_threads: Vec<u64>,
    /// Requests on other pull requests of the repository, the latest first; at most [`OTHER_REQUESTS_MAX`].
    pub other_requests: Vec<OtherRequest>,
}

/// Decisions about all remarks of a pull request, stored for the writer and its report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecidedReview {
    /// Pull request and round.
    pub review: ReviewKey,
    /// Remarks on which the decisions are based.
    pub remarks: Vec<ReadRemark>,
    /// Decision about each remark.
    pub decided: Vec<DecidedRemark>,
}

/// A review batch to be stored for the writer.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReviewBatch {
    /// Id of the batch.
    pub id: ReviewBatchId,
    /// Scope under which the writer stores the repository's rules.
    pub rule_scope: WorkflowKey,
    /// Number of the decision about the pull request, from 1.
    pub round: u64,
    /// Policy time of the decision.
    pub as_of: Timestamp,
    /// Policy that was in force.
    pub policy: Policy,
    /// Decisions about the remarks.
    pub review: DecidedReview,
    /// Mutations for the writer.
    pub mutations: Vec<RuleMutation>,
    /// Remarks that became a rule, each with the rule's title.
    pub requests: Vec<(RemarkKey, String)>,
    /// Message that wakes the writer.
    pub message: Message,
}

/// Stores review events and decisions.
#[async_trait]
pub trait ReviewerStore: Send + Sync {
    /// Records events with their identities in one transaction, in order. New content makes its pull request due
    /// `wait_s` seconds later, unless it is due already: a review and its comments are separate events that arrive
    /// in any order. Returns one result per event.
    async fn record_events(&self, events: &[ReviewEvent], wait_s: u64) -> Result<Vec<ReviewEventResult>>;

    /// Returns pull requests whose wait is over, the longest due first. At most `limit`.
    async fn list_due_reviews(&self, limit: u32) -> Result<Vec<PullRequestKey>>;

    /// Returns everything stored about the reviews of a pull request; `None` when the tenant has no such one.
    async fn find_pull_request_reviews(&self, key: &PullRequestKey) -> Result<Option<PullRequestReviews>>;

    /// Stores the decision about this revision with its message in one transaction, so that the pull request
    /// is no longer due; `settled` is `None` when there was nothing to decide. Returns `AlreadyDone` and
    /// stores nothing when a new event has arrived since then or another process was faster.
    async fn commit_review(
        &self,
        key: &PullRequestKey,
        revision: u64,
        settled: Option<&NewReviewBatch>,
    ) -> Result<CommitResult>;
}
