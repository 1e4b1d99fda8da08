//! Port that reads the whole database page by page, for `retro verify`.
//!
//! A page is read in one transaction, so it is consistent despite concurrent writes. Each page starts after a key
//! rather than at a row number, so rows that are added or removed between two pages do not shift other rows.

use async_trait::async_trait;
use retro_core::id::{MemoryId, Ordinal, RunId, Tenant, WorkflowKey};
use retro_core::memory::{Change, Memory, Tombstone};
use retro_core::report::Report;
use retro_core::retrospective::{Retrospective, RetrospectiveState, WorkflowState};

use crate::{ProposalRow, Result};

/// A workflow with its ordinals and windows, all read at the same moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRecords {
    /// Key of the workflow, or of the rule scope of a repository.
    pub key: WorkflowKey,
    /// State of the workflow.
    pub state: WorkflowState,
    /// Number of recorded runs, including counted ones; 0 for a rule scope.
    pub recorded: u64,
    /// Summary of the ordinals that the workflow's runs have.
    pub ordinals: OrdinalSummary,
    /// Windows of the automatic retrospectives, sorted by epoch.
    pub windows: Vec<WindowRow>,
}

/// Summary of the ordinals of a workflow's runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrdinalSummary {
    /// Number of runs that have an ordinal.
    pub assigned: u64,
    /// First gap, as the expected ordinal and the one found instead; `None` when there is no gap.
    pub first_gap: Option<(Ordinal, Ordinal)>,
}

/// The window and state of an automatic retrospective.
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
    /// Retrospective as it is stored.
    pub retrospective: Retrospective,
    /// Report of the retrospective; `None` when none is stored.
    pub report: Option<Report>,
    /// Changes that name the retrospective as their origin, in the order in which they were made.
    pub changes: Vec<Change>,
    /// Proposals sorted by their place in the report. Only a manual retrospective has any.
    pub proposals: Vec<ProposalRow>,
}

/// A page of retrospectives, ordered by workflow and epoch.
#[derive(Debug, Clone)]
pub struct RetrospectivePage {
    /// Retrospectives of the page.
    pub items: Vec<RetrospectiveRecords>,
    /// Position after which the next page starts; `None` on the last page.
    pub next: Option<RetrospectiveCursor>,
}

/// Identifies the retrospective after which a page starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrospectiveCursor {
    /// Workflow of the retrospective.
    pub key: WorkflowKey,
    /// Stored epoch of the retrospective, which is negative for a manual one.
    pub epoch: i64,
}

/// A memory with its rows from the tables of memories, changes and tombstones.
#[derive(Debug, Clone)]
pub struct MemoryRecords {
    /// Tenant to which the memory belongs.
    pub tenant: Tenant,
    /// Id of the memory.
    pub id: MemoryId,
    /// Row of the memory table, with the workflow that owns it; `None` when there is none.
    pub stored: Option<(WorkflowKey, Memory)>,
    /// Changes in the order in which they were made, each with the workflow under which it is stored.
    pub changes: Vec<(WorkflowKey, Change)>,
    /// Tombstone, with the workflow under which it is stored; `None` when there is none.
    pub tombstone: Option<(WorkflowKey, Tombstone)>,
}

/// Reads the data of all tenants page by page, for the operator of the database.
#[async_trait]
pub trait VerifyStore: Send + Sync {
    /// Returns the next `limit` workflows after the given one, in sorted order. A page with fewer is the last one.
    async fn list_workflow_records(
        &self,
        after: Option<&WorkflowKey>,
        limit: u32,
    ) -> Result<Vec<WorkflowRecords>>;
    /// Returns the next `limit` retrospectives after the given position, including manual ones.
    async fn list_retrospective_records(
        &self,
        after: Option<&RetrospectiveCursor>,
        limit: u32,
    ) -> Result<RetrospectivePage>;
    /// Returns the next `limit` memories after the given one, in sorted order. Includes every memory that occurs in at
    /// least one of the tables of memories, changes and tombstones. A page with fewer is the last one.
    async fn list_memory_records(
        &self,
        after: Option<(&Tenant, MemoryId)>,
        limit: u32,
    ) -> Result<Vec<MemoryRecords>>;
    /// Returns those of the given runs that are not counted in the workflow.
    async fn find_uncounted_runs(&self, key: &WorkflowKey, runs: &[RunId]) -> Result<Vec<RunId>>;
}
