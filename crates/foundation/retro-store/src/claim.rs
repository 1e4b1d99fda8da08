//! What a worker gets when it claims an investigation.

use retro_core::memory::Memory;
use retro_core::retrospective::{Investigation, PresentedMemory, Retrospective};
use retro_core::run::{GithubLogRef, HttpsRef, ObjectRef, RunFacts};
use strum::IntoStaticStr;

/// An investigation leased to one worker, with everything the worker needs to process it.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Retrospective of the investigation.
    pub retrospective: Retrospective,
    /// 1-based position of the investigation in its retrospective.
    pub number: u32,
    /// Fencing token, which increases with each claim of this investigation.
    pub token: u64,
    /// 1-based attempt number. Claiming counts as an attempt, so a run that crashes the worker also exhausts
    /// its attempts.
    pub attempt: u32,
    /// `true` if an earlier worker claimed the investigation and let its lease expire.
    pub taken_over: bool,
    /// Facts of the run as reported by its event.
    pub run: RunFacts,
    /// Trajectory of the run, inline or by reference.
    pub body: StoredBody,
    /// Memories presented to the run, combined from the gateway's records and the run's event.
    pub presented: Vec<PresentedMemory>,
    /// All living memories of the workflow, and the memories in `presented` even if no longer living.
    pub memories: Vec<Memory>,
    /// Earlier investigations of the same retrospective, all ended.
    pub earlier: Vec<Investigation>,
    /// Journal entries stored by earlier attempts at this investigation.
    pub journal: Vec<JournalEntry>,
    /// Reason why the last attempt failed; `None` if none failed.
    pub last_error: Option<String>,
}

/// Trajectory of a claimed run, inline or by reference.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredBody {
    /// The run's event has no trajectory.
    None,
    /// Stored trajectory: decompressed JSON of [`retro_core::trajectory::Trajectory`].
    Inline(Vec<u8>),
    /// Trajectory in the broker's object store.
    Object(ObjectRef),
    /// Trajectory at an HTTPS URL whose host is on the configured allowlist.
    Https(HttpsRef),
    /// Log of a GitHub Actions workflow, at GitHub.
    GithubLog(GithubLogRef),
    /// The body was purged or cannot be decoded; contains the reason.
    Gone(String),
}

/// Journaled stage of an investigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum JournalStage {
    /// The brief of the workflow was computed, for this and all later investigations of the retrospective.
    Briefed,
    /// The engine returned its answer. A worker that takes over reuses the journaled answer instead of paying
    /// for a second model call.
    Answered,
}

impl JournalStage {
    /// Returns the name of the stage in the database.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Journal entry of an investigation.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// Stage that produced the result.
    pub stage: JournalStage,
    /// JSON result of the stage.
    pub body: serde_json::Value,
}
