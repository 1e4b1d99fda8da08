//! Cancels open retrospectives and reopens failed ones at an operator's request.
//!
//! Neither action changes any memory. Each is stored with the operator, the time and the reason. Repeating a
//! request has no further effect, even if another operator repeats it.

use jiff::Timestamp;
use serde::Serialize;

use crate::id::{Epoch, Ordinal, WorkflowKey};
use crate::policy::Policy;
use crate::retrospective::{OpenedRetrospective, Retrospective, WorkflowState};
use crate::time::add_seconds;

/// Reason why a failed retrospective cannot be reopened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum ReopenError {
    /// Another retrospective of the workflow is open and has claimed the released runs.
    OneIsOpen {
        /// Epoch of the open retrospective.
        epoch: Epoch,
    },
    /// A later retrospective has claimed the released runs.
    ClaimedSince {
        /// Highest ordinal that a retrospective has claimed.
        claimed: Ordinal,
    },
}

impl WorkflowState {
    /// Cancels the open retrospective: its epoch is not reused, and its runs are released and keep their
    /// ordinals. The workflow then pauses for as long as after a first failure, because the next event would
    /// otherwise open another retrospective over the same runs. A longer pause that is already in effect
    /// stays. The cancellation does not count as a failure.
    ///
    /// Cancelling a manual retrospective leaves the workflow unchanged, because it claims no runs and blocks
    /// no other retrospective.
    pub fn cancel_retrospective(&mut self, retrospective: &Retrospective, now: Timestamp) {
        // A manual retrospective has no window: its `first` is 0, and `first - 1` below would underflow.
        if retrospective.manual_request.is_some() {
            return;
        }
        self.open = false;
        self.claimed = retrospective.first - 1;
        let pause = add_seconds(now, retrospective.policy.failure_pause_s);
        self.paused_until = Some(self.paused_until.map_or(pause, |running| running.max(pause)));
    }

    /// Opens the retrospective that follows `failed`, over the first runs that wait and regardless of any pause.
    /// The number of consecutive failures is kept, so the next pause is longer if this retrospective fails as
    /// well. Fails if a retrospective is open or if the runs of `failed` have been claimed again.
    pub fn reopen_after(
        &mut self,
        failed: &Retrospective,
        policy: &Policy,
        as_of: Timestamp,
    ) -> Result<OpenedRetrospective, ReopenError> {
        if self.open {
            return Err(ReopenError::OneIsOpen { epoch: self.epoch });
        }
        // The failed retrospective released its runs, so a claim that covers them belongs to a later one.
        if self.claimed >= failed.first {
            return Err(ReopenError::ClaimedSince { claimed: self.claimed });
        }
        let key: &WorkflowKey = &failed.key;
        Ok(self.open_over_waiting(key, policy, as_of))
    }
}
