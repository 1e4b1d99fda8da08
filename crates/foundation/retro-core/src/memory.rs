//! Memories, the changes to them, and the fold that computes a memory from its changes.
//!
//! The change log is append-only, and every stored memory equals the fold of its changes. `retro verify`
//! checks this on a live store. While a batch of mutations is applied, one ledger records its changes, each
//! once, for memories and rules alike. The README of this crate shows the state machine, as drawn by
//! [`render_state_machine`].

mod change;
mod fold;
mod ledger;
mod listing;
mod proposal;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::audience::{Audience, RunRepository};
use crate::finding::{EvidenceOrigin, Finding, LessonCue, Quote};
use crate::id::{Epoch, MemoryId, RemarkKey, Repository, RunId, Step, Tenant, Workflow};
use crate::remark::AuthorStanding;
use crate::trajectory::QuotePlace;
use crate::weight::Weight;

pub(crate) use change::OBSERVATION_KINDS;
pub use change::{Change, ChangeCause, ChangeEffect, TombstoneOverride, WeightPart, WeightReason, change_id};
pub use fold::{FoldError, fold_change, initial_statuses, legal_changes, render_state_machine, status_after};
pub use ledger::{AppliedBatch, ChangeSummary, MutationOutcome, MutationSummary};
pub(crate) use ledger::{LedgerFacts, MemoryLedger, OutcomeReason};
pub(crate) use listing::list_memories;
pub use listing::{MEMORIES_LISTED_MAX, MemoryLine, MemoryListing};
pub use proposal::Proposal;

/// Part of the tenant's work to which a memory applies. Memories, tombstones and confirmations are compared
/// only within one scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "scope", rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum MemoryScope {
    /// The memory applies to one step of a workflow.
    Step {
        /// Name of the workflow.
        workflow: Workflow,
        /// Name of the step.
        step: Step,
        /// Repositories whose runs are handed the memory.
        #[serde(default, skip_serializing_if = "Audience::is_everyone")]
        audience: Audience,
    },
    /// The memory applies to a whole workflow.
    Workflow {
        /// Name of the workflow.
        workflow: Workflow,
    },
    /// The memory applies to a repository or to a path in it.
    Repository {
        /// Name of the repository, as `owner/name`.
        repo: String,
        /// Path or pattern within the repository; `None` for the whole repository.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// The memory applies to one user.
    User {
        /// Name of the user, as the emitter of the events writes it.
        user: String,
    },
    /// The memory applies to an account of the tenant.
    Account {
        /// Name of the account.
        account: String,
    },
    /// The memory applies to all workflows of the tenant.
    Platform,
}

impl MemoryScope {
    /// Returns the scopes of a step whose memories are handed to a run of the repository, the narrowest first.
    pub fn all_of_run(workflow: &Workflow, step: &Step, repository: Option<&RunRepository>) -> Vec<Self> {
        let scope = |audience| Self::Step { workflow: workflow.clone(), step: step.clone(), audience };
        Audience::all_of_run(repository).into_iter().map(scope).collect()
    }

    /// Returns the kind of the scope as stored: `step`, `workflow`, `repository`, `user`, `account` or
    /// `platform`.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// Returns the workflow of a step or workflow scope, or `None` for other scopes.
    pub const fn workflow(&self) -> Option<&Workflow> {
        match self {
            Self::Step { workflow, .. } | Self::Workflow { workflow } => Some(workflow),
            _ => None,
        }
    }

    /// Returns the step of a step scope, or `None` for other scopes.
    pub const fn step(&self) -> Option<&Step> {
        match self {
            Self::Step { step, .. } => Some(step),
            _ => None,
        }
    }

    /// Returns the repositories whose runs are handed a memory of a step, or `None` for other scopes.
    pub const fn audience(&self) -> Option<&Audience> {
        match self {
            Self::Step { audience, .. } => Some(audience),
            _ => None,
        }
    }

    /// Returns `true` if a run of the repository is handed memories of this scope, as far as repositories are concerned.
    pub fn includes_run(&self, repository: Option<&RunRepository>) -> bool {
        match self {
            Self::Step { audience, .. } => audience.includes(repository),
            Self::Repository { repo, .. } => {
                repository.is_some_and(|one| Repository::new(repo).is_ok_and(|own| own == one.repo))
            }
            _ => true,
        }
    }

    /// Returns `true` if both are scopes of one step of a workflow, whatever their audiences are.
    pub fn is_same_step(&self, other: &Self) -> bool {
        self.step().is_some() && self.workflow() == other.workflow() && self.step() == other.step()
    }

    /// Returns the workflow name under which the lock, change log and tombstones of this scope are stored.
    /// For a repository, this is the name of its rule scope (`repo:owner/name`). Returns `None` for scopes
    /// that are not supported yet.
    pub fn owning_workflow(&self) -> Option<Workflow> {
        match self {
            Self::Step { workflow, .. } | Self::Workflow { workflow } => Some(workflow.clone()),
            Self::Repository { repo, .. } => {
                Some(Repository::new(repo).ok()?.rule_scope(&Tenant::default_tenant()).workflow)
            }
            Self::User { .. } | Self::Account { .. } | Self::Platform => None,
        }
    }

