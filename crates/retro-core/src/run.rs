//! A run: one finished execution of a workflow, as described by its event.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{MemoryId, RunId};

/// Outcome of a run, with the values of OpenTelemetry's CI/CD conventions (`cicd.pipeline.result`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// The run achieved its goal.
    Success,
    /// The run ended without achieving its goal.
    Failure,
    /// The run could not be carried out.
    Error,
    /// The run exceeded its time limit.
    Timeout,
    /// The run was cancelled. Recorded, never counted.
    Cancellation,
    /// The run had nothing to do. Recorded, never counted.
    Skip,
    /// The outcome is unknown. Counted, but neither a success nor a failure.
    Unknown,
}

impl RunOutcome {
    /// Returns the word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Cancellation => "cancellation",
            Self::Skip => "skip",
            Self::Unknown => "unknown",
        }
    }

    /// Returns whether the run achieved its goal; `None` when that is unknown, and such a run is left out of
    /// comparisons.
    pub const fn succeeded(self) -> Option<bool> {
        match self {
            Self::Success => Some(true),
            Self::Failure | Self::Error | Self::Timeout => Some(false),
            Self::Cancellation | Self::Skip | Self::Unknown => None,
        }
    }
}

/// Kind of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// A run of a user's workflow.
    #[default]
    Normal,
    /// A run of Retrospect itself. It is recorded but never counted, because the system must not learn from
    /// itself.
    Internal,
}

/// Everything in a run's event except the body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// Emitter's id of the run.
    pub run_id: RunId,
    /// Attempt of this run, from 1. A lower one never overwrites a higher one.
    #[serde(default = "first_attempt")]
    pub attempt: u32,
    /// Kind of the run.
    #[serde(default)]
    pub kind: RunKind,
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Time when the run started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Time when the run finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Repository, `owner/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Number of the pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<u64>,
    /// Commit hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Person who started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Agent that carried out the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// Version of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_version: Option<String>,
    /// Emitter's name of the task, shared by all runs of the same task. It makes runs with and without a memory
    /// comparable ([`crate::effect`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Tokens and cost of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Memories that the emitter presented or the agent opened; combined with what our own gateway recorded.
    #[serde(default)]
    pub memories: RunMemories,
    /// The agent's own advice to the next run, one remark per entry, redacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub self_feedback: Vec<SelfFeedback>,
}

const fn first_attempt() -> u32 {
    1
}

impl RunFacts {
    /// Returns whether this run counts toward the threshold.
    pub fn is_countable(&self) -> bool {
        self.kind == RunKind::Normal && !matches!(self.outcome, RunOutcome::Cancellation | RunOutcome::Skip)
    }

    /// Removes injected blocks of memories from the agent's self-feedback. An agent that is asked for its
    /// lessons tends to repeat the memories in its prompt, which would then confirm themselves.
    pub fn without_injected_blocks(mut self) -> Self {
        for remark in &mut self.self_feedback {
            if let Some(stripped) = crate::recall::strip_injected(&remark.text) {
                remark.text = stripped;
            }
        }
        self
    }
}

/// The agent of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Agent {
    /// Name of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Version of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Model that it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// Tokens and cost of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Output tokens.
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub presented: Vec<MemoryId>,
    /// Memories that the agent opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<MemoryId>,
}

/// One remark of an agent on its own run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfFeedback {
    /// Step that the remark is about; `main` when it does not name a step.
    pub step: crate::id::Step,
    /// Text of the remark.
    pub text: String,
}

/// Location of a run's trajectory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "in", rename_all = "snake_case")]
pub enum BodyRef {
    /// The run was reported without a trajectory.
    None,
    /// In the database, compressed and redacted.
    Stored,
    /// In the broker's object store.
    Object(ObjectRef),
    /// On a host of the emitter that the configuration allows.
    Https(HttpsRef),
    /// Purged after its retrospective closed.
    Dropped,
}

/// An object under the tenant's prefix in the broker's bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Name within the bucket, starting with the tenant's prefix.
    pub name: String,
    /// SHA-256 of its bytes, lower-case hex.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// A body that the emitter stores and that is fetched when the run is investigated.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpsRef {
    /// Address: `https`, a host name, and possibly a query, which may grant access (a pre-signed address).
    pub url: String,
    /// SHA-256 of its bytes, lower-case hex.
    pub sha256: String,
}

impl HttpsRef {
    /// Returns the address without its query, which may be a secret.
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
