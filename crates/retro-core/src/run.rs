//! A run: one finished execution of a workflow, as its event tells it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{MemoryId, RunId};

/// What became of a run; the values of OpenTelemetry's CI/CD conventions (`cicd.pipeline.result`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did what it was for.
    Success,
    /// It ended and did not do what it was for.
    Failure,
    /// It could not be carried out.
    Error,
    /// It took too long.
    Timeout,
    /// Somebody stopped it. Recorded, never counted.
    Cancellation,
    /// It had nothing to do. Recorded, never counted.
    Skip,
    /// Nobody said. Counted, and evidence for nothing: it is neither a success nor a failure.
    Unknown,
}

impl Outcome {
    /// The word on the wire.
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

    /// Whether the run did what it was for; `None` when it says so of neither, so that it stands on no side of a
    /// comparison.
    pub const fn succeeded(self) -> Option<bool> {
        match self {
            Self::Success => Some(true),
            Self::Failure | Self::Error | Self::Timeout => Some(false),
            Self::Cancellation | Self::Skip | Self::Unknown => None,
        }
    }
}

/// Whose run it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// A run of a user's workflow.
    #[default]
    Normal,
    /// A run of the pipeline's own. Recorded, never counted, or the system would study itself.
    Internal,
}

/// Everything an event says about its run but the body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    /// The emitter's id.
    pub run_id: RunId,
    /// Which try of this run, from 1. A lower one never overwrites a higher one.
    #[serde(default = "first_attempt")]
    pub attempt: u32,
    /// Whose run it is.
    #[serde(default)]
    pub kind: RunKind,
    /// What became of it.
    pub outcome: Outcome,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Repository, `owner/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Pull request number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<u64>,
    /// Commit hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Who asked for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The agent that did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// Version of the prompt in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_version: Option<String>,
    /// What it was to do, by a name of the emitter's that other runs of the same task carry too: what makes runs with and
    /// without a memory comparable ([`crate::effect`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// What the run used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Memories that the emitter says it showed or opened; joined with what our own gateway recorded.
    #[serde(default)]
    pub memories: MemoryUse,
    /// What the agent itself would tell the next run, one remark an entry, redacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub self_feedback: Vec<Feedback>,
}

const fn first_attempt() -> u32 {
    1
}

impl RunFacts {
    /// Whether this run counts toward the threshold.
    pub fn countable(&self) -> bool {
        self.kind == RunKind::Normal && !matches!(self.outcome, Outcome::Cancellation | Outcome::Skip)
    }

    /// Removes the block of memories that we injected ourselves from what the agent says of its own run: an agent
    /// asked for its lessons likes to repeat those that it was given.
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
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The model it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// What a run used.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Which memories a run met.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryUse {
    /// They stood in the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub presented: Vec<MemoryId>,
    /// The agent opened them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<MemoryId>,
}

/// One remark of an agent on its own run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// The step it speaks of; `main` when it names none.
    pub step: crate::id::Step,
    /// The remark.
    pub text: String,
}

/// Where the trajectory of a run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "in", rename_all = "snake_case")]
pub enum BodyRef {
    /// The run came without a trajectory.
    None,
    /// In the database, compressed and redacted.
    Stored,
    /// In the broker's object store.
    Object(ObjectRef),
    /// At a host of the emitter's that the configuration allows.
    Https(HttpsRef),
    /// Dropped on purpose after its retrospective closed.
    Dropped,
}

/// An object of the tenant's own prefix in the broker's bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Its name within the bucket, starting with the tenant's prefix.
    pub name: String,
    /// SHA-256 of its bytes, lower-case hex.
    pub sha256: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A body that stays where the emitter keeps it, and is fetched when somebody looks at the run.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpsRef {
    /// Its address: `https`, a host name, and perhaps a query, which may be a right to read (a pre-signed address).
    pub url: String,
    /// SHA-256 of its bytes, lower-case hex.
    pub sha256: String,
}

impl HttpsRef {
    /// The address as people may see it: without its query.
    pub fn shown(&self) -> &str {
        self.url.split(['?', '#']).next().unwrap_or_default()
    }
}

impl std::fmt::Debug for HttpsRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpsRef").field("url", &self.shown()).field("sha256", &self.sha256).finish()
    }
}
