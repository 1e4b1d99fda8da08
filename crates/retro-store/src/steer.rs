//! The port of a person's hand: calling a retrospective off, and following a failed one at once.
//!
//! Neither touches memory. Each is one transaction with the row that tells who did it and why.

use async_trait::async_trait;
use retro_core::dead_letter::Code;
use retro_core::id::{DeadLetterId, RetrospectiveId, Tenant};
use retro_core::retrospective::{Opening, Retrospective, WorkflowState};
use retro_core::steer::{Act, NotReopened};
use serde::Deserialize;

use crate::{NewDeadLetter, Result};

/// Decides what cancelling leaves of the workflow.
pub type DecideCancel<'a> = &'a (dyn Fn(&Retrospective, WorkflowState) -> WorkflowState + Send + Sync);

/// Decides what follows a failed retrospective.
pub type DecideReopen<'a> = &'a (
        dyn Fn(&Retrospective, WorkflowState) -> std::result::Result<(WorkflowState, Opening), NotReopened>
            + Send
            + Sync
    );

/// What came of cancelling.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelled {
    /// It is cancelled now.
    Now {
        /// As it is now.
        retrospective: Retrospective,
        /// The workflow as it is now.
        state: WorkflowState,
    },
    /// It had ended before: nothing changed.
    Ended {
        /// As it ended.
        retrospective: Retrospective,
        /// Who cancelled it, if it was cancelled.
        act: Option<Act>,
    },
    /// The tenant has no such retrospective.
    Unknown,
}

/// What came of replaying the dead letter of a failed retrospective.
#[derive(Debug, Clone, PartialEq)]
pub enum Reopened {
    /// The next one is open now.
    Now(Retrospective),
    /// The letter was replayed before: nothing changed.
    Before {
        /// Who did it.
        act: Act,
        /// The retrospective that it opened, as it is now.
        opened: Retrospective,
    },
    /// There is nothing to open: nothing changed, and the letter stays as it is.
    Not(NotReopened),
    /// It is no letter of a failed retrospective.
    OtherCode(Code),
    /// The tenant has no such letter.
    Unknown,
}

/// A person's hand on retrospectives.
#[async_trait]
pub trait SteerStore: Send + Sync {
    /// One transaction under the lock of the workflow: if the retrospective is open, ends it as cancelled, fences
    /// whoever investigates it, stores the workflow as `decide` leaves it, and the act. Against a writer that closes
    /// it at the same moment one of the two wins, and the other is told so.
    async fn cancel(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        act: &Act,
        decide: DecideCancel<'_>,
    ) -> Result<Cancelled>;

    /// One transaction under the lock of the workflow: if the letter tells of a failed retrospective and nobody has
    /// replayed it, stores what `decide` opens with its message, marks the letter replayed, and the act. Of two at
    /// once one opens, and the other is told by whom and which.
    async fn reopen(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        act: &Act,
        decide: DecideReopen<'_>,
    ) -> Result<Reopened>;
}

/// The retrospective that a letter says has failed; `None` when its payload names none.
pub fn failed_retrospective(letter: &NewDeadLetter) -> Option<RetrospectiveId> {
    #[derive(Deserialize)]
    struct Failed {
        retrospective: RetrospectiveId,
    }
    serde_json::from_slice(&letter.payload).ok().map(|Failed { retrospective }| retrospective)
}
