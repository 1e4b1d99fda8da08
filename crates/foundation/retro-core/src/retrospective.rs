//! States of a retrospective and of its workflow. A retrospective claims a window of runs, samples it,
//! investigates the sample in sequence, settles the findings, and ends with a report.

mod manual_request;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::finding::{CheckedAnswer, Finding};
use crate::id::{Epoch, MemoryId, Ordinal, Repository, RetrospectiveId, RunId, WorkflowKey};
use crate::message::{Message, Notice};
use crate::pipeline::PipelineHashes;
use crate::policy::Policy;
use crate::time::add_seconds;

pub use manual_request::{FOCUS_CHARS_MAX, MANUAL_RUNS_MAX, ManualRequest};

/// Stored state of a workflow: its window and its open retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkflowState {
    /// Number of counted runs, equal to the last assigned ordinal.
    pub counted: Ordinal,
    /// Last ordinal claimed by a retrospective and not released; 0 if there is none.
    pub claimed: Ordinal,
    /// Epoch of the most recent retrospective; 0 before the first one.
    pub epoch: Epoch,
    /// `true` while the retrospective of epoch `epoch` is open.
    pub open: bool,
    /// Number of consecutive retrospectives that ended without a successful investigation.
    pub failures: u32,
    /// Time until which no retrospective opens; `None` if the workflow is not paused.
    pub paused_until: Option<Timestamp>,
    /// Highest position in the intake stream of a run that was counted since the window was last empty; 0 if there is
    /// none.
    pub counted_up_to: u64,
    /// Position up to which the intake stream had been handled when a run of the workflow was last counted.
    pub handled_up_to: u64,
}

impl WorkflowState {
    /// Returns the number of counted runs that no retrospective has claimed.
    pub const fn window_size(&self) -> u64 {
        self.counted.saturating_sub(self.claimed)
    }

    /// Returns `true` if every event that precedes a waiting run in the intake stream has been handled. With several
    /// counters, one may count what comes later in the stream before another counts what comes first.
    pub const fn is_in_order(&self) -> bool {
        self.counted_up_to <= self.handled_up_to
    }

    /// Returns `true` if a retrospective should open: at least `threshold_runs` runs wait, no retrospective is open, and
    /// the workflow is not paused.
    pub fn is_due(&self, policy: &Policy, as_of: Timestamp) -> bool {
        let paused = self.paused_until.is_some_and(|until| as_of < until);
        !self.open && !paused && self.window_size() >= u64::from(policy.threshold_runs)
    }

    /// Opens a retrospective if one is due and enough runs wait in order. Of a backlog it claims a part, so that what it
    /// costs follows the policy and not the arrears. `waiting_in_order` is the number of waiting runs up to
    /// `handled_up_to`, and not read if all of them are in order.
    pub fn open_if_due(
        &mut self,
        key: &WorkflowKey,
        policy: &Policy,
        as_of: Timestamp,
        waiting_in_order: u64,
    ) -> Option<OpenedRetrospective> {
        let waiting = if self.is_in_order() { self.window_size() } else { waiting_in_order };
        if !self.is_due(policy, as_of) || waiting < u64::from(policy.threshold_runs) {
            return None;
        }
        Some(self.open_now(key, policy, as_of, self.share_of(waiting, policy)))
    }

    /// Returns the number of runs that a retrospective claims if this many of the waiting runs can be claimed.
    fn share_of(&self, claimable: u64, policy: &Policy) -> u64 {
        let waiting = self.window_size();
        let share = waiting.saturating_mul(policy.window_backlog_permille.into()) / 1000;
        let largest = share.max(policy.window_runs_max.into()).max(policy.threshold_runs.into());
        claimable.min(waiting).min(largest)
    }

    /// Opens a retrospective over the runs that wait, or over the first of a backlog, in any order and regardless of any
    /// pause. At least one run must wait.
    pub(crate) fn open_over_waiting(
        &mut self,
        key: &WorkflowKey,
        policy: &Policy,
        as_of: Timestamp,
    ) -> OpenedRetrospective {
        self.open_now(key, policy, as_of, self.share_of(self.window_size(), policy))
    }

