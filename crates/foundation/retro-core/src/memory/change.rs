//! Changes that the writer made to memories, or refused to make, with their causes and reasons.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::{Evidence, Lesson, MemoryScope, MemoryStatus};
use crate::attribution::DecisionToken;
use crate::id::{
    ChangeId, Epoch, FeedbackId, MemoryId, MutationId, ProposalId, RemarkKey, RetrospectiveId, RunId,
    Workflow, WorkflowKey, derive_uuid,
};
use crate::pipeline::PipelineHash;
use crate::pull_request::CreditedOutcome;
use crate::weight::{Weight, WeightDelta};

/// Cause of a change. The memory, the cause and the kind of the change form the effect key, which takes
/// effect only once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum ChangeCause {
    /// A run showed the lesson, contradicted the memory, or used the rule.
    Run {
        /// Workflow of the run.
        workflow: Workflow,
        /// Id of the run.
        run: RunId,
    },
    /// A retrospective finished its investigations and settled.
    Retrospective {
        /// Id of the retrospective.
        id: RetrospectiveId,
    },
    /// The outcome of a run's pull request became known.
    Outcome {
        /// Workflow of the run.
        workflow: Workflow,
        /// Run in which the memory was applied.
        run: RunId,
        /// Outcome of the pull request, such as merged.
        // Stored change ids derive from the name `end`, from the time when only the two ends of a pull request counted.
        #[serde(rename = "end")]
        outcome: CreditedOutcome,
    },
    /// An operator requested the change.
    Operator {
        /// Id of the request, given by the operator or derived.
        request: String,
    },
    /// A review remark requested the change.
    Review {
        /// Key of the remark.
        remark: RemarkKey,
        /// Edition of the remark's text, as returned by `Remark::edition`.
        edition: String,
    },
    /// The agent of a run saved the lesson during the run.
    Save {
        /// Workflow of the run.
        workflow: Workflow,
        /// Id of the run.
        run: RunId,
    },
    /// Feedback of a person on a rule was weighed.
    Feedback {
        /// Id of the feedback.
        id: FeedbackId,
    },
    /// A rule expired: it was presented many times, but no run used it.
    Expiry {
        /// Number of investigated runs to which the rule has ever been presented.
        presentations: u64,
    },
}

impl ChangeCause {
    /// Returns `true` if a person caused the change directly: an operator, or the author of a remark.
    pub(crate) const fn is_by_person(&self) -> bool {
        matches!(self, Self::Operator { .. } | Self::Review { .. })
    }

    // Stored change ids derive from this key, so its form must never change.
    fn canonical_key(&self) -> String {
        crate::canonical::canonical_json(&serde_json::to_value(self).expect("a cause is plain data"))
    }
}

/// A change that the writer made to a memory, or refused to make. Stored changes are never modified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Id derived from the effect key.
    pub id: ChangeId,
    /// Id of the memory that changed. For a suppressed or refused request, the id of the memory that would
    /// have been created or changed.
    pub memory: MemoryId,
    /// Cause of the change.
    pub cause: ChangeCause,
    /// Effect of the change on the memory.
    pub effect: ChangeEffect,
    /// Mutation that requested the change; `None` for a change caused by an operator or by the outcome of a
    /// pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<MutationId>,
    /// Retrospective in which the change was made; `None` for a change made outside a retrospective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrospective: Option<RetrospectiveId>,
    /// Epoch of the retrospective; `None` for a change made outside a retrospective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Version of the pipeline of the retrospective or review in which the change was made; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineHash>,
    /// Time of the change: the `as_of` of the retrospective or batch, or the writer's clock for other
    /// changes.
    pub at: Timestamp,
    /// Reason for the change, in one sentence for people.
    pub reason: String,
    /// Access token with which a person requested the change; `None` if there was none. No decision reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_token: Option<DecisionToken>,
}

