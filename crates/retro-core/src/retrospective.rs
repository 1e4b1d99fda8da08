//! A retrospective: it claims a window, samples it, investigates in sequence, settles, and ends in a report.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::finding::Checked;
use crate::id::{Epoch, Ordinal, RetrospectiveId, RunId, WorkflowKey};
use crate::manual::Asked;
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::review::Repository;
use crate::time::after;

/// What is kept of a workflow: where its window begins and ends, and whether a retrospective is open.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkflowState {
    /// Runs counted so far: the last ordinal given.
    pub counted: Ordinal,
    /// The last ordinal that a retrospective has claimed and not released.
    pub claimed: Ordinal,
    /// The last epoch used.
    pub epoch: Epoch,
    /// Whether that epoch is still open.
    pub open: bool,
    /// Retrospectives in a row that ended without a success.
    pub failures: u32,
    /// No retrospective opens before this moment.
    pub paused_until: Option<Timestamp>,
}

impl WorkflowState {
    /// Counted runs that no retrospective has claimed.
    pub const fn window(&self) -> u64 {
        self.counted.saturating_sub(self.claimed)
    }

    /// Opens a retrospective over the whole window when it holds `threshold` runs, none is open and no pause runs.
    pub fn open_if_due(&mut self, key: &WorkflowKey, policy: &Policy, as_of: Timestamp) -> Option<Opening> {
        let paused = self.paused_until.is_some_and(|until| as_of < until);
        if self.open || paused || self.window() < u64::from(policy.threshold_runs) {
            return None;
        }
        Some(self.open_now(key, policy, as_of))
    }

    /// Opens a retrospective over the whole window, which holds at least one run.
    pub(crate) fn open_now(&mut self, key: &WorkflowKey, policy: &Policy, as_of: Timestamp) -> Opening {
        self.epoch += 1;
        self.open = true;
        let retrospective = Retrospective {
            id: RetrospectiveId::automatic(key, self.epoch),
            key: key.clone(),
            epoch: self.epoch,
            first: self.claimed + 1,
            last: self.counted,
            as_of,
            policy: policy.clone(),
            state: State::Due,
            asked: None,
        };
        self.claimed = self.counted;
        self.paused_until = None;
        let message = Notice::RetrospectiveDue { retrospective: retrospective.id }.about(key);
        Opening { retrospective, message }
    }

    /// Closes the open retrospective with a success: its window stays claimed.
    pub fn close(&mut self) {
        self.open = false;
        self.failures = 0;
        self.paused_until = None;
    }

    /// Ends the open retrospective without a success: the epoch is spent, its runs are released with their
    /// ordinals, and the workflow pauses, longer each time.
    pub fn release(&mut self, retrospective: &Retrospective) {
        self.open = false;
        self.claimed = retrospective.first - 1;
        let pause = failure_pause_s(&retrospective.policy, self.failures);
        self.failures = self.failures.saturating_add(1);
        self.paused_until = Some(after(retrospective.as_of, pause));
    }
}

/// The pause after the `failures + 1`th failure in a row: 1 h, 2 h, … 24 h by default.
pub fn failure_pause_s(policy: &Policy, failures: u32) -> u64 {
    policy.failure_pause_s.saturating_mul(1u64 << failures.min(20)).min(policy.failure_pause_max_s)
}

/// A retrospective that has just been opened, and the message that tells the sampler.
#[derive(Debug, Clone, PartialEq)]
pub struct Opening {
    /// To be stored.
    pub retrospective: Retrospective,
    /// To be sent.
    pub message: Message,
}

/// A retrospective as stored when it opens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retrospective {
    /// Derived from workflow and epoch; a manual one's from workflow and request.
    pub id: RetrospectiveId,
    /// Whose.
    pub key: WorkflowKey,
    /// Its number within the workflow, from 1; 0 for a manual one, which has none.
    pub epoch: Epoch,
    /// First ordinal of its window; 0 for a manual one, which claims nothing.
    pub first: Ordinal,
    /// Last ordinal of its window; 0 for a manual one.
    pub last: Ordinal,
    /// The policy moment, read once when it opened.
    pub as_of: Timestamp,
    /// The policy it began with and keeps.
    #[serde(serialize_with = "crate::policy::serialize_stored")]
    pub policy: Policy,
    /// How far it is.
    pub state: State,
    /// Who asked for it, and for which runs; `None` for an automatic one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
}

