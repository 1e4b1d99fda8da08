//! Changes: what the writer did to a memory, or refused to do, and why.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Evidence, Lesson, Scope, Status};
use crate::id::{
    ChangeId, Epoch, MemoryId, MutationId, ProposalId, RetrospectiveId, RunId, Workflow, WorkflowKey, derive,
};
use crate::outcome::PullRequestEnd;
use crate::review::RemarkKey;
use crate::weight::{Delta, Weight};

/// What made a change happen. With the memory and the kind of change it is the effect key: it happens once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Cause {
    /// A run showed it.
    Run {
        /// Its workflow.
        workflow: Workflow,
        /// Its id.
        run: RunId,
    },
    /// A retrospective summed it up.
    Retrospective {
        /// Its id.
        id: RetrospectiveId,
    },
    /// The pull request of a run ended.
    Outcome {
        /// The run's workflow.
        workflow: Workflow,
        /// The run, in which the memory was applied.
        run: RunId,
        /// How.
        end: PullRequestEnd,
    },
    /// A person asked for it.
    Operator {
        /// The request's id, given or derived.
        request: String,
    },
    /// A remark of a review said so.
    Review {
        /// The remark.
        remark: RemarkKey,
        /// Which of its texts (`Remark::edition`).
        edition: String,
    },
    /// It was presented again and again, and nobody used it.
    Expiry {
        /// The runs that it had been presented to and that were looked into, ever.
        presentations: u64,
    },
}

impl Cause {
    fn key(&self) -> String {
        crate::canonical::canonical_json(&serde_json::to_value(self).expect("a cause is plain data"))
    }
}

/// One thing the writer did, or refused to do. Append-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Derived from the effect key.
    pub id: ChangeId,
    /// The memory; for something suppressed or refused, the one it would have become or touched.
    pub memory: MemoryId,
    /// What made it happen.
    pub cause: Cause,
    /// What was done.
    pub effect: Effect,
    /// The mutation that asked for it; `None` for what a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<MutationId>,
    /// The retrospective in which it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrospective: Option<RetrospectiveId>,
    /// The epoch of that retrospective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// The policy moment (`as_of`) at which it happened.
    pub at: Timestamp,
    /// Why, in one sentence for people.
    pub reason: String,
}

/// What a change did to its memory: everything that the fold needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "changes are few and short-lived; a box would only hide the lesson"
)]
pub enum Effect {
    /// A new memory.
    Created {
        /// What it is about.
        scope: Scope,
        /// What it says.
        lesson: Lesson,
        /// Tentative, or active when one run is enough.
        status: Status,
        /// Its first weight.
        weight: Weight,
        /// What shows it.
        evidence: Evidence,
        /// Why only a person may promote it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quarantine: Option<String>,
    },
    /// A tentative memory was confirmed by a separate run, or a rule by somebody whose word is enough.
    Promoted {
        /// Its weight from now on.
        weight: Weight,
        /// What confirmed it.
        evidence: Evidence,
    },
    /// A person accepted it: what a separate run would have had to confirm, they vouch for.
    Accepted {
        /// Its weight from now on.
        weight: Weight,
        /// The proposal of a manual retrospective that they accepted; `None` for a rule, which waits under its own id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proposal: Option<ProposalId>,
        /// Who.
        by: String,
        /// The tombstone that forbade it, and why they did not mind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        despite: Option<Despite>,
    },
    /// A living memory was seen again: evidence, not weight.
    Observed {
        /// What was seen.
        evidence: Evidence,
    },
    /// Its weight moved.
    Reweighted {
        /// Before.
        before: Weight,
        /// The sum of a retrospective's movements.
        delta: Delta,
        /// After, clamped once.
        after: Weight,
        /// What it is summed from.
        parts: Vec<WeightPart>,
        /// Retrospectives in a row in which the cue never came up, from now on.
        cue_not_met: u32,
        /// Runs that contradicted it in this retrospective.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        contradicted_by: Vec<RunId>,
    },
    /// Presented and unused, but its cue never came up: no weight lost.
    Exempted {
        /// Retrospectives in a row, this one included.
        cue_not_met: u32,
    },
    /// It faded below the archive weight.
    Archived,
    /// An archived memory was seen again: tentative once more, with its evidence.
    Revived {
        /// What was seen.
        evidence: Evidence,
    },
    /// It was deleted.
    Deleted {
        /// Until when anything similar is kept away; `None` leaves no tombstone.
        tombstone_until: Option<Timestamp>,
    },
    /// Another memory took its place.
    Superseded {
        /// The other.
        by: MemoryId,
    },
    /// A tombstone kept a new memory from being made. Changes nothing else.
    Suppressed {
        /// The memory that left the tombstone.
        tombstone_of: MemoryId,
        /// How similar, in thousandths; 1000 for an equal signature.
        similarity: u16,
        /// What was suppressed.
        title: String,
    },
    /// The writer would not do what was asked. Changes nothing else.
    Refused {
        /// What was asked.
        asked: String,
    },
}

/// A tombstone that a person has overridden.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Despite {
    /// The memory that left it.
    pub tombstone_of: MemoryId,
    /// Why, in the person's words.
    pub reason: String,
}

/// One movement of a weight and its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightPart {
    /// The movement.
    pub delta: Delta,
    /// What moved it.
    pub why: WeightReason,
    /// The run, for a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The reason that the investigator gave, or the rule.
    pub reason: String,
}

/// What moved a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightReason {
    /// It helped in a run.
    Helped,
    /// It harmed in a run.
    Harmed,
    /// A run contradicted it; counts as a harm.
    Contradicted,
    /// It was applied, neither for good nor for bad.
    Applied,
    /// The agent opened it: it was used, and nothing else is known.
    Read,
    /// Presented in this retrospective's runs and used in none.
    Ignored,
    /// In limbo, where nobody could ever read it.
    Limbo,
    /// In limbo and observed again.
    Observed,
    /// It was applied in a run whose pull request was merged.
    Merged,
    /// It was applied in a run whose pull request was closed without a merge.
    ClosedUnmerged,
}

impl WeightReason {
    /// The word as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Helped => "helped",
            Self::Harmed => "harmed",
            Self::Contradicted => "contradicted",
            Self::Applied => "applied",
            Self::Read => "read",
            Self::Ignored => "ignored",
            Self::Limbo => "limbo",
            Self::Observed => "observed",
            Self::Merged => "merged",
            Self::ClosedUnmerged => "closed unmerged",
        }
    }
}

impl Effect {
    /// The kind of change, as stored and shown; part of the effect key.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Created { .. } => "created",
            Self::Promoted { .. } => "promoted",
            Self::Accepted { .. } => "accepted",
            Self::Observed { .. } => "observed",
            Self::Reweighted { .. } => "reweighted",
            Self::Exempted { .. } => "exempted",
            Self::Archived => "archived",
            Self::Revived { .. } => "revived",
            Self::Deleted { .. } => "deleted",
            Self::Superseded { .. } => "superseded",
            Self::Suppressed { .. } => "suppressed",
            Self::Refused { .. } => "refused",
        }
    }

    /// Whether it leaves its memory as it was.
    pub const fn leaves_memory(&self) -> bool {
        matches!(self, Self::Suppressed { .. } | Self::Refused { .. })
    }
}

/// The id of the change with this effect key. Two changes with one key are one change.
pub fn change_id(key: &WorkflowKey, memory: MemoryId, cause: &Cause, kind: &str) -> ChangeId {
    let parts = [key.tenant.as_str(), key.workflow.as_str(), &memory.to_string(), &cause.key(), kind];
    ChangeId(derive("change", &parts))
}
