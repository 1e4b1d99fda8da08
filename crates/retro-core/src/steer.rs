//! A person's hand on retrospectives: calling one off, and opening the next one at once after a failure.
//!
//! Neither touches memory. Both are acts of a person, kept with who, when and why, and each happens once however
//! often and by however many it is asked for.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{Epoch, Ordinal, WorkflowKey};
use crate::policy::Policy;
use crate::retrospective::{Opening, Retrospective, WorkflowState};
use crate::time::after;

/// Longest reason or name, in characters: a paragraph. It stands in lists and logs for ever.
pub const WORDS_CHARS_MAX: usize = 1000;

/// Who asked for something, why, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// Who, as far as the road they came by can tell.
    pub by: String,
    /// Why, in their words.
    pub reason: String,
    /// The policy moment.
    pub at: Timestamp,
}

/// An act that says too little or too much about itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct ActError {
    /// Which part of it: `by` or `reason`.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl Act {
    /// An act with a reason; fails when who or why is empty, or longer than [`WORDS_CHARS_MAX`].
    pub fn new(by: &str, reason: &str, at: Timestamp) -> Result<Self, ActError> {
        Ok(Self { by: words("by", by)?, reason: words("reason", reason)?, at })
    }
}

fn words(field: &'static str, text: &str) -> Result<String, ActError> {
    let text = text.trim();
    let problem = match text.chars().count() {
        0 => "is empty".to_owned(),
        long if long > WORDS_CHARS_MAX => {
            format!("is {long} characters long; at most {WORDS_CHARS_MAX} are kept")
        }
        _ => return Ok(text.to_owned()),
    };
    Err(ActError { field, problem })
}

/// Why the failure of a retrospective does not open the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum NotReopened {
    /// A retrospective of the workflow is open already, and the released runs are in it.
    OneIsOpen {
        /// Its epoch.
        epoch: Epoch,
    },
    /// A later retrospective has looked back at the released runs.
    ClaimedSince {
        /// The last ordinal that is claimed.
        claimed: Ordinal,
    },
}

impl WorkflowState {
    /// Calls off the open retrospective: its epoch is spent and its runs are released with their ordinals. The
    /// workflow pauses as after a first failure, or the next event would open another one over the very runs that a
    /// person has just said not to look at; it counts as no failure. A pause that runs already is not shortened.
    ///
    /// A manual one has claimed nothing and holds nothing up: calling it off leaves the workflow as it was.
    pub fn cancel(&mut self, retrospective: &Retrospective, now: Timestamp) {
        if retrospective.asked.is_some() {
            return;
        }
        self.open = false;
        self.claimed = retrospective.first - 1;
        let pause = after(now, retrospective.policy.failure_pause_s);
        self.paused_until = Some(self.paused_until.map_or(pause, |running| running.max(pause)));
    }

    /// Opens the next retrospective after `failed` at once, whatever pause runs, over everything that is counted and
    /// not claimed. The failures in a row stay: if this one fails too, the next pause is longer.
    pub fn reopen(
        &mut self,
        failed: &Retrospective,
        policy: &Policy,
        as_of: Timestamp,
    ) -> Result<Opening, NotReopened> {
        if self.open {
            return Err(NotReopened::OneIsOpen { epoch: self.epoch });
        }
        if self.claimed >= failed.last {
            return Err(NotReopened::ClaimedSince { claimed: self.claimed });
        }
        let key: &WorkflowKey = &failed.key;
        Ok(self.open_now(key, policy, as_of))
    }
}
