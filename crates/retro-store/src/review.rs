//! The reviewer's port: what people say about pull requests, and what was decided about it.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{EventKey, ReviewBatchId, Tenant, WorkflowKey};
use retro_core::keep::Seen;
use retro_core::message::Message;
use retro_core::policy::Policy;
use retro_core::review::{
    Decided, OtherRequest, PullRequestRef, ReadRemark, Remark, RemarkKey, ReviewKey, RuleMutation,
};
use serde::{Deserialize, Serialize};

use crate::{Result, Step};

/// Requests on other pull requests that a decision is told of, the latest: what was asked again after more than so many others
/// is a new request.
pub const OTHERS_MAX: u32 = 500;

/// One pull request of a tenant: what a batch is made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PullRequestKey {
    /// The owner.
    pub tenant: Tenant,
    /// The repository and the number.
    pub pull_request: PullRequestRef,
}

/// An event that speaks of a pull request.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    /// The event's identity.
    pub event: EventKey,
    /// SHA-256 of its canonical data.
    pub content_hash: String,
    /// The pull request, of the event's tenant.
    pub pull_request: PullRequestRef,
    /// Who opened it, where the event tells.
    pub author: Option<String>,
    /// What it says; `None` for an event that only tells of the pull request.
    pub said: Option<Said>,
}

/// What an event says.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one an event, and most are remarks")]
pub enum Said {
    /// Somebody said this, says it differently now, or took it back (`deleted`, without its text), for good.
    Remark {
        /// It; without secrets.
        remark: Remark,
        /// How many 👍 it has.
        thumbs_up: u64,
        /// When, by GitHub's clock: the newest stays.
        changed_at: Timestamp,
    },
    /// A thread was resolved, or opened again.
    Thread {
        /// GitHub's id of the comment on lines that began it.
        first: u64,
        /// Whether it is resolved now.
        resolved: bool,
        /// When: the newest stays.
        at: Timestamp,
    },
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It says something new: the pull request is due after the wait.
    New,
    /// It says nothing that is not known better.
    Nothing,
    /// There are [`retro_core::review::REMARKS_MAX`] remarks already: it is not kept.
    Full,
    /// The event was taken before.
    Known,
    /// Another event was taken under this identity.
    Conflict(Seen),
}

/// Everything that is known about a pull request.
#[derive(Debug, Clone, PartialEq)]
pub struct Collected {
    /// Grows with whatever is said.
    pub revision: u64,
    /// Batches made before.
    pub rounds: u64,
    /// Who opened it, if any event told.
    pub author: Option<String>,
    /// What was said, by key, each with its number of 👍; at most [`retro_core::review::REMARKS_MAX`].
    pub remarks: Vec<(Remark, u64)>,
    /// The comments on lines whose threads are resolved, by GitHub's ids, in order.
    pub resolved: Vec<u64>,
    /// What was asked for on other pull requests of the repository, the latest first; at most [`OTHERS_MAX`].
    pub others: Vec<OtherRequest>,
}

/// What was decided about everything that was said on a pull request, as it is kept for the writer and its report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecidedReview {
    /// What it is about.
    pub review: ReviewKey,
    /// The remarks that it was decided upon.
    pub remarks: Vec<ReadRemark>,
    /// What was decided about each.
    pub decided: Vec<Decided>,
}

/// A batch for the writer.
#[derive(Debug, Clone, PartialEq)]
pub struct SettledReview {
    /// Its id.
    pub id: ReviewBatchId,
    /// The name under which the writer keeps the repository's memories.
    pub keeper: WorkflowKey,
    /// Which decision about the pull request it is, from 1.
    pub round: u64,
    /// The policy moment.
    pub as_of: Timestamp,
    /// The policy.
    pub policy: Policy,
    /// What was decided.
    pub review: DecidedReview,
    /// What is asked of memory.
    pub mutations: Vec<RuleMutation>,
    /// The remarks of which a reader made a rule's title.
    pub requests: Vec<(RemarkKey, String)>,
    /// What wakes the writer.
    pub message: Message,
}

/// Reviewing.
#[async_trait]
pub trait ReviewerStore: Send + Sync {
    /// One transaction over events, in their order: each event's identity, and what it says. Whatever is new makes its
    /// pull request due `wait_s` seconds later, unless it is due already: a review and its comments are several events,
    /// and come in any order. One entry an event.
    async fn hear(&self, heard: &[Heard], wait_s: u64) -> Result<Vec<Taken>>;

    /// Pull requests whose wait is over, the longest first. At most `limit`.
    async fn due_reviews(&self, limit: u32) -> Result<Vec<PullRequestKey>>;

    /// Everything that is known about a pull request; `None` when the tenant has no such one.
    async fn collected(&self, key: &PullRequestKey) -> Result<Option<Collected>>;

    /// One transaction: stores what was decided upon this revision, with its message, and the pull request is not due any
    /// more; `None` when there was nothing to decide upon. `AlreadyDone`, and nothing is stored, when somebody has said more
    /// since or another process was quicker.
    async fn settle_review(
        &self,
        key: &PullRequestKey,
        revision: u64,
        settled: Option<&SettledReview>,
    ) -> Result<Step>;
}
