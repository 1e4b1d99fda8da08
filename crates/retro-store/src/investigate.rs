//! Port of the investigator, which claims investigations under a lease with a fencing token, and keeps a journal of
//! each.
//!
//! Leases are measured by the database's clock alone. Every write after the claim passes the token. A write with an
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
    /// Retrospective to which the investigation belongs.
    pub retrospective: Retrospective,
    /// Number of the investigation within its retrospective, from 1.
    pub number: u32,
    /// Fencing token, which grows with each claim of this investigation.
    pub token: u64,
    /// Number of attempts begun, including this one. The claim itself counts as an attempt, so that a run that kills
    /// the process runs out of attempts too.
    pub attempt: u32,
    /// `true` when another worker had claimed the investigation and let its lease expire.
    pub taken_over: bool,
    /// Facts of the run, as its event stated them.
    pub run: RunFacts,
    /// Trajectory of the run, or where it is stored.
    pub body: StoredBody,
    /// Memories that were presented to the run. Combines those that the gateway recorded with those that the event
    /// names.
    pub presented: Vec<PresentedMemory>,
    /// Living memories of the workflow, and every memory in `presented`.
    pub memories: Vec<Memory>,
    /// Pull requests of the run and how they ended, as far as this is known at the time of the claim.
    pub outcomes: Vec<PullRequestOutcome>,
    /// Ended investigations of the same retrospective, all of them earlier than this one.
    pub earlier: Vec<Investigation>,
    /// Journal entries that earlier attempts at this investigation stored.
    pub journal: Vec<JournalEntry>,
}

/// The trajectory of a claimed run, or where it is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredBody {
    /// The event of the run contained no trajectory.
    None,
    /// A stored trajectory, as decompressed JSON of [`retro_core::trajectory::Trajectory`].
    Inline(Vec<u8>),
    /// A trajectory in the broker's object store.
    Object(ObjectRef),
    /// A trajectory at an HTTPS address, on a host that the configuration allows.
    Https(HttpsRef),
    /// The body was purged or cannot be read. Holds the reason.
    Gone(String),
}

/// A stage of an investigation whose result is stored in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JournalStage {
    /// The stage in which the brief for the investigator was written.
    Briefed,
    /// The stage in which the investigator answered. A worker that takes over reads the answer from the journal, so it
    /// neither asks nor pays again.
    Answered,
}

impl JournalStage {
    /// Returns the name of the stage, as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Briefed => "briefed",
            Self::Answered => "answered",
        }
    }
}

/// An entry in the journal of an investigation.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// Stage whose result the entry contains.
    pub stage: JournalStage,
    /// Result of the stage as JSON.
    pub body: serde_json::Value,
}

/// The investigations of a retrospective at the moment when one of them ends.
#[derive(Debug, Clone)]
pub struct InvestigationSequence {
    /// Retrospective to which the investigations belong.
    pub retrospective: Retrospective,
    /// Sample that the retrospective investigates.
    pub sample: Sample,
    /// Ended investigations in the order in which they ran, including the one that is ending now.
    pub ended: Vec<Investigation>,
}

/// The work that follows the end of an investigation.
#[derive(Debug, Clone)]
pub struct FollowUp {
    /// Next step of the retrospective: another investigation, or settling.
    pub next: NextStage,
    /// Mutations that the writer applies; empty unless the retrospective settles.
    pub batch: Vec<Mutation>,
    /// Message that wakes the next worker or the writer.
    pub message: Message,
}

/// Decides what follows the end of an investigation: takes the ended investigations, and returns the next work.
pub type DecideFollowUp<'a> = &'a (dyn Fn(&InvestigationSequence) -> FollowUp + Send + Sync);

/// Claims investigations, journals their stages and ends them.
#[async_trait]
pub trait InvestigatorStore: TraceStore {
    /// Claims, for `lease_s` seconds, the oldest investigation that is due, whose pause has passed and that no worker
    /// has claimed. Returns `None` when there is none. `worker` names the worker for people.
    async fn claim_investigation(&self, worker: &str, lease_s: u64) -> Result<Option<Claim>>;

    /// Extends the lease of a claim to `lease_s` seconds from now.
    async fn extend_lease(&self, claim: &Claim, lease_s: u64) -> Result<()>;

    /// Stores a journal entry. A second entry for the same stage is ignored.
    async fn append_journal(&self, claim: &Claim, entry: &JournalEntry) -> Result<()>;

    /// Releases the claim after a failed attempt and makes the investigation due again after `pause_s`
    /// seconds.
    async fn schedule_retry(&self, claim: &Claim, pause_s: u64, reason: &str) -> Result<()>;

    /// Releases the claim because its worker stops. The investigation is due again immediately, and the attempt does
    /// not count. The journal is kept, and the fencing token increases.
    async fn release_claim(&self, claim: &Claim) -> Result<()>;

    /// Ends the investigation in one transaction. Stores its result and timing, and calls `decide`. Then either makes
    /// the next investigation due, or moves the retrospective to settling with its batch of mutations. Stores the
    /// message too. `timing.attempts` and `timing.duration_ms` are overwritten with the database's own values.
    async fn finish_investigation(
        &self,
        claim: &Claim,
        result: &InvestigationResult,
        timing: InvestigationTiming,
        decide: DecideFollowUp<'_>,
    ) -> Result<()>;

    /// Returns the number of investigations that a worker may claim now.
    async fn count_claimable(&self) -> Result<u64>;
}
