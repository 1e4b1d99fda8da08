//! Identifies the subjects of audit rows.

use retro_core::id::{DeadLetterId, ReplayBatchId, RetrospectiveId};

/// Subject of an audited action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditSubject {
    /// Retrospective that was cancelled.
    Retrospective(RetrospectiveId),
    /// Dead letter that was read, edited, replayed or discarded.
    DeadLetter(DeadLetterId),
    /// Replay batch that was cancelled.
    ReplayBatch(ReplayBatchId),
}

impl AuditSubject {
    /// Returns the column `audit_log.subject_kind`.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Retrospective(_) => "retrospective",
            Self::DeadLetter(_) => "dead_letter",
            Self::ReplayBatch(_) => "replay_batch",
        }
    }

    /// Returns the column `audit_log.subject_id`.
    pub fn id(self) -> String {
        match self {
            Self::Retrospective(id) => id.to_string(),
            Self::DeadLetter(id) => id.to_string(),
            Self::ReplayBatch(id) => id.to_string(),
        }
    }
}