impl Change {
    /// Creates a change with the id of its effect key, not requested by a mutation and made outside a
    /// retrospective. `key` is the workflow or rule scope of the memory.
    pub(crate) fn new(
        key: &WorkflowKey,
        memory: MemoryId,
        cause: ChangeCause,
        effect: ChangeEffect,
        reason: String,
        at: Timestamp,
    ) -> Self {
        let id = change_id(key, memory, &cause, effect.kind());
        let (mutation, retrospective, epoch) = (None, None, None);
        let (pipeline, with_token) = (None, None);
        Self { id, memory, cause, effect, mutation, retrospective, epoch, pipeline, at, reason, with_token }
    }
}

/// Effect of a change on its memory, with everything that the fold needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "changes are few and short-lived; a box would only hide the lesson"
)]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ChangeEffect {
    /// A memory was created.
    Created {
        /// Scope in which the memory applies.
        scope: MemoryScope,
        /// Content of the memory.
        lesson: Lesson,
        /// Initial status: tentative, or active if one run is enough.
        status: MemoryStatus,
        /// Initial weight, in thousandths.
        weight: Weight,
        /// Evidence of the run or remark that created the memory; `None` if an operator wrote it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<Evidence>,
        /// Reason why only an operator may promote the memory; `None` if the memory is not quarantined.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quarantine: Option<String>,
        /// Name of the operator who added the memory; `None` if the program learnt it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Another run confirmed a tentative memory, or a person of sufficient standing confirmed a rule.
    Promoted {
        /// Weight after the promotion, in thousandths.
        weight: Weight,
        /// Evidence that confirmed the memory.
        evidence: Evidence,
    },
    /// An operator accepted the memory, which replaces confirmation by another run.
    Accepted {
        /// Weight after the acceptance, in thousandths.
        weight: Weight,
        /// Accepted proposal of a manual retrospective; `None` for a rule that an operator promoted directly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proposal: Option<ProposalId>,
        /// Name of the operator who accepted the memory.
        by: String,
        /// Tombstone that the operator overrode; `None` if there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tombstone_override: Option<TombstoneOverride>,
    },
    /// The lesson of a tentative or active memory was observed again. This adds evidence and leaves the
    /// weight unchanged.
    Observed {
        /// Evidence that was added.
        evidence: Evidence,
    },
    /// The trace of the run whose agent saved the lesson does not contain the quote that the agent gave. The quote is
    /// dropped, and the run is no witness.
    QuoteMissing {
        /// Run of the agent.
        run: RunId,
    },
    /// The lesson was stated anew: because more runs show what they have in common, the same remedy of the same
    /// error, more or less specific, or because an operator worded it. Weight and evidence stay.
    Revised {
        /// New content of the memory.
        lesson: Lesson,
    },
    /// The weight of the memory changed.
    Reweighted {
        /// Weight before the change, in thousandths.
        before: Weight,
        /// Sum of `parts` in thousandths, before the new weight is clamped.
        delta: WeightDelta,
        /// Weight after the change, clamped to its range, in thousandths.
        after: Weight,
        /// Individual weight changes that were summed, each with its reason.
        parts: Vec<WeightPart>,
        /// New number of consecutive retrospectives in which the cue was not met.
        cue_not_met: u32,
        /// Runs that contradicted the memory in this retrospective.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        contradicted_by: Vec<RunId>,
    },
    /// The memory was presented and not used, but lost no weight because its cue was not met.
    Exempted {
        /// Number of consecutive retrospectives in which the cue was not met, including this one.
        cue_not_met: u32,
    },
    /// The memory was archived because its weight fell too low, or because no run used the rule.
    Archived,
    /// The lesson of an archived memory was observed again. The memory is tentative again, and this evidence
    /// is the first that counts towards its confirmation.
    Revived {
        /// Evidence of the new observation.
        evidence: Evidence,
    },
    /// The memory was deleted.
    Deleted {
        /// Time until which similar lessons are suppressed; `None` if no tombstone was created.
        tombstone_until: Option<Timestamp>,
    },
    /// Another memory replaced this one.
    Superseded {
        /// Id of the memory that replaced it.
        by: MemoryId,
    },
    /// The memory was put into quarantine: it is shown to no agent until an operator releases it.
    Held {
        /// Reason, in one sentence for people.
        why: String,
    },
    /// An operator released the memory from quarantine.
    Released {
        /// Name of the operator.
        by: String,
    },
    /// An operator disabled the memory: it is handed to no agent, and only people change its weight or end it.
    Disabled {
        /// Name of the operator.
        by: String,
    },
    /// An operator enabled a disabled memory.
    Enabled {
        /// Name of the operator.
        by: String,
    },
    /// An operator pinned the memory: it does not fade.
    Pinned {
        /// Name of the operator.
        by: String,
    },
    /// An operator removed the pin of the memory.
    Unpinned {
        /// Name of the operator.
        by: String,
    },
    /// An operator took back the deletion of the memory, which lifts its tombstone.
    Restored {
        /// Status before the deletion.
        status: MemoryStatus,
        /// Name of the operator.
        by: String,
    },
    /// A tombstone prevented the creation of a memory. No memory changed.
    Suppressed {
        /// Deleted memory for which the tombstone was created.
        tombstone_of: MemoryId,
        /// Similarity of the lesson to that of the tombstone, in thousandths; 1000 for an equal signature.
        similarity: u16,
        /// Title of the suppressed lesson.
        title: String,
    },
    /// The writer refused a request. No memory changed.
    Refused {
        /// Kind of the refused request, such as `credit`.
        requested: String,
    },
}

/// A tombstone that an operator overrode by accepting a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstoneOverride {
    /// Deleted memory for which the tombstone was created.
    pub tombstone_of: MemoryId,
    /// Reason for overriding the tombstone, in the operator's words.
    pub reason: String,
}

