//! Changes that the writer made to a memory or refused to make, with their reasons.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Evidence, Lesson, MemoryScope, MemoryStatus};
use crate::id::{
    ChangeId, Epoch, MemoryId, MutationId, ProposalId, RetrospectiveId, RunId, Workflow, WorkflowKey,
    derive_uuid,
};
use crate::outcome::PullRequestEnd;
use crate::review::RemarkKey;
use crate::weight::{Weight, WeightDelta};

/// Cause of a change. Together with the memory and the kind of change it is the effect key, which is used once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum ChangeCause {
    /// A run showed the lesson.
    Run {
        /// Workflow of the run.
        workflow: Workflow,
        /// Id of the run.
        run: RunId,
    },
    /// A retrospective settled.
    Retrospective {
        /// Id of the retrospective.
        id: RetrospectiveId,
    },
    /// The pull request of a run ended.
    Outcome {
        /// Workflow of the run.
        workflow: Workflow,
        /// Run in which the memory was applied.
        run: RunId,
        /// End of the pull request.
        end: PullRequestEnd,
    },
    /// A person requested the change.
    Operator {
        /// Id of the request, given or derived.
        request: String,
    },
    /// A remark of a review requested the change.
    Review {
        /// Key of the remark.
        remark: RemarkKey,
        /// Edition of the remark's text (`Remark::edition`).
        edition: String,
    },
    /// A rule was presented many times, and no run used it.
    Expiry {
        /// Number of investigated runs that it was ever presented to.
        presentations: u64,
    },
}

impl ChangeCause {
    // Stored change ids derive from this key, so its form must never change.
    fn canonical_key(&self) -> String {
        crate::canonical::canonical_json(&serde_json::to_value(self).expect("a cause is plain data"))
    }
}

/// A change that the writer made to a memory, or refused to make. Append-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Derived from the effect key.
    pub id: ChangeId,
    /// Changed memory. For a suppressed or refused request, the memory that it would have created or changed.
    pub memory: MemoryId,
    /// Cause of the change.
    pub cause: ChangeCause,
    /// Effect of the change.
    pub effect: ChangeEffect,
    /// Mutation that requested it; `None` for an operator's change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<MutationId>,
    /// Retrospective in which it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrospective: Option<RetrospectiveId>,
    /// Epoch of that retrospective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Policy moment (`as_of`) at which it was made.
    pub at: Timestamp,
    /// Reason in one sentence for people.
    pub reason: String,
}

/// Effect of a change on its memory, with everything that the fold needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "changes are few and short-lived; a box would only hide the lesson"
)]
pub enum ChangeEffect {
    /// A memory was created.
    Created {
        /// Scope in which the memory applies.
        scope: MemoryScope,
        /// Content of the memory.
        lesson: Lesson,
        /// Tentative, or active when one run is enough.
        status: MemoryStatus,
        /// First weight.
        weight: Weight,
        /// First evidence.
        evidence: Evidence,
        /// Reason why only an operator may promote it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quarantine: Option<String>,
    },
    /// A tentative memory was confirmed by a separate run, or a rule by a person of sufficient standing.
    Promoted {
        /// New weight.
        weight: Weight,
        /// Evidence that confirmed it.
        evidence: Evidence,
    },
    /// A person accepted the memory, in place of the confirmation by a separate run.
    Accepted {
        /// New weight.
        weight: Weight,
        /// Accepted proposal of a manual retrospective; `None` for a rule, which waits under its own id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proposal: Option<ProposalId>,
        /// Name of the person.
        by: String,
        /// Tombstone that the person overrode, with the reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        despite: Option<TombstoneOverride>,
    },
    /// A living memory was observed again. Adds evidence and does not change the weight.
    Observed {
        /// New evidence.
        evidence: Evidence,
    },
    /// The weight changed.
    Reweighted {
        /// Weight before.
        before: Weight,
        /// Sum of the movements of one retrospective.
        delta: WeightDelta,
        /// Weight after, clamped once.
        after: Weight,
        /// Movements that were summed.
        parts: Vec<WeightPart>,
        /// New number of consecutive retrospectives in which the cue was not met.
        cue_not_met: u32,
        /// Runs that contradicted the memory in this retrospective.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        contradicted_by: Vec<RunId>,
    },
    /// The memory was presented and not used, but its cue was not met: no weight is lost.
    Exempted {
        /// Number of consecutive retrospectives with this result, including this one.
        cue_not_met: u32,
    },
    /// The weight fell below the archive weight.
    Archived,
    /// An archived memory was observed again and is tentative with this evidence.
    Revived {
        /// New evidence.
        evidence: Evidence,
    },
    /// The memory was deleted.
    Deleted {
        /// Time until which similar lessons are suppressed; `None` leaves no tombstone.
        tombstone_until: Option<Timestamp>,
    },
    /// Another memory replaced it.
    Superseded {
        /// Replacing memory.
        by: MemoryId,
    },
    /// A tombstone prevented a new memory. Changes nothing else.
    Suppressed {
        /// Memory that left the tombstone.
        tombstone_of: MemoryId,
        /// Similarity in thousandths; 1000 for an equal signature.
        similarity: u16,
        /// Title of the suppressed lesson.
        title: String,
    },
    /// The writer refused a request. Changes nothing else.
    Refused {
        /// Kind of request.
        asked: String,
    },
}

/// A tombstone that a person overrode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstoneOverride {
    /// Memory that left the tombstone.
    pub tombstone_of: MemoryId,
    /// Reason in the person's words.
    pub reason: String,
}

/// One movement of a weight with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightPart {
    /// Movement of the weight.
    pub delta: WeightDelta,
    /// Kind of reason.
    pub why: WeightReason,
    /// Run of the verdict, if the movement comes from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Reason given by the investigator or by the policy.
    pub reason: String,
}

/// Kind of reason that moved a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightReason {
    /// The memory helped in a run.
    Helped,
    /// The memory harmed in a run.
    Harmed,
    /// A run contradicted the memory; counts as a harm.
    Contradicted,
    /// The memory was applied and had neither a good nor a bad effect.
    Applied,
    /// The agent opened the memory, and nothing more is known.
    Read,
    /// The memory was presented to runs of this retrospective and not used in any of them.
    Ignored,
    /// The memory is in limbo: its weight is too low to be presented and too high to be archived.
    Limbo,
    /// The memory is in limbo and was observed again.
    Observed,
    /// The memory was applied in a run whose pull request was merged.
    Merged,
    /// The memory was applied in a run whose pull request was closed without a merge.
    ClosedUnmerged,
}

impl WeightReason {
    /// Returns the word as shown.
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

impl ChangeEffect {
    /// Returns the kind of change as stored and shown; part of the effect key.
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

    /// Returns whether the memory does not change.
    pub const fn leaves_memory_unchanged(&self) -> bool {
        matches!(self, Self::Suppressed { .. } | Self::Refused { .. })
    }
}

/// Returns the id of the change with this effect key. Two changes with one key are the same change.
pub fn change_id(key: &WorkflowKey, memory: MemoryId, cause: &ChangeCause, kind: &str) -> ChangeId {
    let parts =
        [key.tenant.as_str(), key.workflow.as_str(), &memory.to_string(), &cause.canonical_key(), kind];
    ChangeId(derive_uuid("change", &parts))
}
