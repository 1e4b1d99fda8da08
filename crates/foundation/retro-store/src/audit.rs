//! Storage port of the append-only audit log, which records who did what, when and why.

use async_trait::async_trait;
use retro_core::attribution::Attribution;
use retro_core::id::{RetrospectiveId, Tenant};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use uuid::Uuid;

use crate::Result;

/// Audited action on a retrospective, dead letter or replay batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum AuditAction {
    /// A retrospective or a replay batch was cancelled.
    Cancelled,
    /// A dead letter was replayed.
    Replayed,
    /// A dead letter was discarded.
    Discarded,
    /// A new version of a dead letter was created.
    Edited,
    /// The unredacted content of a dead letter was shown.
    ReadRaw,
    /// A dead letter was exported with its unredacted content.
    Exported,
}

impl AuditAction {
    /// Returns the snake-case name of the action, used in the database and in output.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Row of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Action that was taken.
    pub action: AuditAction,
    /// Who took the action, when and why.
    #[serde(flatten)]
    pub act: Attribution,
    /// Retrospective opened by the action; `None` if the action opened none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_retrospective: Option<RetrospectiveId>,
    /// Details of the action in one sentence; `None` if there are no details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Records read-only actions, such as exports, in the audit log. An action that changes data is recorded by
/// the port method that makes the change, in the same transaction.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Appends one row per dead letter in `subjects`, each with `detail`, in one transaction. Does not check
    /// that the dead letters belong to the tenant: callers must load them through a tenant-scoped query
    /// first.
    async fn record_audit_rows(
        &self,
        tenant: &Tenant,
        subjects: &[Uuid],
        action: AuditAction,
        act: &Attribution,
        detail: Option<&str>,
    ) -> Result<()>;
}
