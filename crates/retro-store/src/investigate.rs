//! The investigator's port: claims under a lease with a fencing token, and a journal.
//!
//! Leases are measured by the database's clock alone. Every write after the claim carries the token. A write with an
//! outdated token fails with [`crate::StoreError::Fenced`] and stores nothing.

use async_trait::async_trait;
use retro_core::investigate::NextStage;
use retro_core::learn::{InvestigationTiming, Mutation};
use retro_core::memory::Memory;
use retro_core::message::Message;
use retro_core::outcome::PullRequestOutcome;
use retro_core::retrospective::{Investigation, InvestigationResult, PresentedMemory, Retrospective};
use retro_core::run::{HttpsRef, ObjectRef, RunFacts};
use retro_core::sample::Sample;

use crate::{Result, TraceStore};

/// An investigation that only this worker may process until its lease ends.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Retrospective of the investigation.
    pub retrospective: Retrospective,
    /// Place of the investigation in the sequence, from 1.
    pub number: u32,
    /// Fencing token. It grows with each claim of this investigation.
    pub token: u64,
    /// Attempts begun, this one included. The claim itself counts, so that a run that kills the process runs out
    /// of attempts too.
    pub attempt: u32,
    /// `true` when another worker held the investigation and let its lease expire.
    pub taken_over: bool,
    /// Facts of the run, as its event stated them.
    pub run: RunFacts,
    /// Trajectory of the run.
    pub body: StoredBody,
    /// Memories presented to the run: those the gateway recorded and those the event names, merged.
    pub presented: Vec<PresentedMemory>,
    /// Living memories of the workflow, and every presented memory.
    pub memories: Vec<Memory>,
    /// Pull requests of the run, as far as they are known by now.
    pub outcomes: Vec<PullRequestOutcome>,
    /// Ended investigations of the retrospective, all before this one.
    pub earlier: Vec<Investigation>,
    /// Journal rows of earlier attempts.
    pub journal: Vec<JournalEntry>,
}

/// The trajectory of a claimed run.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredBody {
    /// The run was reported without a trajectory.
    None,
    /// JSON of [`retro_core::trajectory::Trajectory`], decompressed.
    Inline(Vec<u8>),
    /// Reference into the broker's object store.
    Object(ObjectRef),
    /// Address on a host that the configuration allows.
    Https(HttpsRef),
    /// The body was dropped or cannot be read; holds the reason.
    Gone(String),
}

/// A journalled stage of an investigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JournalStage {
    /// The brief that the investigator received.
    Briefed,
    /// The investigator's answer. It is stored in the journal, so that a worker that takes over neither asks
    /// nor pays again.
    Answered,
}

impl JournalStage {
    /// Returns the word as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Briefed => "briefed",
            Self::Answered => "answered",
        }
    }
}

/// A row of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// Stage that the row records.
    pub stage: JournalStage,
    /// Result of the stage as JSON.
    pub body: serde_json::Value,
}

/// State of the sequence when an investigation ends.
#[derive(Debug, Clone)]
pub struct InvestigationSequence {
    /// The retrospective.
    pub retrospective: Retrospective,
    /// Sample of the retrospective.
    pub sample: Sample,
    /// Ended investigations in sequence, including the one that ends now.
    pub ended: Vec<Investigation>,
}

/// Work that follows the end of an investigation.
#[derive(Debug, Clone)]
pub struct FollowUp {
    /// The next investigation, or settle.
    pub next: NextStage,
    /// Mutations for the writer; empty unless the retrospective settles.
    pub batch: Vec<Mutation>,
    /// Message that wakes the next worker or the writer.
    pub message: Message,
}

/// Decision at the end of an investigation: takes the ended investigations, returns the next work.
pub type DecideFollowUp<'a> = &'a (dyn Fn(&InvestigationSequence) -> FollowUp + Send + Sync);

/// Claims, journals and ends investigations.
#[async_trait]
pub trait InvestigatorStore: TraceStore {
    /// Claims for `lease_s` seconds the oldest investigation that is due, whose pause has passed and that no
    /// worker holds. Returns `None` when there is none. `worker` is a name for people.
    async fn claim_investigation(&self, worker: &str, lease_s: u64) -> Result<Option<Claim>>;

    /// Extends the lease to `lease_s` seconds from now.
    async fn extend_lease(&self, claim: &Claim, lease_s: u64) -> Result<()>;

    /// Stores a journal row. A second row of the same stage is ignored.
    async fn append_journal(&self, claim: &Claim, entry: &JournalEntry) -> Result<()>;

    /// Releases the claim after a failed attempt and makes the investigation due again after `pause_s`
    /// seconds.
    async fn schedule_retry(&self, claim: &Claim, pause_s: u64, reason: &str) -> Result<()>;

    /// Releases the claim because its worker stops. The investigation is due again immediately, and the
    /// attempt does not count. The journal is kept, and the token increases.
    async fn release_claim(&self, claim: &Claim) -> Result<()>;

    /// Ends the investigation in one transaction. Stores result and timing, calls `decide`, makes the next
    /// investigation due or moves the retrospective to settling with its batch of mutations, and stores the
    /// message. `timing.attempts` and `timing.duration_ms` are overwritten with the database's own values.
    async fn finish_investigation(
        &self,
        claim: &Claim,
        result: &InvestigationResult,
        timing: InvestigationTiming,
        decide: DecideFollowUp<'_>,
    ) -> Result<()>;

    /// Returns how many investigations may be claimed now.
    async fn count_claimable(&self) -> Result<u64>;
}
