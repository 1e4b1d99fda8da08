//! Cancels and reopens retrospectives on a person's request.
//!
//! Neither action changes any memory. Each action is stored with the person, the time and the reason. Repeated
//! requests, even by several people, have only one effect.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{Epoch, Ordinal, WorkflowKey};
use crate::policy::Policy;
use crate::retrospective::{OpenedRetrospective, Retrospective, WorkflowState};
use crate::time::add_seconds;

/// Maximum length of a reason or a name, in characters: about a paragraph. Both are stored permanently and are shown in
/// lists and logs.
pub const ATTRIBUTION_CHARS_MAX: usize = 1000;

/// Says who requested an action, why, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribution {
    /// Name of the person, as reliable as the authentication that provides it.
    pub by: String,
    /// Reason for the action in the person's own words.
    pub reason: String,
    /// Policy moment at which the action was requested.
    pub at: Timestamp,
}

/// An attribution whose name or reason is empty or too long.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct AttributionError {
    /// Name of the invalid field: `by` or `reason`.
    pub field: &'static str,
    /// Description of the problem.
    pub problem: String,
}

impl Attribution {
    /// Creates an attribution. Fails when the name or the reason is empty or longer than [`ATTRIBUTION_CHARS_MAX`].
    pub fn new(by: &str, reason: &str, at: Timestamp) -> Result<Self, AttributionError> {
        Ok(Self { by: validate_text("by", by)?, reason: validate_text("reason", reason)?, at })
    }
}

fn validate_text(field: &'static str, text: &str) -> Result<String, AttributionError> {
    let text = text.trim();
    let problem = match text.chars().count() {
        0 => "is empty".to_owned(),
        long if long > ATTRIBUTION_CHARS_MAX => {
            format!("is {long} characters long; at most {ATTRIBUTION_CHARS_MAX} are kept")
        }
        _ => return Ok(text.to_owned()),
    };
    Err(AttributionError { field, problem })
}

/// Reason why a failed retrospective cannot be reopened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum ReopenError {
    /// Another retrospective of the workflow is already open and contains the released runs.
    OneIsOpen {
        /// Epoch of the open retrospective.
        epoch: Epoch,
    },
    /// A later retrospective has already claimed the released runs.
    ClaimedSince {
        /// Last ordinal that a retrospective has claimed.
        claimed: Ordinal,
    },
}

impl WorkflowState {
    /// Cancels the open retrospective. Its epoch is used up, and its runs are released with their ordinals. The
    /// workflow pauses as after a first failure. Otherwise the next event would open another retrospective over the
    /// same runs, which the person has just cancelled. The cancellation does not count as a failure. A longer pause
    /// that has already begun stays in effect.
    ///
    /// A manual retrospective claims no runs and blocks no other retrospective, so cancelling it does not change the
    /// workflow.
    pub fn cancel_retrospective(&mut self, retrospective: &Retrospective, now: Timestamp) {
        if retrospective.asked.is_some() {
            return;
        }
        self.open = false;
        self.claimed = retrospective.first - 1;
        let pause = add_seconds(now, retrospective.policy.failure_pause_s);
        self.paused_until = Some(self.paused_until.map_or(pause, |running| running.max(pause)));
    }

    /// Opens the next retrospective after `failed` immediately, regardless of any pause, over all counted runs that are
    /// not claimed. The number of consecutive failures is kept, so the next pause is longer if this one fails, too.
    /// Fails when a retrospective is open or the runs have been claimed again.
    pub fn reopen_after(
        &mut self,
        failed: &Retrospective,
        policy: &Policy,
        as_of: Timestamp,
    ) -> Result<OpenedRetrospective, ReopenError> {
        if self.open {
            return Err(ReopenError::OneIsOpen { epoch: self.epoch });
        }
        // The failed retrospective released its runs; a claim beyond them belongs to a later retrospective.
        if self.claimed >= failed.last {
            return Err(ReopenError::ClaimedSince { claimed: self.claimed });
        }
        let key: &WorkflowKey = &failed.key;
        Ok(self.open_now(key, policy, as_of))
    }
}
