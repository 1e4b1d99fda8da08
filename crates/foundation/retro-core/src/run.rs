//! Finished runs of workflows, as described by their events.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::audience::{RepoVisibility, RunRepository};
use crate::id::{MemoryId, RunId};

/// Outcome of a run. All values except `unknown` come from OpenTelemetry's CI/CD conventions
/// (`cicd.pipeline.result`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RunOutcome {
    /// The run achieved its goal.
    Success,
    /// The run ended without achieving its goal.
    Failure,
    /// The run could not be carried out because of a fault in the system that executes it.
    Error,
    /// The run exceeded its time limit.
    Timeout,
    /// The run was cancelled. Such a run is recorded but never counted.
    Cancellation,
    /// The run had nothing to do. Such a run is recorded but never counted.
    Skip,
    /// The outcome is unknown. The run is counted, but neither as a success nor as a failure.
    Unknown,
}

impl RunOutcome {
    /// Returns the outcome as written in events, such as `success`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns `Some(true)` if the run achieved its goal, `Some(false)` if it did not, and `None` if it was
    /// cancelled, had nothing to do or has an unknown outcome. Comparisons leave out runs with `None`.
    pub const fn succeeded(self) -> Option<bool> {
        match self {
            Self::Success => Some(true),
            Self::Failure | Self::Error | Self::Timeout => Some(false),
            Self::Cancellation | Self::Skip | Self::Unknown => None,
        }
    }
}

/// Kind of a run: a user's workflow, or Retrospect itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// A run of a user's workflow.
    #[default]
    Normal,
    /// A run of Retrospect itself. Recorded but never counted, because the system must not learn from itself.
    Internal,
}

/// Content of a run's event, except the body. An optional field is `None` if the emitter did not report it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Run id assigned by the emitter.
    pub run_id: RunId,
    /// 1-based number of this attempt at the run. A lower attempt never overwrites the facts of a higher one.
    #[serde(default = "first_attempt")]
    pub attempt: u32,
    /// Kind of the run.
    #[serde(default)]
    pub kind: RunKind,
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// `true` if the emitter knows no more of the run than its facts, as of a CI run whose log nobody reads.
    /// Such a run is recorded but not counted, because there is nothing to investigate. A run without a body
    /// of which the emitter does not say this is counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outcome_only: bool,
    /// Time when the run started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Time when the run finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Repository that the run worked on, as `owner/name` or an address for cloning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Who may read the repository. Without it, what the run shows counts as private.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_visibility: Option<RepoVisibility>,
    /// Number of the pull request that the run worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<u64>,
    /// Hash of the commit that the run worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// User who started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Agent that executed the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// Version of the prompt given to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_version: Option<String>,
    /// Name of the task, assigned by the emitter. All runs of a task share the name, so runs with and without
    /// a memory can be compared ([`crate::effect`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Tokens and cost of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Memories that the emitter reports as presented to the run or opened by its agent. They are merged with
    /// those that the gateway recorded.
    #[serde(default)]
    pub memories: RunMemories,
    /// Advice of the agent to the next run, with secrets redacted, one entry per remark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub self_feedback: Vec<SelfFeedback>,
}

const fn first_attempt() -> u32 {
    1
}

impl RunFacts {
    /// Returns the repository that the run worked on, or `None` if its event names none.
    pub fn repository(&self) -> Option<RunRepository> {
        RunRepository::of_run(self.repo.as_deref(), self.repo_visibility)
    }

    /// Returns `true` if this run counts towards the threshold of its workflow's window.
    pub fn is_countable(&self) -> bool {
        self.not_counted_reason().is_none()
    }