    /// Opens a retrospective over the first `runs` runs that wait, at least one.
    pub(crate) fn open_now(
        &mut self,
        key: &WorkflowKey,
        policy: &Policy,
        as_of: Timestamp,
        runs: u64,
    ) -> OpenedRetrospective {
        self.epoch += 1;
        self.open = true;
        let last = self.claimed + runs;
        let retrospective = Retrospective {
            id: RetrospectiveId::of_epoch(key, self.epoch),
            key: key.clone(),
            epoch: self.epoch,
            first: self.claimed + 1,
            last,
            as_of,
            policy: policy.clone(),
            pipeline: policy.pipeline.as_ref().map(|version| version.hashes().clone()),
            state: RetrospectiveState::Due,
            manual_request: None,
        };
        // Claimed at once, so runs counted from now on are part of a later window.
        self.claimed = last;
        self.paused_until = None;
        if self.window_size() == 0 {
            // A new stream begins with lower positions; those of an old one must not count for ever.
            self.counted_up_to = 0;
        }
        let message = Notice::RetrospectiveDue { retrospective: retrospective.id }.into_message(key);
        OpenedRetrospective { retrospective, message }
    }

    /// Closes the open retrospective as successful. Its window stays claimed.
    pub fn close_retrospective(&mut self) {
        self.open = false;
        self.failures = 0;
        self.paused_until = None;
    }

    /// Ends the open retrospective as failed. Its epoch is not reused, its runs are released and keep their
    /// ordinals, and the workflow pauses, for longer after each consecutive failure.
    pub fn release_window(&mut self, retrospective: &Retrospective) {
        self.open = false;
        // Runs counted in the meantime come after `last`, so they form one contiguous window with the
        // released runs.
        self.claimed = retrospective.first - 1;
        let pause = failure_pause_s(&retrospective.policy, self.failures);
        self.failures = self.failures.saturating_add(1);
        self.paused_until = Some(add_seconds(retrospective.as_of, pause));
    }
}

/// Returns the pause in seconds after `failures` earlier consecutive failures: by default 1 h, 2 h, 4 h and
/// so on, up to 24 h.
pub fn failure_pause_s(policy: &Policy, failures: u32) -> u64 {
    // The exponent is limited, because the shift overflows at 64 failures.
    policy.failure_pause_s.saturating_mul(1u64 << failures.min(20)).min(policy.failure_pause_max_s)
}

/// A newly opened retrospective, with the message that wakes the sampler.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedRetrospective {
    /// Retrospective to store, in state `Due`.
    pub retrospective: Retrospective,
    /// Message that wakes the sampler.
    pub message: Message,
}

/// A retrospective, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retrospective {
    /// Id derived from the workflow and epoch, or from the workflow and request id of a manual retrospective.
    pub id: RetrospectiveId,
    /// Workflow that the retrospective examines.
    pub key: WorkflowKey,
    /// 1-based number of the retrospective within the workflow; 0 for a manual retrospective.
    pub epoch: Epoch,
    /// First ordinal of the window; 0 for a manual retrospective, which claims no window.
    pub first: Ordinal,
    /// Last ordinal of the window; 0 for a manual retrospective.
    pub last: Ordinal,
    /// Policy moment: the time that counts as the present in all decisions of the retrospective. The clock is
    /// read once, when the retrospective opens.
    pub as_of: Timestamp,
    /// Policy in force when the retrospective was opened, which applies until it ends.
    #[serde(serialize_with = "crate::policy::serialize_stored")]
    pub policy: Policy,
    /// Version of the pipeline in force when the retrospective was opened, which applies until it ends. `None` if it was
    /// opened by a program that stored none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineHashes>,
    /// Current state.
    pub state: RetrospectiveState,
    /// Request that opened a manual retrospective; `None` for an automatic one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual_request: Option<ManualRequest>,
}