impl Retrospective {
    /// Runs in its window; of a manual one, which has none, the runs that were asked for.
    pub const fn window_runs(&self) -> u64 {
        match &self.asked {
            Some(asked) => asked.runs.len() as u64,
            None => self.last + 1 - self.first,
        }
    }
}

/// How far a retrospective is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Opened; waits for its sample.
    Due,
    /// Sampled; its investigations run one after another.
    Investigating,
    /// Investigated; its mutations wait for the writer.
    Settling,
    /// Done: a report stands.
    Closed,
    /// Ended without a success: a report says so, its runs are released.
    Failed,
    /// Somebody cancelled it: its runs are released.
    Cancelled,
}

impl State {
    /// The word as stored and shown.
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

    /// Whether the workflow may open no other meanwhile.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Due | Self::Investigating | Self::Settling)
    }
}

/// One sampled run looked into: its place in the sequence and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Investigation {
    /// Its place in the sequence, from 1.
    pub number: u32,
    /// The run's ordinal.
    pub ordinal: Ordinal,
    /// The run.
    pub run: RunId,
    /// Whether it took the place of one that failed.
    pub replacement: bool,
    /// What came of it; `None` while it waits or runs.
    pub result: Option<InvestigationResult>,
}

/// What came of an investigation. Nothing found, an invalid answer and a failure are three different things.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum InvestigationResult {
    /// It looked and found something.
    Found {
        /// Findings, verdicts and what was dropped.
        #[serde(flatten)]
        checked: Checked,
        /// The memories that were presented to the run, with whether they were read.
        presented: Vec<Presented>,
    },
    /// It looked and found no pattern; verdicts may stand.
    Nothing {
        /// Verdicts and what was dropped; no findings.
        #[serde(flatten)]
        checked: Checked,
        /// The memories that were presented to the run, with whether they were read.
        presented: Vec<Presented>,
    },
    /// Its answers could not be used.
    Invalid {
        /// Why.
        reason: String,
    },
    /// It could not be done.
    Failed {
        /// Why.
        reason: String,
    },
    /// The run's body is gone or differs from its hash.
    BodyGone {
        /// What was found instead.
        reason: String,
    },
}

/// A memory that stood in a run's prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presented {
    /// The memory.
    pub memory: crate::id::MemoryId,
    /// The agent opened it.
    pub read: bool,
    /// The repository whose rule it is; `None` for a memory of the run's own workflow. A verdict on a rule is for the writer
    /// under the lock of the repository's keeper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<Repository>,
}

impl Presented {
    /// A memory of the run's own workflow.
    pub const fn own(memory: crate::id::MemoryId, read: bool) -> Self {
        Self { memory, read, repo: None }
    }
}

impl InvestigationResult {
    /// Whether the run was looked into.
    pub const fn success(&self) -> bool {
        matches!(self, Self::Found { .. } | Self::Nothing { .. })
    }

    /// The word as stored and shown.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Found { .. } => "found",
            Self::Nothing { .. } => "nothing",
            Self::Invalid { .. } => "invalid",
            Self::Failed { .. } => "failed",
            Self::BodyGone { .. } => "body_gone",
        }
    }

    /// Findings, verdicts and presented memories of a success.
    pub const fn looked(&self) -> Option<(&Checked, &Vec<Presented>)> {
        match self {
            Self::Found { checked, presented } | Self::Nothing { checked, presented } => {
                Some((checked, presented))
            }
            _ => None,
        }
    }

    /// Why there is no answer; `None` for a success.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Invalid { reason } | Self::Failed { reason } | Self::BodyGone { reason } => Some(reason),
            Self::Found { .. } | Self::Nothing { .. } => None,
        }
    }
}
