//! Reading everything, a page at a time, for `retro verify`.
//!
//! A page is read in one transaction, so what stands in it stood in the database at one moment, whatever is written
//! meanwhile. Pages follow a key, not an offset: what is added or removed between two of them moves nothing else.

use async_trait::async_trait;
use retro_core::id::{MemoryId, Ordinal, RunId, Tenant, WorkflowKey};
use retro_core::memory::{Change, Memory, Tombstone};
use retro_core::report::Report;
use retro_core::retrospective::{Retrospective, State, WorkflowState};

use crate::{ProposalRow, Result};

/// A workflow with its ordinals and windows, as they were at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowBooks {
    /// The workflow, or the keeper of a repository's rules.
    pub key: WorkflowKey,
    /// Its state.
    pub state: WorkflowState,
    /// Runs recorded, counted ones included; none for the keeper of rules.
    pub recorded: u64,
    /// Its ordinals.
    pub ordinals: OrdinalSummary,
    /// Its automatic retrospectives, by epoch.
    pub windows: Vec<WindowRow>,
}

/// The ordinals of a workflow, in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrdinalSummary {
    /// How many runs have one.
    pub given: u64,
    /// The first that is not the next one: which was expected, and which stands there.
    pub first_gap: Option<(Ordinal, Ordinal)>,
}

/// The window of an automatic retrospective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowRow {
    /// Its number within the workflow.
    pub epoch: u64,
    /// The first ordinal.
    pub first: Ordinal,
    /// The last ordinal.
    pub last: Ordinal,
    /// How far it is.
    pub state: State,
}

/// A retrospective with everything that is compared with it.
#[derive(Debug, Clone)]
pub struct RetrospectiveBooks {
    /// As stored.
    pub retrospective: Retrospective,
    /// Its report, once it has ended.
    pub report: Option<Report>,
    /// The changes that name it, in order.
    pub changes: Vec<Change>,
    /// What it proposes, by place; only a manual one does.
    pub proposals: Vec<ProposalRow>,
}

/// Retrospectives, in the order of workflow and key.
#[derive(Debug, Clone)]
pub struct RetrospectivePage {
    /// The retrospectives.
    pub items: Vec<RetrospectiveBooks>,
    /// Where the next page begins; `None` when this is the last one.
    pub next: Option<RetrospectiveCursor>,
}

/// A place behind a retrospective. `epoch` is the stored number: negative for one that a person asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrospectiveCursor {
    /// The workflow.
    pub key: WorkflowKey,
    /// The stored number.
    pub epoch: i64,
}

/// The life of a memory, as the three tables tell it.
#[derive(Debug, Clone)]
pub struct MemoryBooks {
    /// Its tenant.
    pub tenant: Tenant,
    /// Its id.
    pub id: MemoryId,
    /// What the memory table holds, with the workflow whose writer keeps it.
    pub stored: Option<(WorkflowKey, Memory)>,
    /// Its changes in order, each with the workflow under which it stands.
    pub changes: Vec<(WorkflowKey, Change)>,
    /// Its tombstone, with the workflow under which it stands.
    pub tombstone: Option<(WorkflowKey, Tombstone)>,
}

/// Reading page by page. Over all tenants, for whoever looks after the database.
#[async_trait]
pub trait VerifyStore: Send + Sync {
    /// The next `limit` workflows behind that one, in order; fewer are the last.
    async fn workflow_books(&self, behind: Option<&WorkflowKey>, limit: u32) -> Result<Vec<WorkflowBooks>>;
    /// The next `limit` retrospectives behind that place, manual ones among them.
    async fn retrospective_books(
        &self,
        behind: Option<&RetrospectiveCursor>,
        limit: u32,
    ) -> Result<RetrospectivePage>;
    /// The next `limit` memories behind that one that any of memories, changes and tombstones names, in order; fewer
    /// are the last.
    async fn memory_books(&self, behind: Option<(&Tenant, MemoryId)>, limit: u32)
    -> Result<Vec<MemoryBooks>>;
    /// Those of the runs named that are not counted in the workflow.
    async fn uncounted(&self, key: &WorkflowKey, runs: &[RunId]) -> Result<Vec<RunId>>;
}
