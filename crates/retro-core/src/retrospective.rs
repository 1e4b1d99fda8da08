//! The states of a retrospective and of its workflow. A retrospective claims a window of runs, samples it, investigates
//! the sample in sequence, settles the findings, and ends with a report.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::finding::CheckedAnswer;
use crate::id::{Epoch, Ordinal, RetrospectiveId, RunId, WorkflowKey};
use crate::manual::ManualRequest;
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::review::Repository;
use crate::time::add_seconds;

/// Stored state of a workflow, with its window and its open retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkflowState {
    /// Number of counted runs, which is also the last assigned ordinal.
    pub counted: Ordinal,
    /// Last ordinal that a retrospective has claimed and not released; 0 if there is none.
    pub claimed: Ordinal,
    /// Epoch of the most recent retrospective; 0 before the first one.
    pub epoch: Epoch,
    /// True if the retrospective of epoch `epoch` is still open.
    pub open: bool,
    /// Number of consecutive retrospectives that ended without a successful investigation.
    pub failures: u32,
    /// Time before which no retrospective opens; `None` if the workflow is not paused.
    pub paused_until: Option<Timestamp>,
}

impl WorkflowState {
    /// Returns the number of counted runs that no retrospective has claimed.
    pub const fn window_size(&self) -> u64 {
        self.counted.saturating_sub(self.claimed)
    }

    /// Opens a retrospective over the whole window if the window contains at least `threshold_runs` runs, no
    /// retrospective is open, and the workflow is not paused.
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

    /// Opens a retrospective over the whole window, which must contain at least one run.
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

    /// Closes the open retrospective as a success. Its window stays claimed.
    pub fn close_retrospective(&mut self) {
        self.open = false;
        self.failures = 0;
        self.paused_until = None;
    }

    /// Ends the open retrospective without success. Its epoch is not used again, its runs are released with their
    /// ordinals, and the workflow pauses, for longer after each consecutive failure.
    pub fn release_window(&mut self, retrospective: &Retrospective) {
        self.open = false;
        // Runs counted since are after `last`, so the released runs and those form one contiguous window.
        self.claimed = retrospective.first - 1;
        let pause = failure_pause_s(&retrospective.policy, self.failures);
        self.failures = self.failures.saturating_add(1);
        self.paused_until = Some(add_seconds(retrospective.as_of, pause));
    }
}

/// Returns the pause in seconds after `failures` earlier consecutive failures. By default it is 1 h, 2 h, 4 h and so on
/// up to 24 h.
pub fn failure_pause_s(policy: &Policy, failures: u32) -> u64 {
    policy.failure_pause_s.saturating_mul(1u64 << failures.min(20)).min(policy.failure_pause_max_s)
}

/// A retrospective that was just opened, with the message that wakes the sampler.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedRetrospective {
    /// The new retrospective, to be stored.
    pub retrospective: Retrospective,
    /// Message that wakes the sampler, to be sent.
    pub message: Message,
}

/// A retrospective as stored when it opens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retrospective {
    /// Id derived from workflow and epoch, or from workflow and request for a manual retrospective.
    pub id: RetrospectiveId,
    /// Workflow that the retrospective examines.
    pub key: WorkflowKey,
    /// Number of the retrospective within the workflow, from 1; 0 for a manual retrospective.
    pub epoch: Epoch,
    /// First ordinal of the window; 0 for a manual retrospective, which claims no window.
    pub first: Ordinal,
    /// Last ordinal of the window; 0 for a manual retrospective.
    pub last: Ordinal,
    /// Policy moment: the time that counts as the present in all decisions of the retrospective. It is read once, when
    /// the retrospective is opened.
    pub as_of: Timestamp,
    /// Policy that was in force when the retrospective was opened. The retrospective keeps it.
    #[serde(serialize_with = "crate::policy::serialize_stored")]
    pub policy: Policy,
    /// Current state.
    pub state: RetrospectiveState,
    /// Request that opened a manual retrospective; `None` for an automatic one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<ManualRequest>,
}