/// One part of a weight change, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightPart {
    /// Contribution of this part to the weight change, in thousandths.
    pub delta: WeightDelta,
    /// Kind of reason for this part.
    pub kind: WeightReason,
    /// Run whose verdict caused this part; `None` if the policy caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Person whose feedback caused this part; `None` if nobody's did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Reason as one sentence, given by the investigator or by the policy.
    pub reason: String,
}

/// Kind of reason for a weight change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum WeightReason {
    /// The memory helped in a run.
    Helped,
    /// The memory harmed in a run.
    Harmed,
    /// A run contradicted the memory, which counts as harm.
    Contradicted,
    /// The memory was applied, with neither a good nor a bad effect.
    Applied,
    /// The agent opened the memory, and nothing more is known about its effect.
    Read,
    /// The memory was presented to runs of this retrospective and not used in any of them.
    Ignored,
    /// Calls that do not follow the memory hardly ever fail, so it is not needed.
    Unneeded,
    /// The memory is in limbo: its weight is too low to be presented and too high to be archived.
    Limbo,
    /// The memory is in limbo, and its lesson was observed again.
    Observed,
    /// The memory was applied in a run whose pull request was merged.
    Merged,
    /// The memory was applied in a run whose pull request was closed without a merge.
    #[strum(serialize = "closed unmerged")]
    ClosedUnmerged,
    /// The memory was applied in a run on whose pull request changes were requested.
    #[strum(serialize = "changes requested")]
    ChangesRequested,
    /// The memory was applied in a run whose pull request was merged and then reverted.
    Reverted,
}

impl WeightReason {
    /// Returns the reason as it is shown, such as `closed unmerged`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl ChangeEffect {
    /// Returns the kind of the change as it is stored and shown. The kind is part of the effect key.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// Returns `true` if a change of this kind leaves the memory unchanged.
    pub const fn leaves_memory_unchanged(&self) -> bool {
        matches!(self, Self::Suppressed { .. } | Self::Refused { .. })
    }
}

/// Kinds of change by which an observation takes effect, including its suppression by a tombstone. A refusal
/// is not one of these kinds.
pub(crate) const OBSERVATION_KINDS: &[&str] = &["created", "promoted", "observed", "revived", "suppressed"];

/// Derives the id of a change from its effect key: equal keys give equal ids.
pub fn change_id(key: &WorkflowKey, memory: MemoryId, cause: &ChangeCause, kind: &str) -> ChangeId {
    let parts =
        [key.tenant.as_str(), key.workflow.as_str(), &memory.to_string(), &cause.canonical_key(), kind];
    ChangeId(derive_uuid("change", &parts))
}
