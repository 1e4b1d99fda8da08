//! Memories, their changes, and the fold that computes one from the other.
//!
//! The change log is append-only, and a memory is the fold of its changes. `retro verify` checks this on a
//! live store. The README of this crate shows the state machine as drawn by [`render_state_machine`].

mod change;
mod fold;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::finding::{Finding, LessonCue, Quote};
use crate::id::{Epoch, MemoryId, RunId, Step, Tenant, Workflow};
use crate::review::{AuthorStanding, RemarkKey, Repository};
use crate::weight::Weight;

pub use change::{Change, ChangeCause, ChangeEffect, TombstoneOverride, WeightPart, WeightReason, change_id};
pub use fold::{FoldError, fold_change, initial_statuses, legal_changes, render_state_machine, status_after};

/// Scope of a memory: where it applies. It is part of the key; similarity, tombstones and confirmation never cross
/// scopes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "scope", rename_all = "snake_case")]
pub enum MemoryScope {
    /// One step of a workflow.
    Step {
        /// Name of the workflow.
        workflow: Workflow,
        /// Name of the step.
        step: Step,
    },
    /// A whole workflow.
    Workflow {
        /// Name of the workflow.
        workflow: Workflow,
    },
    /// A repository, or a path in it.
    Repository {
        /// Repository, `owner/name`.
        repo: String,
        /// Path or pattern within the repository.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// One person.
    User {
        /// Name of the person at the emitter.
        user: String,
    },
    /// An account of the tenant.
    Account {
        /// Name of the account.
        account: String,
    },
    /// All workflows of the tenant.
    Platform,
}

impl MemoryScope {
    /// Returns the kind as stored: `step`, `workflow`, `repository`, `user`, `account` or `platform`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Step { .. } => "step",
            Self::Workflow { .. } => "workflow",
            Self::Repository { .. } => "repository",
            Self::User { .. } => "user",
            Self::Account { .. } => "account",
            Self::Platform => "platform",
        }
    }

    /// Returns the workflow, for the scopes that have one.
    pub const fn workflow(&self) -> Option<&Workflow> {
        match self {
            Self::Step { workflow, .. } | Self::Workflow { workflow } => Some(workflow),
            _ => None,
        }
    }

    /// Returns the step, for the scope that has one.
    pub const fn step(&self) -> Option<&Step> {
        match self {
            Self::Step { step, .. } => Some(step),
            _ => None,
        }
    }

    /// Returns the workflow name that owns the memories of this scope: the name of their lock, change log and
    /// tombstones. For a repository it is the name of its rule scope (`repo:owner/name`). `None` for scopes that
    /// nothing supports yet.
    pub fn owning_workflow(&self) -> Option<Workflow> {
        match self {
            Self::Step { workflow, .. } | Self::Workflow { workflow } => Some(workflow.clone()),
            Self::Repository { repo, .. } => {
                Some(Repository::new(repo).ok()?.rule_scope(&Tenant::default_tenant()).workflow)
            }
            Self::User { .. } | Self::Account { .. } | Self::Platform => None,
        }
    }

    /// Returns the key as stored: canonical JSON, equal for equal scopes.
    pub fn storage_key(&self) -> String {
        crate::canonical::canonical_json(&serde_json::to_value(self).expect("a scope is plain data"))
    }
}

/// Stage in the life of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryStatus {
    /// Seen in one run. Never presented; a second run confirms it.
    Tentative,
    /// Confirmed. Presented if its weight is high enough.
    Active,
    /// Archived because its weight fell too low; revived when the lesson is observed again.
    Archived,
    /// Deleted; a tombstone suppresses similar lessons for a time.
    Deleted,
    /// Replaced by another memory.
    Superseded,
    /// Made part of the workflow itself.
    Graduated,
}

impl MemoryStatus {
    /// Every status, in the order shown to people.
    pub const ALL: [Self; 6] =
        [Self::Tentative, Self::Active, Self::Archived, Self::Deleted, Self::Superseded, Self::Graduated];

