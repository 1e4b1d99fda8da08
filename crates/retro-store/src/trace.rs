//! Trace contexts stored with runs, retrospectives and investigations. No decision depends on them; an unreadable one
//! counts as absent.

use async_trait::async_trait;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::trace::TraceContext;

use crate::Result;

/// Trace contexts of an investigation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InvestigationTraces {
    /// Context that made the investigation due.
    pub due: Option<TraceContext>,
    /// Context in which its run was counted.
    pub run: Option<TraceContext>,
}

/// Reads trace contexts, so that a later stage continues the trace.
#[async_trait]
pub trait TraceStore: Send + Sync {
    /// Returns the context that opened a retrospective: that of the run that filled its window, or of a person's
    /// request. Returns `None` when it was not traced or the tenant has no such retrospective.
    async fn find_retrospective_trace(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<Option<TraceContext>>;

    /// Returns the other contexts of the runs in its window, without duplicates, the latest first, at most
    /// `limit`.
    async fn list_window_traces(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        limit: u32,
    ) -> Result<Vec<TraceContext>>;

    /// Returns two trace contexts: that of the work that made the investigation due, and that of its run.
    async fn load_investigation_traces(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        number: u32,
    ) -> Result<InvestigationTraces>;
}