impl Retrospective {
    /// Returns the number of runs in the window; for a manual retrospective, the number of named runs.
    pub const fn window_runs(&self) -> u64 {
        match &self.manual_request {
            Some(request) => request.runs.len() as u64,
            None => self.last + 1 - self.first,
        }
    }
}

/// State of a retrospective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RetrospectiveState {
    /// Opened and waiting for its sample.
    Due,
    /// The sampled runs are being investigated, one after another.
    Investigating,
    /// All investigations have ended, and the mutations wait for the writer.
    Settling,
    /// Ended successfully, and its report is stored.
    Closed,
    /// Ended without a successful investigation. The report says so, and the runs are released.
    Failed,
    /// Cancelled by an operator, and its runs are released.
    Cancelled,
}

impl RetrospectiveState {
    /// Returns the state as it is stored and shown, such as `investigating`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns `true` if a retrospective in this state prevents its workflow from opening another one.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Due | Self::Investigating | Self::Settling)
    }
}

/// Investigation of one sampled run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Investigation {
    /// 1-based position of the investigation in its retrospective.
    pub number: u32,
    /// Ordinal of the run.
    pub ordinal: Ordinal,
    /// Id of the run.
    pub run: RunId,
    /// `true` if this investigation replaced one that failed.
    pub replacement: bool,
    /// Result of the investigation; `None` while it is waiting or running.
    pub result: Option<InvestigationResult>,
}

/// Result of an investigation. Finding nothing, giving an invalid answer and failing are distinct results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum InvestigationResult {
    /// The investigation found patterns.
    Found {
        /// Findings, verdicts and the number of dropped entries, after the mechanical checks.
        #[serde(flatten)]
        checked: CheckedAnswer,
        /// Memories that were presented to the run.
        presented: Vec<PresentedMemory>,
    },
    /// The investigation found no pattern. It may still have given verdicts.
    Nothing {
        /// Verdicts and the number of dropped entries; there are no findings.
        #[serde(flatten)]
        checked: CheckedAnswer,
        /// Memories that were presented to the run.
        presented: Vec<PresentedMemory>,
    },
    /// The investigator's answers were unusable.
    Invalid {
        /// Reason why the answers were unusable.
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
    pub memory: MemoryId,
    /// `true` if the agent opened the memory.
    pub read: bool,
    /// Repository of a rule; `None` for a memory of the run's own workflow. A verdict on a rule is applied
    /// under the lock of the repository's rule scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<Repository>,
}

impl PresentedMemory {
    /// Creates the entry for a memory of the run's own workflow.
    pub const fn from_own_workflow(memory: MemoryId, read: bool) -> Self {
        Self { memory, read, repo: None }
    }
}

impl InvestigationResult {
    /// Returns `true` if the investigation succeeded, even if it found nothing.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Found { .. } | Self::Nothing { .. })
    }

    /// Returns the result as it is stored and shown, such as `found`.
    pub fn as_str(&self) -> &'static str {
        self.into()
    }

    /// Returns the checked answer and the presented memories of a successful investigation, or `None` for
    /// other results.
    pub const fn checked_answer(&self) -> Option<(&CheckedAnswer, &Vec<PresentedMemory>)> {
        match self {
            Self::Found { checked, presented } | Self::Nothing { checked, presented } => {
                Some((checked, presented))
            }
            _ => None,
        }
    }

    /// Returns the reason why the investigation gave no answer, or `None` if it succeeded.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Invalid { reason } | Self::Failed { reason } | Self::BodyGone { reason } => Some(reason),
            Self::Found { .. } | Self::Nothing { .. } => None,
        }
    }
}

/// Returns the first run of the retrospective in which the error of the finding passed without a change.
pub(crate) fn find_transient_run(investigations: &[Investigation], finding: &Finding) -> Option<RunId> {
    let passed = |one: &&Investigation| {
        one.result.as_ref().and_then(|result| result.checked_answer()).is_some_and(|(checked, _)| {
            checked.transients.iter().any(|one| one.matches_cue(&finding.step, &finding.cue))
        })
    };
    investigations.iter().find(passed).map(|one| one.run.clone())
}