    /// Returns the word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tentative => "tentative",
            Self::Active => "active",
            Self::Archived => "archived",
            Self::Deleted => "deleted",
            Self::Superseded => "superseded",
            Self::Graduated => "graduated",
        }
    }

    /// Returns whether an observation of the same lesson finds this memory instead of creating another.
    pub const fn is_living(self) -> bool {
        matches!(self, Self::Tentative | Self::Active | Self::Archived)
    }
}

/// One run that shows the lesson of a memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Id of the run.
    pub run: RunId,
    /// Epoch of the retrospective that investigated the run; `None` if no retrospective did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Words that show the lesson.
    pub quote: Quote,
    /// Remark of a review that shows the lesson. `run` is then the name of its pull request (`owner/name#7`), so that
    /// separate pull requests count like separate runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<RemarkSource>,
}

/// Source of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemarkSource {
    /// Key of the remark.
    pub remark: RemarkKey,
    /// Author of the remark.
    pub by: String,
    /// Standing of the author.
    pub standing: AuthorStanding,
    /// Time when the remark was written.
    pub at: Timestamp,
}

/// Maximum number of quotes stored on a memory; the change log has all of them.
pub const EVIDENCE_KEPT_MAX: usize = 8;

/// Maximum number of contradictions stored on a memory: more than two retrospectives can sample by default.
pub const CONTRADICTIONS_KEPT_MAX: usize = 16;

/// Content of a memory; fixed when the memory is created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lesson {
    /// Tool, command or file that it is about.
    pub subject: String,
    /// One imperative sentence with its cue.
    pub title: String,
    /// Details that an agent gets on request.
    pub content: String,
    /// When it applies, and what following it looks like.
    pub cue: LessonCue,
}

impl Lesson {
    /// Returns the lesson of a finding.
    pub fn from_finding(finding: &Finding) -> Self {
        Self {
            subject: finding.subject.clone(),
            title: finding.title.clone(),
            content: finding.content.clone(),
            cue: finding.cue.clone(),
        }
    }

    /// Returns the text that similarity is measured on when one of two lessons has no signature.
    pub fn comparison_text(&self) -> &str {
        &self.title
    }
}

/// A memory: the fold of its changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Id of the memory.
    pub id: MemoryId,
    /// Scope in which the memory applies.
    pub scope: MemoryScope,
    /// Content of the memory.
    pub lesson: Lesson,
    /// Current status.
    pub status: MemoryStatus,
    /// Current weight.
    pub weight: Weight,
    /// Number of distinct runs that observed it.
    pub observed_runs: u32,
    /// Runs that observed it since it last became tentative; only another run confirms it.
    pub tentative_runs: Vec<RunId>,
    /// Most recent quotes, at most [`EVIDENCE_KEPT_MAX`].
    pub evidence: Vec<Evidence>,
    /// Number of consecutive retrospectives in which its cue was not met.
    pub cue_not_met: u32,
    /// Runs that contradicted it, with the epoch of their retrospective, at most [`CONTRADICTIONS_KEPT_MAX`]. Only
    /// those of the last two retrospectives count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradicted_by: Vec<(Epoch, RunId)>,
    /// Reason for quarantine; a quarantined memory is promoted only by an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<String>,
    /// Highest standing that asked for a rule; `None` for a memory that did not come from a review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<AuthorStanding>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub changed_at: Timestamp,
}

/// Forbids lessons similar to a deleted memory for a time, within its scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// Deleted memory.
    pub memory: MemoryId,
    /// Scope in which it applies.
    pub scope: MemoryScope,
    /// Forbidden lesson.
    pub lesson: Lesson,
    /// Time when it expires.
    pub until: Timestamp,
    /// Reason why the memory was deleted.
    pub reason: String,
}

impl fmt::Display for MemoryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
