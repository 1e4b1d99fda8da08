//! Port of the audit log, which records what people did and why. Rows are never changed and never removed.

use async_trait::async_trait;
use retro_core::cancel::Attribution;
use retro_core::id::{RetrospectiveId, Tenant};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Result;

/// An action that a person took on a retrospective, a dead letter or a replay batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditAction {
    /// A retrospective or a replay batch was cancelled.
    Cancelled,
    /// A dead letter was replayed.
    Replayed,
    /// A dead letter was discarded.
    Discarded,
    /// A new version of a dead letter was created.
    Edited,
    /// The unredacted bytes of a dead letter were shown.
    ReadRaw,
    /// A dead letter was exported with its unredacted bytes.
    Exported,
}

impl AuditAction {
    /// Returns the name of the action, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Replayed => "replayed",
            Self::Discarded => "discarded",
            Self::Edited => "edited",
            Self::ReadRaw => "read_raw",
            Self::Exported => "exported",
        }
    }
}

/// A row of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Action that the person took.
    pub deed: AuditAction,
    /// Person who took the action, with reason and time.
    #[serde(flatten)]
    pub act: Attribution,
    /// Retrospective that the action opened; `None` when it opened none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<RetrospectiveId>,
    /// Details of the action in one sentence; `None` when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Records actions that change nothing else, such as an export. An action that changes stored data is recorded in the
/// same transaction as the change.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Records one row for each of `subjects`, which are ids of dead letters or replay batches. Records all rows or
    /// none. `detail` describes the action and is the same for each row. This method does not check that the subjects
    /// belong to the tenant, so the caller must have loaded them.
    async fn record_audit_rows(
        &self,
        tenant: &Tenant,
        subjects: &[Uuid],
        deed: AuditAction,
        act: &Attribution,
        detail: Option<&str>,
    ) -> Result<()>;
}