    /// Returns the reason why this run does not count towards the threshold of its workflow's window; `None`
    /// if it counts.
    pub const fn not_counted_reason(&self) -> Option<NotCountedReason> {
        match (self.kind, self.outcome) {
            (RunKind::Internal, _) => Some(NotCountedReason::Internal),
            (RunKind::Normal, RunOutcome::Cancellation) => Some(NotCountedReason::Cancelled),
            (RunKind::Normal, RunOutcome::Skip) => Some(NotCountedReason::Skipped),
            (RunKind::Normal, _) if self.outcome_only => Some(NotCountedReason::OutcomeOnly),
            (RunKind::Normal, _) => None,
        }
    }
}

/// Reason why a run is recorded but not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotCountedReason {
    /// The run is one of Retrospect itself.
    Internal,
    /// The run was cancelled.
    Cancelled,
    /// The run had nothing to do.
    Skipped,
    /// The emitter knows only the facts of the run.
    OutcomeOnly,
}

impl NotCountedReason {
    /// Returns the reason in words for a person.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
            Self::OutcomeOnly => "outcome only",
        }
    }
}

/// Agent that executed a run. A field is `None` if the emitter did not report it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Agent {
    /// Name of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Model that the agent used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// Tokens and cost of a run. A field is `None` if the emitter did not report it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Number of input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Number of output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Cost in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Memories that a run was exposed to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunMemories {
    /// Memories in the run's prompt.
    #[serde(default, deserialize_with = "null_as_empty", skip_serializing_if = "Vec::is_empty")]
    pub presented: Vec<MemoryId>,
    /// Memories that the agent opened.
    #[serde(default, deserialize_with = "null_as_empty", skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<MemoryId>,
}

/// Deserializes a list for which `null` counts as missing, as for every other field of an event.
fn null_as_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<MemoryId>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// One remark of an agent on its own run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfFeedback {
    /// Step that the remark is about; `main` if the remark names no step.
    pub step: crate::id::Step,
    /// Text of the remark.
    pub text: String,
}

/// Location of a run's trajectory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "location", rename_all = "snake_case")]
pub enum BodyRef {
    /// The run was reported without a trajectory.
    None,
    /// The trajectory is stored in the database, compressed and redacted.
    Stored,
    /// The trajectory is stored in the broker's object store.
    Object(ObjectRef),
    /// The trajectory is stored on a host of the emitter and served over HTTPS. The configuration must allow
    /// the host.
    Https(HttpsRef),
    /// The log of a GitHub Actions workflow, fetched from GitHub when the run is investigated.
    GithubLog(GithubLogRef),
    /// The trajectory was deleted after the run's retrospective closed.
    Dropped,
}

/// One attempt at a run of a GitHub Actions workflow, whose failed jobs have logs at GitHub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GithubLogRef {
    /// Host of the repository, such as `github.com`.
    pub host: String,
    /// Repository as `owner/name`.
    pub repo: String,
    /// Id of the run, assigned by GitHub.
    pub run: u64,
    /// 1-based number of the attempt.
    pub attempt: u32,
}

impl std::fmt::Display for GithubLogRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, repo, run, attempt } = self;
        write!(f, "log of {host}/{repo}/actions/runs/{run}, attempt {attempt}")
    }
}

/// An object in the broker's bucket, under the tenant's prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Name of the object within the bucket, starting with the tenant's prefix.
    pub name: String,
    /// SHA-256 of the object's bytes, in lower-case hex.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// A trajectory stored by the emitter and fetched when the run is investigated.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpsRef {
    /// HTTPS URL with a host name. Its query may grant access, as in a pre-signed URL.
    pub url: String,
    /// SHA-256 of the trajectory's bytes, in lower-case hex.
    pub sha256: String,
}

impl HttpsRef {
    /// Returns the URL without its query and fragment, which may be secret.
    pub fn display_url(&self) -> &str {
        self.url.split(['?', '#']).next().unwrap_or_default()
    }
}

impl std::fmt::Debug for HttpsRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Debug output reaches logs, and the query may grant access to the body.
        f.debug_struct("HttpsRef").field("url", &self.display_url()).field("sha256", &self.sha256).finish()
    }
}