impl Retrospective {
    /// Returns the number of runs in the window, or the number of named runs for a manual retrospective.
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
    /// The retrospective was opened and waits for its sample.
    Due,
    /// The runs of the sample are investigated one after another.
    Investigating,
    /// All investigations have ended, and the mutations wait for the writer.
    Settling,
    /// The retrospective ended with success, and its report is stored.
    Closed,
    /// The retrospective ended without a successful investigation. The report says so, and the runs are released.
    Failed,
    /// A person cancelled the retrospective, and its runs are released.
    Cancelled,
}

impl RetrospectiveState {
    /// Returns the state as the word that is stored and shown.
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

    /// Returns whether a retrospective in this state prevents its workflow from opening another one.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Due | Self::Investigating | Self::Settling)
    }
}

/// Investigation of one sampled run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Investigation {
    /// Number of the investigation within its retrospective, from 1.
    pub number: u32,
    /// Ordinal of the run.
    pub ordinal: Ordinal,
    /// Id of the run.
    pub run: RunId,
    /// True if this investigation replaced one that failed.
    pub replacement: bool,
    /// Result of the investigation; `None` while it waits or runs.
    pub result: Option<InvestigationResult>,
}

/// Result of an investigation. Finding nothing, giving an invalid answer and failing are three different results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum InvestigationResult {
    /// The investigation found patterns.
    Found {
        /// Findings, verdicts and the number of dropped entries, after the mechanical checks.
        #[serde(flatten)]
        checked: CheckedAnswer,
        /// Memories that were presented to the run, each with whether the agent opened it.
        presented: Vec<PresentedMemory>,
    },
    /// The investigation found no pattern. There may still be verdicts.
    Nothing {
        /// Verdicts and the number of dropped entries. There are no findings.
        #[serde(flatten)]
        checked: CheckedAnswer,
        /// Memories that were presented to the run, each with whether the agent opened it.
        presented: Vec<PresentedMemory>,
    },
    /// The investigator's answers could not be used.
    Invalid {
        /// Reason why the answers could not be used.
        reason: String,
    },
    /// The investigation could not be carried out.
    Failed {
        /// Reason for the failure.
        reason: String,
    },
    /// The stored body of the run is missing or does not match its hash.
    BodyGone {
        /// Description of what was found instead of the body.
        reason: String,
    },
}

/// A memory that was presented in a run's prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentedMemory {
    /// Id of the memory.
    pub memory: crate::id::MemoryId,
    /// True if the agent opened the memory.
    pub read: bool,
    /// Repository to which the memory belongs if it is a rule; `None` for a memory of the run's own workflow. A verdict
    /// on a rule is applied under the lock of the repository's rule scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<Repository>,
}

impl PresentedMemory {
    /// Returns a presented memory that belongs to the run's own workflow.
    pub const fn from_own_workflow(memory: crate::id::MemoryId, read: bool) -> Self {
        Self { memory, read, repo: None }
    }
}

impl InvestigationResult {
    /// Returns whether the investigation succeeded, even if it found nothing.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Found { .. } | Self::Nothing { .. })
    }

    /// Returns the result as the word that is stored and shown.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Found { .. } => "found",
            Self::Nothing { .. } => "nothing",
            Self::Invalid { .. } => "invalid",
            Self::Failed { .. } => "failed",
            Self::BodyGone { .. } => "body_gone",
        }
    }

    /// Returns the checked answer and the presented memories of a successful investigation; `None` for other results.
    pub const fn checked_answer(&self) -> Option<(&CheckedAnswer, &Vec<PresentedMemory>)> {
        match self {
            Self::Found { checked, presented } | Self::Nothing { checked, presented } => {
                Some((checked, presented))
            }
            _ => None,
        }
    }

    /// Returns the reason why the investigation gave no answer; `None` if it was successful.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Invalid { reason } | Self::Failed { reason } | Self::BodyGone { reason } => Some(reason),
            Self::Found { .. } | Self::Nothing { .. } => None,
        }
    }
}