    /// Returns the scope as stored: canonical JSON, so equal scopes have equal keys.
    pub fn storage_key(&self) -> String {
        crate::canonical::canonical_json(&serde_json::to_value(self).expect("a scope is plain data"))
    }
}

/// Status of a memory in its life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(Display, EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MemoryStatus {
    /// Seen in one run. A tentative memory is never presented; a second run confirms it.
    Tentative,
    /// Confirmed. An active memory is presented if its weight is high enough.
    Active,
    /// Archived because its weight fell too low, or because no run used the rule. Another observation of the
    /// lesson revives the memory.
    Archived,
    /// Deleted. A tombstone may suppress similar lessons for a time.
    Deleted,
    /// Replaced by another memory.
    Superseded,
    /// Built into the workflow itself and no longer presented.
    Graduated,
}

impl MemoryStatus {
    /// All statuses, in display order, which is the order of declaration.
    pub const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    /// Returns the status as it is stored and shown, such as `tentative`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns `true` if another observation of the lesson changes this memory instead of creating a new one.
    pub const fn is_living(self) -> bool {
        matches!(self, Self::Tentative | Self::Active | Self::Archived)
    }
}

/// Evidence for a memory: one run that shows its lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Evidence {
    /// Id of the run; for a rule, the name of the pull request (`owner/name#7`).
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub run: RunId,
    /// Epoch of the retrospective that investigated the run; `None` if no retrospective did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub epoch: Option<Epoch>,
    /// Quote from the run or remark that shows the lesson.
    pub quote: Quote,
    /// Review remark that shows the lesson; `None` for evidence from a run. With a remark, `run` is the name
    /// of the pull request, so separate pull requests count like separate runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub remark: Option<RemarkSource>,
    /// Origin of the evidence; empty if nothing is known about it.
    #[serde(default, skip_serializing_if = "EvidenceOrigin::is_unknown")]
    pub origin: EvidenceOrigin,
}

impl Evidence {
    /// Returns `true` for a quote that an agent gave and that nobody has found in the trace of its run.
    pub fn is_unchecked(&self) -> bool {
        self.quote.place == QuotePlace::Saved
    }

    /// Returns the names of the witnesses: those of the origin, or the run itself.
    pub fn witnesses(&self) -> Vec<String> {
        let named = self.origin.witnesses();
        if named.is_empty() { vec![self.run.as_str().to_owned()] } else { named }
    }
}

/// Review remark that a rule is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemarkSource {
    /// Key of the remark.
    pub remark: RemarkKey,
    /// Author of the remark.
    pub by: String,
    /// Standing of the author in the repository.
    pub standing: AuthorStanding,
    /// Time when the remark was written.
    pub at: Timestamp,
}

/// Maximum number of quotes stored with a memory. The change log keeps all of them.
pub const EVIDENCE_KEPT_MAX: usize = 8;

/// Maximum number of contradictions stored with a memory. Two retrospectives with default samples cannot
/// exceed this number.
pub const CONTRADICTIONS_KEPT_MAX: usize = 16;

/// Content of a memory, which changes only by being stated anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lesson {
    /// Tool, command or file that the lesson is about.
    pub subject: String,
    /// Lesson as one imperative sentence that includes its cue.
    pub title: String,
    /// Details that an agent gets when it opens the memory.
    pub content: String,
    /// Cue that describes when the lesson applies and what following it looks like.
    pub cue: LessonCue,
    /// Name of the operator who worded title and content; `None` if the program built them, or if they are an
    /// agent's or a reviewer's. No retrospective words such a lesson anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worded_by: Option<String>,
}

impl Lesson {
    /// Creates the lesson that a finding states.
    pub fn from_finding(finding: &Finding) -> Self {
        Self {
            subject: finding.subject.clone(),
            title: finding.title.clone(),
            content: finding.content.clone(),
            cue: finding.cue.clone(),
            worded_by: None,
        }
    }

    /// Returns the text to compare if at least one of the two compared lessons has no signature.
    pub fn comparison_text(&self) -> &str {
        &self.title
    }
}

