//! The port of the audit log: the actions of people and their reasons. Rows are never changed and never
//! removed.

use async_trait::async_trait;
use retro_core::cancel::Attribution;
use retro_core::id::{RetrospectiveId, Tenant};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Result;

/// An action of a person on a retrospective, a dead letter or a replay batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditAction {
    /// A retrospective or a replay batch was cancelled.
    Cancelled,
    /// A dead letter was replayed.
    Replayed,
    /// A dead letter was discarded.
    Discarded,
    /// A version of a dead letter was created.
    Edited,
    /// The unredacted bytes of a dead letter were shown.
    ReadRaw,
    /// A dead letter was exported with its unredacted bytes.
    Exported,
}

impl AuditAction {
    /// Returns the word as stored and shown.
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

/// A stored row of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Action that was taken.
    pub deed: AuditAction,
    /// Person, reason and time.
    #[serde(flatten)]
    pub act: Attribution,
    /// Retrospective that the action opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened: Option<RetrospectiveId>,
    /// Details in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Records actions that change nothing else. An action with an effect is recorded in the effect's own transaction.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Records one row for each of `subjects` (ids of dead letters or replay batches), all or none. `detail`
    /// describes the action and is the same for each row. The caller must have read the subjects before, since
    /// this method does not check that they belong to the tenant.
    async fn record_audit_rows(
        &self,
        tenant: &Tenant,
        subjects: &[Uuid],
        deed: AuditAction,
        act: &Attribution,
        detail: Option<&str>,
    ) -> Result<()>;
}
