//! What continues what: the contexts that were stored beside runs, retrospectives and investigations. Nothing is decided by
//! them; one that cannot be read counts as none.

use async_trait::async_trait;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::trace::TraceContext;

use crate::Result;

/// What an investigation belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InvestigationTraces {
    /// What made it due.
    pub due: Option<TraceContext>,
    /// Where the run that it looks into was counted.
    pub run: Option<TraceContext>,
}

/// Traces, for whoever continues them.
#[async_trait]
pub trait TraceStore: Send + Sync {
    /// What opened a retrospective: the run that filled its window, or a person's request. `None` when nobody traced it, or the
    /// tenant has no such retrospective.
    async fn trace_of_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<Option<TraceContext>>;

    /// The other contexts of the runs in its window, each once, the latest first, at most `limit`.
    async fn traces_of_window(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        limit: u32,
    ) -> Result<Vec<TraceContext>>;

    /// What an investigation continues, and what it looks into.
    async fn traces_of_investigation(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        number: u32,
    ) -> Result<InvestigationTraces>;
}
