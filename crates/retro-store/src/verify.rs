//! Reads the whole database page by page, for `retro verify`.
//!
//! A page is read in one transaction, so it is consistent despite concurrent writes. Pages are keyed, not
//! numbered: rows that are added or removed between two pages do not shift other rows.

use async_trait::async_trait;
use retro_core::id::{MemoryId, Ordinal, RunId, Tenant, WorkflowKey};
use retro_core::memory::{Change, Memory, Tombstone};
use retro_core::report::Report;
use retro_core::retrospective::{Retrospective, RetrospectiveState, WorkflowState};

use crate::{ProposalRow, Result};

/// A workflow with its ordinals and windows at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRecords {
    /// Workflow, or the rule scope of a repository.
    pub key: WorkflowKey,
    /// State of the workflow.
    pub state: WorkflowState,
    /// Number of recorded runs, counted ones included; 0 for a rule scope.
    pub recorded: u64,
    /// Summary of the ordinals.
    pub ordinals: OrdinalSummary,
    /// Automatic retrospectives, by epoch.
    pub windows: Vec<WindowRow>,
}

/// Summary of a workflow's ordinals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrdinalSummary {
    /// Number of runs that have an ordinal.
    pub assigned: u64,
    /// First gap: the expected ordinal and the one found instead.
    pub first_gap: Option<(Ordinal, Ordinal)>,
}

/// The window of an automatic retrospective.
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
    /// Retrospective as stored.
    pub retrospective: Retrospective,
    /// Report, once the retrospective has ended.
    pub report: Option<Report>,
    /// Changes that name the retrospective, in order.
    pub changes: Vec<Change>,
    /// Proposals by place; only a manual retrospective has any.
    pub proposals: Vec<ProposalRow>,
}

/// A page of retrospectives, ordered by workflow and epoch.
#[derive(Debug, Clone)]
pub struct RetrospectivePage {
    /// Retrospectives of the page.
    pub items: Vec<RetrospectiveRecords>,
    /// Start of the next page; `None` on the last page.
    pub next: Option<RetrospectiveCursor>,
}

/// Position after a retrospective. `epoch` is the stored number, which is negative for a manual retrospective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrospectiveCursor {
    /// Workflow of the retrospective.
    pub key: WorkflowKey,
    /// Stored epoch.
    pub epoch: i64,
}

/// A memory as its three tables record it.
#[derive(Debug, Clone)]
pub struct MemoryRecords {
    /// Tenant that owns the memory.
    pub tenant: Tenant,
    /// Id of the memory.
    pub id: MemoryId,
    /// Row of the memory table, with the workflow that owns it.
    pub stored: Option<(WorkflowKey, Memory)>,
    /// Changes in order, each with the workflow it is stored under.
    pub changes: Vec<(WorkflowKey, Change)>,
    /// Tombstone, with the workflow it is stored under.
    pub tombstone: Option<(WorkflowKey, Tombstone)>,
}

/// Reads all tenants page by page, for the operator of the database.
#[async_trait]
pub trait VerifyStore: Send + Sync {
    /// Returns the next `limit` workflows after the given one, in order. A shorter page is the last one.
    async fn list_workflow_records(
        &self,
        after: Option<&WorkflowKey>,
        limit: u32,
    ) -> Result<Vec<WorkflowRecords>>;
    /// Returns the next `limit` retrospectives after the given position, manual ones included.
    async fn list_retrospective_records(
        &self,
        after: Option<&RetrospectiveCursor>,
        limit: u32,
    ) -> Result<RetrospectivePage>;
    /// Returns the next `limit` memories after the given one that occur in any of the tables memories, changes and
    /// tombstones, in order. A shorter page is the last one.
    async fn list_memory_records(
        &self,
        after: Option<(&Tenant, MemoryId)>,
        limit: u32,
    ) -> Result<Vec<MemoryRecords>>;
    /// Returns those of the given runs that are not counted in the workflow.
    async fn find_uncounted_runs(&self, key: &WorkflowKey, runs: &[RunId]) -> Result<Vec<RunId>>;
}
