//! Storage port of `retro verify`, which reads the whole database page by page.
//!
//! Each page is read in one transaction, so it is consistent despite concurrent writes. Pagination is by key
//! rather than by offset, so rows added or removed between two pages neither hide nor repeat other rows.

use async_trait::async_trait;
use retro_core::id::{MemoryId, Ordinal, RunId, Tenant, WorkflowKey};
use retro_core::memory::{Change, Memory, Tombstone};
use retro_core::report::Report;
use retro_core::retrospective::{Retrospective, RetrospectiveState, WorkflowState};

use crate::{FeedbackRow, ProposalRow, Result};

/// Consistent snapshot of a workflow's state, ordinals and windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRecords {
    /// Key of the workflow, or of the rule scope of a repository.
    pub key: WorkflowKey,
    /// Stored state of the workflow.
    pub state: WorkflowState,
    /// Number of stored runs, counted or not; 0 for a rule scope.
    pub recorded: u64,
    /// Summary of the ordinals assigned to the workflow's runs.
    pub ordinals: OrdinalSummary,
    /// Windows of the automatic retrospectives, sorted by epoch.
    pub windows: Vec<WindowRow>,
}

/// Summary of the ordinals of a workflow's runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrdinalSummary {
    /// Number of runs that have an ordinal.
    pub assigned: u64,
    /// First gap, as (expected, found) ordinals; `None` if there is no gap.
    pub first_gap: Option<(Ordinal, Ordinal)>,
}

/// Window and state of an automatic retrospective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowRow {
    /// Epoch of the retrospective within the workflow.
    pub epoch: u64,
    /// First ordinal of the window.
    pub first: Ordinal,
    /// Last ordinal of the window.
    pub last: Ordinal,
    /// State of the retrospective.
    pub state: RetrospectiveState,
}

/// A retrospective with everything that `retro verify` compares with it.
#[derive(Debug, Clone)]
pub struct RetrospectiveRecords {
    /// Stored retrospective.
    pub retrospective: Retrospective,
    /// Report of the retrospective; `None` if none is stored.
    pub report: Option<Report>,
    /// Changes whose origin is this retrospective, oldest first.
    pub changes: Vec<Change>,
    /// Proposals in report order; empty for an automatic retrospective.
    pub proposals: Vec<ProposalRow>,
}

/// Page of retrospectives, sorted by workflow and epoch.
#[derive(Debug, Clone)]
pub struct RetrospectivePage {
    /// Retrospectives of the page.
    pub items: Vec<RetrospectiveRecords>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<RetrospectiveCursor>,
}

/// Pagination cursor: the next page starts after this retrospective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrospectiveCursor {
    /// Workflow of the retrospective.
    pub key: WorkflowKey,
    /// Stored epoch of the retrospective, which is negative for a manual one.
    pub epoch: i64,
}

/// Rows of one memory in the memory, change, tombstone and feedback tables.
#[derive(Debug, Clone)]
pub struct MemoryRecords {
    /// Tenant that owns the memory.
    pub tenant: Tenant,
    /// Id of the memory.
    pub id: MemoryId,
    /// Row of the memory table with its owning workflow; `None` if the table has no such row.
    pub stored: Option<(WorkflowKey, Memory)>,
    /// Changes with the workflow under which each is stored, oldest first.
    pub changes: Vec<(WorkflowKey, Change)>,
    /// Tombstone with the workflow under which it is stored; `None` if there is none.
    pub tombstone: Option<(WorkflowKey, Tombstone)>,
    /// Feedback on the memory, sorted by id.
    pub feedback: Vec<FeedbackRow>,
}

/// Reads the data of all tenants page by page, so `retro verify` can check it.
#[async_trait]
pub trait VerifyStore: Send + Sync {
    /// Returns at most `limit` workflows after `after`, sorted by key. A shorter page is the last one.
    async fn list_workflow_records(
        &self,
        after: Option<&WorkflowKey>,
        limit: u32,
    ) -> Result<Vec<WorkflowRecords>>;
    /// Returns the page of at most `limit` retrospectives after `after`, including manual ones.
    async fn list_retrospective_records(
        &self,
        after: Option<&RetrospectiveCursor>,
        limit: u32,
    ) -> Result<RetrospectivePage>;
    /// Returns at most `limit` memories after `after`, sorted by tenant and id. Includes every memory with a
    /// row in at least one of the memory, change and tombstone tables. A shorter page is the last one.
    async fn list_memory_records(
        &self,
        after: Option<(&Tenant, MemoryId)>,
        limit: u32,
    ) -> Result<Vec<MemoryRecords>>;
    /// Returns the subset of `runs` that are not counted in the workflow.
    async fn find_uncounted_runs(&self, key: &WorkflowKey, runs: &[RunId]) -> Result<Vec<RunId>>;
}
