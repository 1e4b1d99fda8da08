//! A retrospective claims a window, samples it, investigates the sample in sequence, settles, and ends with a
//! report.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::finding::CheckedAnswer;
use crate::id::{Epoch, Ordinal, RetrospectiveId, RunId, WorkflowKey};
use crate::manual::ManualRequest;
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::review::Repository;
use crate::time::add_seconds;

/// Stored state of a workflow: its window, and whether a retrospective is open.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkflowState {
    /// Number of counted runs: the last ordinal that was assigned.
    pub counted: Ordinal,
    /// Last ordinal that a retrospective has claimed and not released.
    pub claimed: Ordinal,
    /// Last epoch that was used.
    pub epoch: Epoch,
    /// True if the retrospective of that epoch is still open.
    pub open: bool,
    /// Number of consecutive retrospectives without a successful investigation.
    pub failures: u32,
    /// Time before which no retrospective opens.
    pub paused_until: Option<Timestamp>,
}

impl WorkflowState {
    /// Returns the number of counted runs that no retrospective has claimed.
    pub const fn window_size(&self) -> u64 {
        self.counted.saturating_sub(self.claimed)
    }

    /// Opens a retrospective over the whole window when it holds `threshold_runs` runs, none is open and the workflow
    /// is not paused.
    pub fn open_if_due(
        &mut self,
        key: &WorkflowKey,
        policy: &Policy,
        as_of: Timestamp,
    ) -> Option<OpenedRetrospective> {
        let paused = self.paused_until.is_some_and(|until| as_of < until);
        if self.open || paused || self.window_size() < u64::from(policy.threshold_runs) {
            return None;
        }
        Some(self.open_now(key, policy, as_of))
    }

    /// Opens a retrospective over the whole window, which must hold at least one run.
    pub(crate) fn open_now(
        &mut self,
        key: &WorkflowKey,
        policy: &Policy,
        as_of: Timestamp,
    ) -> OpenedRetrospective {
        self.epoch += 1;
        self.open = true;
        let retrospective = Retrospective {
            id: RetrospectiveId::of_epoch(key, self.epoch),
            key: key.clone(),
            epoch: self.epoch,
            first: self.claimed + 1,
            last: self.counted,
            as_of,
            policy: policy.clone(),
            state: RetrospectiveState::Due,
            asked: None,
        };
        self.claimed = self.counted;
        self.paused_until = None;
        let message = Notice::RetrospectiveDue { retrospective: retrospective.id }.into_message(key);
        OpenedRetrospective { retrospective, message }
    }

    /// Closes the open retrospective with success; its window stays claimed.
    pub fn close_retrospective(&mut self) {
        self.open = false;
        self.failures = 0;
        self.paused_until = None;
    }

    /// Ends the open retrospective without success: the epoch is used up, its runs are released with their
    /// ordinals, and the workflow pauses, longer each time.
    pub fn release_window(&mut self, retrospective: &Retrospective) {
        self.open = false;
        // Runs counted since are after `last`, so the released runs and those form one contiguous window.
        self.claimed = retrospective.first - 1;
        let pause = failure_pause_s(&retrospective.policy, self.failures);
        self.failures = self.failures.saturating_add(1);
        self.paused_until = Some(add_seconds(retrospective.as_of, pause));
    }
}

/// Returns the pause in seconds after `failures` earlier consecutive failures: 1 h, 2 h, … 24 h by default.
pub fn failure_pause_s(policy: &Policy, failures: u32) -> u64 {
    policy.failure_pause_s.saturating_mul(1u64 << failures.min(20)).min(policy.failure_pause_max_s)
}

/// A retrospective that was just opened, with the message for the sampler.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedRetrospective {
    /// Retrospective to be stored.
    pub retrospective: Retrospective,
    /// Message to be sent.
    pub message: Message,
}

/// A retrospective as stored when it opens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retrospective {
    /// Derived from workflow and epoch; for a manual one, from workflow and request.
    pub id: RetrospectiveId,
    /// Workflow that it examines.
    pub key: WorkflowKey,
    /// Number within the workflow, from 1; 0 for a manual one.
    pub epoch: Epoch,
    /// First ordinal of its window; 0 for a manual one, which claims no window.
    pub first: Ordinal,
    /// Last ordinal of its window; 0 for a manual one.
    pub last: Ordinal,
    /// Policy moment, read once when it opened.
    pub as_of: Timestamp,
    /// Policy when it opened, which it keeps.
    #[serde(serialize_with = "crate::policy::serialize_stored")]
    pub policy: Policy,
    /// Current state.
    pub state: RetrospectiveState,
    /// Request for a manual one; `None` for an automatic one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<ManualRequest>,
}

