//! Storage port that cancels retrospectives, and reopens failed ones without waiting for their pause.
//!
//! Neither operation changes memories. Each is one transaction that also writes the audit log.

use async_trait::async_trait;
use retro_core::attribution::Attribution;
use retro_core::cancel::ReopenError;
use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::{DeadLetterId, RetrospectiveId, Tenant};
use retro_core::retrospective::{OpenedRetrospective, Retrospective, WorkflowState};
use serde::Deserialize;

use crate::{NewDeadLetter, Result};

/// Callback that returns the workflow's state after the retrospective is cancelled.
pub type DecideCancel<'a> = &'a (dyn Fn(&Retrospective, WorkflowState) -> WorkflowState + Send + Sync);

/// Callback that decides which retrospective to open after a failed one, and the workflow's new state.
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
        /// State of the workflow after the cancellation, which returned the runs to the window.
        state: WorkflowState,
    },
    /// The retrospective had already ended. Nothing changed.
    AlreadyEnded {
        /// The retrospective that had already ended, unchanged.
        retrospective: Retrospective,
        /// Who cancelled the retrospective, when and why; `None` if it ended in another way.
        act: Option<Attribution>,
    },
    /// The tenant has no such retrospective.
    NotFound,
}

/// Outcome of reopening a failed retrospective by replaying its dead letter.
#[derive(Debug, Clone, PartialEq)]
pub enum ReopenResult {
    /// The next retrospective was opened.
    Opened(Retrospective),
    /// The dead letter had already been replayed. Nothing changed.
    AlreadyReopened {
        /// Who replayed the dead letter earlier, when and why.
        act: Attribution,
        /// Retrospective opened by the earlier replay, in its current state.
        opened: Retrospective,
    },
    /// No retrospective can be opened. Nothing changed, and the dead letter stays open.
    Refused(ReopenError),
    /// The dead letter has another code, so it records no failed retrospective.
    OtherCode(DeadLetterCode),
    /// The tenant has no such dead letter.
    NotFound,
}

/// Cancels and reopens retrospectives.
#[async_trait]
pub trait CancelStore: Send + Sync {
    /// Cancels an open retrospective in one transaction under the workflow lock: fences its investigators,
    /// stores the workflow state returned by `decide`, and appends the audit row. If a writer closes the
    /// retrospective concurrently, whichever commits first wins and the other finds the retrospective ended.
    async fn cancel_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        act: &Attribution,
        decide: DecideCancel<'_>,
    ) -> Result<CancelResult>;

    /// Reopens a failed retrospective in one transaction under the workflow lock.
    ///
    /// If the dead letter records a failed retrospective and was not replayed before, stores the
    /// retrospective opened by `decide` and its message, marks the dead letter as replayed, and appends the
    /// audit row. Of two concurrent calls, one opens the retrospective and the other returns
    /// [`ReopenResult::AlreadyReopened`].
    async fn reopen_retrospective(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        act: &Attribution,
        decide: DecideReopen<'_>,
    ) -> Result<ReopenResult>;
}

/// Returns the id of the failed retrospective in a dead letter's payload; `None` if the payload contains
/// none.
pub fn failed_retrospective(dead_letter: &NewDeadLetter) -> Option<RetrospectiveId> {
    #[derive(Deserialize)]
    struct Failed {
        retrospective: RetrospectiveId,
    }
    serde_json::from_slice(&dead_letter.payload).ok().map(|Failed { retrospective }| retrospective)
}