/// A memory, as computed by folding its changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Memory {
    /// Id of the memory.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub id: MemoryId,
    /// Scope in which the memory applies.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub scope: MemoryScope,
    /// Content of the memory.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub lesson: Lesson,
    /// Current status.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub status: MemoryStatus,
    /// Current weight, in thousandths.
    #[cfg_attr(feature = "schema", schema(value_type = u16, maximum = 1000))]
    pub weight: Weight,
    /// Number of distinct runs that observed the lesson.
    pub observed_runs: u32,
    /// Runs that observed the lesson since the memory last became tentative. Only a run that is not listed
    /// here can confirm the memory.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub tentative_runs: Vec<RunId>,
    /// Witnesses behind those of `tentative_runs` that are not witnesses themselves: several runs of one task
    /// by one user are one witness, and a page is one witness in whichever run it was read.
    // Pairs, not a map: the database finds held memories by the text of a field, and a run may be called like
    // that field. In a map its id would be a key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Vec<String>>))]
    pub tentative_witnesses: Vec<(RunId, String)>,
    /// Most recent evidence, at most [`EVIDENCE_KEPT_MAX`] entries.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub evidence: Vec<Evidence>,
    /// Run whose agent gave a quote that the trace of the run does not contain; `None` if there is none. The run is no
    /// witness, and the quote is dropped from `evidence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub quote_missing_in: Option<RunId>,
    /// Number of consecutive retrospectives in which the memory was presented but its cue was not met.
    pub cue_not_met: u32,
    /// Most recent runs that contradicted the memory, with the epochs of their retrospectives, at most
    /// [`CONTRADICTIONS_KEPT_MAX`]. Only those of the last two retrospectives count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Vec<Value>>))]
    pub contradicted_by: Vec<(Epoch, RunId)>,
    /// Reason for quarantine; `None` if the memory is not held. A held memory is shown to no agent until an
    /// operator releases it, and a held rule is promoted only by an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<String>,
    /// Name of the operator who released the memory from quarantine; `None` if nobody did. The gate does not
    /// hold a released memory again, until its lesson is stated anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_by: Option<String>,
    /// Name of the operator who disabled the memory; `None` if it is enabled. A disabled memory is handed to no
    /// agent, collects evidence, and keeps its weight until an operator enables it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_by: Option<String>,
    /// Name of the operator who pinned the memory; `None` if it is not pinned. A pinned memory loses weight only by
    /// harm and contradiction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_by: Option<String>,
    /// Name of the operator who added the memory: in words of their own, or from a remark. `None` if the program
    /// learnt it. A rule that an operator added stays when a remark behind it is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_by: Option<String>,
    /// Highest standing of the people who asked for the rule, or that of an insider if an operator added it; `None`
    /// for other memories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub authority: Option<AuthorStanding>,
    /// Time when the memory was created.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub created_at: Timestamp,
    /// Time when the memory last changed.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub changed_at: Timestamp,
}

impl Memory {
    /// Returns what the agent of a run said that a tool answered, as long as nobody has found it in the trace.
    pub fn unchecked_evidence(&self, run: &RunId) -> Option<&Evidence> {
        self.evidence.iter().find(|evidence| evidence.is_unchecked() && evidence.run == *run)
    }

    /// Returns the runs whose traces have shown the lesson since the memory last became tentative. A run whose agent
    /// only said so is not one of them.
    pub fn proven_runs(&self) -> impl Iterator<Item = &RunId> {
        let said_only = |run: &RunId| {
            self.quote_missing_in.as_ref() == Some(run) || self.unchecked_evidence(run).is_some()
        };
        self.tentative_runs.iter().filter(move |run| !said_only(run))
    }

    /// Counts the independent witnesses that have shown the lesson since the memory last became tentative.
    /// Runs that share a witness count once.
    pub fn count_witnesses(&self) -> usize {
        let mut seen = BTreeSet::new();
        let runs = self.proven_runs();
        runs.filter(|run| {
            let names = self.witnesses_of_run(run);
            let is_new = names.iter().all(|name| !seen.contains(name));
            seen.extend(names);
            is_new
        })
        .count()
    }

    /// Returns `true` if one of these witnesses has shown the lesson since the memory last became tentative.
    pub(crate) fn knows_witness(&self, names: &[String]) -> bool {
        let known = |run: &RunId| {
            self.witnesses_of_run(run).into_iter().any(|name| names.iter().any(|one| one == name))
        };
        self.proven_runs().any(known)
    }

    /// Returns the witnesses behind a run that counts towards a confirmation, or the run itself.
    pub fn witnesses_of_run<'m>(&'m self, run: &'m RunId) -> Vec<&'m str> {
        let behind = self.tentative_witnesses.iter().filter(|(of, _)| of == run);
        let names: Vec<_> = behind.map(|(_, witness)| witness.as_str()).collect();
        if names.is_empty() { vec![run.as_str()] } else { names }
    }
}

/// Forbids lessons similar to that of a deleted memory, within one scope and for a limited time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// Id of the deleted memory.
    pub memory: MemoryId,
    /// Scope in which the tombstone applies.
    pub scope: MemoryScope,
    /// Lesson of the deleted memory.
    pub lesson: Lesson,
    /// Time when the tombstone expires.
    pub until: Timestamp,
    /// Reason why the memory was deleted.
    pub reason: String,
}

impl Tombstone {
    /// Creates the tombstone of a memory that is deleted.
    pub(crate) fn of_memory(memory: &Memory, until: Timestamp, reason: String) -> Self {
        Self { memory: memory.id, scope: memory.scope.clone(), lesson: memory.lesson.clone(), until, reason }
    }
}
