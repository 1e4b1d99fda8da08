//! Storage port of feedback: what somebody says that a memory did.

use async_trait::async_trait;
use retro_core::feedback::{Feedback, FeedbackAcceptance, FeedbackFacts, FeedbackOutcome, GivenFeedback};
use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Result;

/// Maximum number of feedback entries of one memory that people are shown, newest first.
pub const FEEDBACK_SHOWN_MAX: u32 = 50;

/// Stored feedback with what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedbackRow {
    /// What was said.
    #[serde(flatten)]
    pub feedback: Feedback,
    /// What became of it; `None` while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<FeedbackOutcome>,
    /// Retrospective, or batch of rules, that settled it; `None` while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_by: Option<Uuid>,
}

/// Callback that decides if feedback is stored.
pub type DecideFeedback<'a> = &'a (dyn Fn(&FeedbackFacts) -> FeedbackAcceptance + Send + Sync);

/// Stores feedback, and lists it. The writer settles it.
#[async_trait]
pub trait FeedbackStore: Send + Sync {
    /// Stores feedback on a memory in one transaction, as `decide` says, while the memory is locked, and the
    /// number of entries of the run, if it is of one. Returns `None` if the tenant has no such memory.
    async fn record_feedback(
        &self,
        tenant: &Tenant,
        given: &GivenFeedback,
        decide: DecideFeedback<'_>,
    ) -> Result<Option<FeedbackAcceptance>>;

    /// Lists the newest feedback on a memory, newest first, at most `limit` entries.
    async fn list_memory_feedback(
        &self,
        tenant: &Tenant,
        memory: MemoryId,
        limit: u32,
    ) -> Result<Vec<FeedbackRow>>;

    /// Lists all feedback on the memories of a workflow or rule scope, sorted by id.
    async fn list_scope_feedback(&self, key: &WorkflowKey) -> Result<Vec<FeedbackRow>>;
}