impl Retrospective {
    /// Returns the number of runs in its window; for a manual one, the number of runs that were named.
    pub const fn window_runs(&self) -> u64 {
        match &self.asked {
            Some(asked) => asked.runs.len() as u64,
            None => self.last + 1 - self.first,
        }
    }
}

/// State of a retrospective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetrospectiveState {
    /// Opened; waits for its sample.
    Due,
    /// Sampled; its investigations run one after another.
    Investigating,
    /// Investigated; its mutations wait for the writer.
    Settling,
    /// Ended with success; its report is stored.
    Closed,
    /// Ended without a successful investigation; its report says so, and its runs are released.
    Failed,
    /// Cancelled by a person; its runs are released.
    Cancelled,
}

impl RetrospectiveState {
    /// Returns the word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Investigating => "investigating",
            Self::Settling => "settling",
            Self::Closed => "closed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns whether the retrospective prevents its workflow from opening another one.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Due | Self::Investigating | Self::Settling)
    }
}

/// Investigation of one sampled run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Investigation {
    /// Number in the sequence, from 1.
    pub number: u32,
    /// Ordinal of the run.
    pub ordinal: Ordinal,
    /// Id of the run.
    pub run: RunId,
    /// True if it replaced an investigation that failed.
    pub replacement: bool,
    /// Result; `None` while it waits or runs.
    pub result: Option<InvestigationResult>,
}

/// Result of an investigation. Nothing found, an invalid answer and a failure are three different results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum InvestigationResult {
    /// Patterns were found.
    Found {
        /// Findings, verdicts and the number of dropped entries.
        #[serde(flatten)]
        checked: CheckedAnswer,
        /// Memories that were presented to the run, and whether they were read.
        presented: Vec<PresentedMemory>,
    },
    /// No pattern was found; there may be verdicts.
    Nothing {
        /// Verdicts and the number of dropped entries; no findings.
        #[serde(flatten)]
        checked: CheckedAnswer,
        /// Memories that were presented to the run, and whether they were read.
        presented: Vec<PresentedMemory>,
    },
    /// The answers could not be used.
    Invalid {
        /// Reason why they could not be used.
        reason: String,
    },
    /// The investigation could not be carried out.
    Failed {
        /// Reason for the failure.
        reason: String,
    },
    /// The run's body is missing or differs from its hash.
    BodyGone {
        /// Description of what was found instead.
        reason: String,
    },
}

/// A memory that was in a run's prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentedMemory {
    /// Id of the memory.
    pub memory: crate::id::MemoryId,
    /// True if the agent opened it.
    pub read: bool,
    /// Repository whose rule it is; `None` for a memory of the run's own workflow. A verdict on a rule is applied
    /// under the lock of the repository's rule scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<Repository>,
}

impl PresentedMemory {
    /// Returns a presented memory of the run's own workflow.
    pub const fn from_own_workflow(memory: crate::id::MemoryId, read: bool) -> Self {
        Self { memory, read, repo: None }
    }
}

impl InvestigationResult {
    /// Returns whether the run was investigated.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Found { .. } | Self::Nothing { .. })
    }

    /// Returns the word as stored and shown.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Found { .. } => "found",
            Self::Nothing { .. } => "nothing",
            Self::Invalid { .. } => "invalid",
            Self::Failed { .. } => "failed",
            Self::BodyGone { .. } => "body_gone",
        }
    }

    /// Returns the checked answer and the presented memories of a success.
    pub const fn checked_answer(&self) -> Option<(&CheckedAnswer, &Vec<PresentedMemory>)> {
        match self {
            Self::Found { checked, presented } | Self::Nothing { checked, presented } => {
                Some((checked, presented))
            }
            _ => None,
        }
    }

    /// Returns the reason why there is no answer; `None` for a success.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Invalid { reason } | Self::Failed { reason } | Self::BodyGone { reason } => Some(reason),
            Self::Found { .. } | Self::Nothing { .. } => None,
        }
    }
}
