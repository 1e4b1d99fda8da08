//! The port for cancelling a retrospective and for reopening a failed one immediately.
//!
//! Neither changes memory. Each is one transaction that also records the person and the reason.

use async_trait::async_trait;
use retro_core::cancel::{Attribution, ReopenError};
use retro_core::dead_letter::Code;
use retro_core::id::{DeadLetterId, RetrospectiveId, Tenant};
use retro_core::retrospective::{OpenedRetrospective, Retrospective, WorkflowState};
use serde::Deserialize;

use crate::{NewDeadLetter, Result};

/// Decides the state of the workflow after the cancellation.
pub type DecideCancel<'a> = &'a (dyn Fn(&Retrospective, WorkflowState) -> WorkflowState + Send + Sync);

/// Decides which retrospective follows a failed one.
pub type DecideReopen<'a> = &'a (
        dyn Fn(
    &Retrospective,
    WorkflowState,
) -> std::result::Result<(WorkflowState, OpenedRetrospective), ReopenError>
            + Send
            + Sync
    );

/// Outcome of cancelling a retrospective.
#[derive(Debug, Clone, PartialEq)]
pub enum CancelResult {
    /// The retrospective was cancelled.
    Cancelled {
        /// Retrospective after the cancellation.
        retrospective: Retrospective,
        /// State of the workflow after the cancellation.
        state: WorkflowState,
    },
    /// The retrospective had ended before. Nothing changed.
    AlreadyEnded {
        /// Ended retrospective.
        retrospective: Retrospective,
        /// Person, reason and time, if it was cancelled.
        act: Option<Attribution>,
    },
    /// The tenant has no such retrospective.
    NotFound,
}

/// Outcome of replaying the dead letter of a failed retrospective.
#[derive(Debug, Clone, PartialEq)]
pub enum ReopenResult {
    /// The next retrospective was opened.
    Opened(Retrospective),
    /// The dead letter was replayed before. Nothing changed.
    AlreadyReopened {
        /// Person, reason and time of the earlier replay.
        act: Attribution,
        /// Retrospective that the earlier replay opened, in its current state.
        opened: Retrospective,
    },
    /// No retrospective can be opened. Nothing changed, including the dead letter.
    Refused(ReopenError),
    /// The dead letter's code is not that of a failed retrospective.
    OtherCode(Code),
    /// The tenant has no such dead letter.
    NotFound,
}

/// Cancels and reopens retrospectives.
#[async_trait]
pub trait CancelStore: Send + Sync {
    /// Cancels an open retrospective in one transaction under the lock of the workflow: fences its investigators,
    /// stores the workflow state that `decide` returns, and records the audit row. When a writer closes the
    /// retrospective at the same moment, one of the two wins and the other finds it ended.
    async fn cancel_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        act: &Attribution,
        decide: DecideCancel<'_>,
    ) -> Result<CancelResult>;

    /// Reopens a failed retrospective in one transaction under the lock of the workflow. If the dead letter
    /// records a failed retrospective and was not replayed before, stores the retrospective that `decide`
    /// opens with its message, marks the dead letter replayed and records the audit row. Of two concurrent
    /// calls one opens it; the other returns who opened it and which retrospective that is.
    async fn reopen_retrospective(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        act: &Attribution,
        decide: DecideReopen<'_>,
    ) -> Result<ReopenResult>;
}

/// Returns the id of the failed retrospective that a dead letter records; `None` when its payload holds none.
pub fn failed_retrospective(dead_letter: &NewDeadLetter) -> Option<RetrospectiveId> {
    #[derive(Deserialize)]
    struct Failed {
        retrospective: RetrospectiveId,
    }
    serde_json::from_slice(&dead_letter.payload).ok().map(|Failed { retrospective }| retrospective)
}
