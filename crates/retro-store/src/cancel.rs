//! Port for cancelling a retrospective, and for reopening a failed one without waiting for its pause.
//!
//! Neither changes memories. Each is one transaction that also records the person and the reason.

use async_trait::async_trait;
use retro_core::cancel::{Attribution, ReopenError};
use retro_core::dead_letter::Code;
use retro_core::id::{DeadLetterId, RetrospectiveId, Tenant};
use retro_core::retrospective::{OpenedRetrospective, Retrospective, WorkflowState};
use serde::Deserialize;

use crate::{NewDeadLetter, Result};

/// Decides the state of the workflow after a retrospective was cancelled.
pub type DecideCancel<'a> = &'a (dyn Fn(&Retrospective, WorkflowState) -> WorkflowState + Send + Sync);

/// Decides which retrospective to open after a failed one.
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
        /// The cancelled retrospective.
        retrospective: Retrospective,
        /// State of the workflow after the cancellation, with the runs released.
        state: WorkflowState,
    },
    /// The retrospective had already ended. Nothing changed.
    AlreadyEnded {
        /// The retrospective that had already ended, unchanged.
        retrospective: Retrospective,
        /// Person who cancelled it, with reason and time; `None` when it ended in another way.
        act: Option<Attribution>,
    },
    /// The tenant has no such retrospective.
    NotFound,
}

/// Outcome of reopening a failed retrospective by replaying its dead letter.
#[derive(Debug, Clone, PartialEq)]
pub enum ReopenResult {
    /// The next retrospective was opened. Holds that retrospective.
    Opened(Retrospective),
    /// The dead letter had already been replayed. Nothing changed.
    AlreadyReopened {
        /// Person who replayed it earlier, with reason and time.
        act: Attribution,
        /// The retrospective that the earlier replay opened, in its current state.
        opened: Retrospective,
    },
    /// No retrospective can be opened, for the reason that this variant holds. Nothing changed, and the dead letter
    /// stays open.
    Refused(ReopenError),
    /// The dead letter has a different code, so it does not record a failed retrospective.
    OtherCode(Code),
    /// The tenant has no such dead letter.
    NotFound,
}

/// Cancels and reopens retrospectives.
#[async_trait]
pub trait CancelStore: Send + Sync {
    /// Cancels an open retrospective in one transaction under the lock of the workflow. Fences its investigators,
    /// stores the workflow state that `decide` returns, and records the audit row. When a writer closes the
    /// retrospective at the same moment, one of the two succeeds, and the other finds it ended.
    async fn cancel_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        act: &Attribution,
        decide: DecideCancel<'_>,
    ) -> Result<CancelResult>;

    /// Reopens a failed retrospective in one transaction under the lock of the workflow. If the dead letter records a
    /// failed retrospective and was not replayed before, stores the retrospective that `decide` opens and its message,
    /// marks the dead letter as replayed, and records the audit row. Of two concurrent calls, one opens the
    /// retrospective; the other returns it with the person who opened it.
    async fn reopen_retrospective(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        act: &Attribution,
        decide: DecideReopen<'_>,
    ) -> Result<ReopenResult>;
}

/// Returns the id of the failed retrospective that a dead letter records; `None` when its payload contains no such id.
pub fn failed_retrospective(dead_letter: &NewDeadLetter) -> Option<RetrospectiveId> {
    #[derive(Deserialize)]
    struct Failed {
        retrospective: RetrospectiveId,
    }
    serde_json::from_slice(&dead_letter.payload).ok().map(|Failed { retrospective }| retrospective)
}
