//! Loads one retrospective with everything that is shown about it.

use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::retrospective::{Investigation, Retrospective};
use retro_core::sample::Sample;
use retro_store::{AuditRow, InvestigationAttempts, OperatorStore, RetrospectiveDetail, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

/// A retrospective with its sample, investigations and audit log.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Retrospective)]
pub struct RetrospectiveView {
    /// Id, workflow, epoch, window, policy and state of the retrospective.
    #[schema(value_type = Object)]
    pub retrospective: Retrospective,
    /// Seed, order and size of the sample; null until the sample is drawn.
    #[schema(value_type = Option<Object>, required = true)]
    pub sample: Option<Sample>,
    /// Investigations that have started, finished or not.
    #[schema(value_type = Vec<Object>)]
    pub investigations: Vec<Investigation>,
    /// Attempts at the investigations, in the same order: who works on each, and why the last attempt failed.
    pub attempts: Vec<InvestigationAttempts>,
    /// Audit log of the retrospective, oldest entry first; absent if there are no entries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub audit_log: Vec<AuditRow>,
}

/// Loads a retrospective of the tenant with its audit log. Returns `None` if the tenant has no such
/// retrospective.
pub async fn find_retrospective_view(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    id: RetrospectiveId,
) -> Result<Option<RetrospectiveView>, StoreError> {
    let Some(found) = store.find_retrospective(tenant, id).await? else { return Ok(None) };
    let RetrospectiveDetail { retrospective, sample, investigations, attempts } = found;
    let audit_log = store.list_audit_rows(tenant, id.0).await?;
    Ok(Some(RetrospectiveView { retrospective, sample, investigations, attempts, audit_log }))
}
