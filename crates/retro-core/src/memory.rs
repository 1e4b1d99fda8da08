//! A memory, the changes that make it, and the fold that proves one from the other.
//!
//! The change log is append-only; a memory is the fold of its changes. `retro verify` folds a live store. The state
//! machine is drawn in the README of this crate, by [`state_machine`].

mod change;
mod fold;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::finding::{Cue, Finding, Quote};
use crate::id::{Epoch, MemoryId, RunId, Step, Tenant, Workflow};
use crate::review::{RemarkKey, Repository, Standing};
use crate::weight::Weight;

pub use change::{Cause, Change, Despite, Effect, WeightPart, WeightReason, change_id};
pub use fold::{FoldError, fold, legal_after, legal_at_first, state_machine, status_after};

/// What a memory is about; part of its key. Similarity, tombstones and confirmation never leave a scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "scope", rename_all = "snake_case")]
pub enum Scope {
    /// One step of a workflow.
    Step {
        /// The workflow.
        workflow: Workflow,
        /// The step.
        step: Step,
    },
    /// A whole workflow.
    Workflow {
        /// The workflow.
        workflow: Workflow,
    },
    /// A repository, or a path in it.
    Repository {
        /// `owner/name`.
        repo: String,
        /// A path or pattern within it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// One person.
    User {
        /// The person's name at the emitter.
        user: String,
    },
    /// An account of the tenant.
    Account {
        /// The account's name.
        account: String,
    },
    /// Everything the tenant runs.
    Platform,
}

impl Scope {
    /// The scope's kind as stored: `step`, `workflow`, `repository`, `user`, `account` or `platform`.
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

    /// The workflow, for the scopes that have one.
    pub const fn workflow(&self) -> Option<&Workflow> {
        match self {
            Self::Step { workflow, .. } | Self::Workflow { workflow } => Some(workflow),
            _ => None,
        }
    }

    /// The step, for the scope that has one.
    pub const fn step(&self) -> Option<&Step> {
        match self {
            Self::Step { step, .. } => Some(step),
            _ => None,
        }
    }

    /// The name under which its memories are kept: whose lock they change under, whose log and tombstones they share. A
    /// repository's is that of its keeper (`repo:owner/name`); `None` for scopes that nobody keeps yet.
    pub fn kept_under(&self) -> Option<Workflow> {
        match self {
            Self::Step { workflow, .. } | Self::Workflow { workflow } => Some(workflow.clone()),
            Self::Repository { repo, .. } => {
                Some(Repository::new(repo).ok()?.keeper(&Tenant::default_tenant()).workflow)
            }
            Self::User { .. } | Self::Account { .. } | Self::Platform => None,
        }
    }

    /// The key as stored: canonical JSON, the same for the same scope.
    pub fn key(&self) -> String {
        crate::canonical::canonical_json(&serde_json::to_value(self).expect("a scope is plain data"))
    }
}

/// Where a memory stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Seen in one run. Never injected, waits for a second.
    Tentative,
    /// Confirmed. Injected from a weight on.
    Active,
    /// Faded. Revived when it is observed again.
    Archived,
    /// Gone; a tombstone keeps anything similar away for a time.
    Deleted,
    /// Another memory took its place.
    Superseded,
    /// It became part of the workflow itself.
    Graduated,
}

impl Status {
    /// Every status, in the order in which people read them.
    pub const ALL: [Self; 6] =
        [Self::Tentative, Self::Active, Self::Archived, Self::Deleted, Self::Superseded, Self::Graduated];

    /// The word as stored and shown.
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

    /// Whether observing the lesson again finds this memory (instead of making another).
    pub const fn lives(self) -> bool {
        matches!(self, Self::Tentative | Self::Active | Self::Archived)
    }
}

/// One run that shows what a memory says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The run.
    pub run: RunId,
    /// The epoch of the retrospective that looked at it; `None` for what did not come from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// The words.
    pub quote: Quote,
    /// The remark of a review that shows it; then `run` is the name of its pull request (`owner/name#7`): as for runs,
    /// another one is a separate one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<RemarkSource>,
}

/// Where a rule comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemarkSource {
    /// The remark.
    pub remark: RemarkKey,
    /// Who wrote it.
    pub by: String,
    /// What their word counts for.
    pub standing: Standing,
    /// When.
    pub at: Timestamp,
}

/// Quotes kept on a memory; the change log keeps all of them.
pub const EVIDENCE_KEPT_MAX: usize = 8;

/// Contradictions kept on a memory: more than two retrospectives can sample by default.
pub const CONTRADICTIONS_KEPT_MAX: usize = 16;

/// What a memory says: fixed when it is created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lesson {
    /// What it is about.
    pub subject: String,
    /// One imperative sentence with its cue.
    pub title: String,
    /// What a reader gets on request.
    pub content: String,
    /// When it applies and what following it looks like.
    pub cue: Cue,
}

impl Lesson {
    /// What a finding says.
    pub fn of(finding: &Finding) -> Self {
        Self {
            subject: finding.subject.clone(),
            title: finding.title.clone(),
            content: finding.content.clone(),
            cue: finding.cue.clone(),
        }
    }

    /// The text that similarity is judged on when one side carries no signature.
    pub fn text(&self) -> &str {
        &self.title
    }
}

/// A memory: the fold of its changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Its id.
    pub id: MemoryId,
    /// What it is about.
    pub scope: Scope,
    /// What it says.
    pub lesson: Lesson,
    /// Where it stands.
    pub status: Status,
    /// What it has earned.
    pub weight: Weight,
    /// Distinct runs that observed it.
    pub observed_runs: u32,
    /// The runs that observed it since it became tentative (again); only another one confirms it.
    pub tentative_runs: Vec<RunId>,
    /// The most recent quotes, at most [`EVIDENCE_KEPT_MAX`].
    pub evidence: Vec<Evidence>,
    /// Retrospectives in a row in which its cue never came up.
    pub cue_not_met: u32,
    /// Runs that contradicted it, with the epoch that saw it, at most [`CONTRADICTIONS_KEPT_MAX`]; those of the
    /// last two retrospectives matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradicted_by: Vec<(Epoch, RunId)>,
    /// Why it is quarantined; only a person promotes it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<String>,
    /// The greatest standing that speaks for a rule; `None` for what did not come from a review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<Standing>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub changed_at: Timestamp,
}

/// Forbids anything similar to a deleted memory for a time, within its scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The memory that was deleted.
    pub memory: MemoryId,
    /// Where it forbids.
    pub scope: Scope,
    /// What it forbids.
    pub lesson: Lesson,
    /// Until when.
    pub until: Timestamp,
    /// Why the memory was deleted.
    pub reason: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
