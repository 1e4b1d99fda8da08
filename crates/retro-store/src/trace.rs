//! Port for the trace contexts stored with runs, retrospectives and investigations. No decision depends on them, and an
//! unreadable one is treated as absent.

use async_trait::async_trait;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::trace::TraceContext;

use crate::Result;

/// The two trace contexts that an investigation refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InvestigationTraces {
    /// Context of the work that made the investigation due; `None` when it was not traced.
    pub due: Option<TraceContext>,
    /// Context in which the investigated run was counted; `None` when that was not traced.
    pub run: Option<TraceContext>,
}

/// Reads stored trace contexts, so that a later stage can continue the trace.
#[async_trait]
pub trait TraceStore: Send + Sync {
    /// Returns the context in which a retrospective was opened: that of the run that filled its window, or that of a
    /// person's request. Returns `None` when it was not traced, or when the tenant has no such retrospective.
    async fn find_retrospective_trace(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<Option<TraceContext>>;

    /// Returns the trace contexts of the runs in the retrospective's window, except the one that
    /// [`find_retrospective_trace`](Self::find_retrospective_trace) returns. Each context is returned once, and the
    /// latest comes first. Returns at most `limit`.
    async fn list_window_traces(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        limit: u32,
    ) -> Result<Vec<TraceContext>>;

    /// Returns the trace contexts of an investigation: that of the work that made it due, and that of its run.
    async fn load_investigation_traces(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        number: u32,
    ) -> Result<InvestigationTraces>;
}
