//! The position of a page of the store, and the result of checking the page.

use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use retro_store::RetrospectiveCursor;

use super::verification::{Check, CheckedCounts, Violation};

/// Position of a page in the three passes: workflows, then retrospectives, then memories. A page starts after the
/// last row of the previous page; `None` is the start of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageCursor {
    /// The pass over workflows, with their ordinals and windows.
    Workflows(Option<WorkflowKey>),
    /// The pass over retrospectives, with their reports, changes and proposals.
    Retrospectives(Option<RetrospectiveCursor>),
    /// The pass over memories, with their changes and tombstones.
    Memories(Option<(Tenant, MemoryId)>),
}

/// Result of checking one page.
#[derive(Default)]
pub(super) struct PageCheck {
    pub(super) checked: CheckedCounts,
    pub(super) violations: Vec<Violation>,
    /// Tenants of the page's workflows, sorted.
    pub(super) tenants: Vec<Tenant>,
    /// Position of the next page; `None` after the last page.
    pub(super) next: Option<PageCursor>,
}

impl PageCheck {
    pub(super) fn add_violation(
        &mut self,
        check: Check,
        location: impl Into<String>,
        detail: impl Into<String>,
    ) {
        self.violations.push(Violation { check, location: location.into(), detail: detail.into() });
    }
}
