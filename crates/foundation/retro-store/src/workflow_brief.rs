//! Storage port of the brief of a workflow, which is computed once a retrospective.

use async_trait::async_trait;
use retro_core::calls::StoredSummary;
use retro_core::id::Ordinal;
use retro_core::run::RunFacts;
use serde_json::Value;

use crate::{Claim, Result, StoredBody};

/// Loads the brief of a workflow, and what it is computed from. It is stored as the journal entry
/// [`JournalStage::Briefed`](crate::JournalStage::Briefed) of the investigation that computes it.
#[async_trait]
pub trait WorkflowBriefStore: Send + Sync {
    /// Loads the brief that the first investigation of the claimed retrospective with one has journalled. Returns `None` if
    /// none has.
    async fn load_workflow_brief(&self, claim: &Claim) -> Result<Option<Value>>;

    /// Finds the facts and the body of the run with an ordinal of the claimed investigation's workflow. Returns `None` if its facts are
    /// gone.
    async fn find_run_at(&self, claim: &Claim, ordinal: Ordinal) -> Result<Option<(RunFacts, StoredBody)>>;

    /// Lists the newest call summaries of the workflow of the claimed investigation, at most `limit`, newest first.
    async fn list_newest_summaries(&self, claim: &Claim, limit: u32) -> Result<Vec<StoredSummary>>;
}
