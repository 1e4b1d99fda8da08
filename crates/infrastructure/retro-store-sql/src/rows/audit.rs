//! Identifies the subjects of audit rows.

use retro_core::id::{DeadLetterId, ReplayBatchId, RetrospectiveId};
use strum::IntoStaticStr;

/// Subject of an audited action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum AuditSubject {
    /// Retrospective that was cancelled.
    Retrospective(RetrospectiveId),
    /// Dead letter that was read, edited, replayed or discarded.
    DeadLetter(DeadLetterId),
    /// Replay batch that was cancelled.
    ReplayBatch(ReplayBatchId),
}

impl AuditSubject {
    /// Returns the column `audit_log.subject_kind`.
    pub(crate) fn kind(self) -> &'static str {
        self.into()
    }

    /// Returns the column `audit_log.subject_id`.
    pub(crate) fn id(self) -> String {
        match self {
            Self::Retrospective(id) => id.to_string(),
            Self::DeadLetter(id) => id.to_string(),
            Self::ReplayBatch(id) => id.to_string(),
        }
    }
}
