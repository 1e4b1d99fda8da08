//! Reads the trace contexts stored with runs, retrospectives and investigations. No decision depends on a
//! trace context, so an invalid one is treated as absent.

use async_trait::async_trait;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::trace::TraceContext;

use crate::Result;

/// Trace contexts of an investigation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InvestigationTraces {
    /// Context of the transaction that made the investigation due; `None` if it was not traced.
    pub due: Option<TraceContext>,
    /// Context in which the investigated run was counted; `None` if the run was not traced.
    pub run: Option<TraceContext>,
}

/// Reads stored trace contexts, so that a later stage can continue the trace.
#[async_trait]
pub trait TraceStore: Send + Sync {
    /// Returns the context in which a retrospective was opened: the context of the run that filled its window
    /// or of the request that triggered it. Returns `None` if the retrospective was not traced or does not
    /// exist in this tenant.
    async fn find_retrospective_trace(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<Option<TraceContext>>;

    /// Returns at most `limit` distinct trace contexts of the runs in the retrospective's window, newest
    /// first. Omits the context that [`find_retrospective_trace`](Self::find_retrospective_trace) returns.
    async fn list_window_traces(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        limit: u32,
    ) -> Result<Vec<TraceContext>>;

    /// Returns the trace contexts of investigation `number`, each `None` if absent.
    async fn load_investigation_traces(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        number: u32,
    ) -> Result<InvestigationTraces>;
}
