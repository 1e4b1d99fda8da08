//! The investigator's port: claims under a lease with a fencing token, and a journal.
//!
//! Only the database's clock counts for leases. Every write after the claim carries the token; a token that is no
//! longer the investigation's own is answered with [`crate::StoreError::Fenced`], and nothing is written.

use async_trait::async_trait;
use retro_core::investigate::Next;
use retro_core::learn::{Mutation, Timing};
use retro_core::memory::Memory;
use retro_core::message::Message;
use retro_core::outcome::RunOutcome;
use retro_core::retrospective::{Investigation, InvestigationResult, Presented, Retrospective};
use retro_core::run::{HttpsRef, ObjectRef, RunFacts};
use retro_core::sample::Sample;

use crate::{Result, TraceStore};

/// An investigation that this worker, and nobody else, may work on until its lease ends.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The retrospective.
    pub retrospective: Retrospective,
    /// The investigation's place in the sequence, from 1.
    pub number: u32,
    /// The fencing token; grows with each claim of this investigation.
    pub token: u64,
    /// Attempts begun, this one included; counted by the claim itself, so that a run which kills the process is
    /// given up too.
    pub attempt: u32,
    /// Whether another worker held it and let its lease run out.
    pub taken_over: bool,
    /// What the event said.
    pub run: RunFacts,
    /// What the agent did.
    pub body: StoredBody,
    /// Memories that stood in the run's prompt: what the gateway recorded and what the event says, joined.
    pub presented: Vec<Presented>,
    /// Living memories of the workflow, and every presented one.
    pub memories: Vec<Memory>,
    /// What is known by now of the run's pull requests.
    pub outcomes: Vec<RunOutcome>,
    /// The investigations before this one, ended.
    pub earlier: Vec<Investigation>,
    /// What earlier attempts journalled.
    pub journal: Vec<JournalEntry>,
}

/// The trajectory of a claimed run.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredBody {
    /// None came with the run.
    None,
    /// JSON of [`retro_core::trajectory::Trajectory`], decompressed.
    Inline(Vec<u8>),
    /// It lies in the broker's object store.
    Object(ObjectRef),
    /// It lies at a host that is allowed.
    Https(HttpsRef),
    /// It was dropped, or what is stored cannot be read.
    Gone(String),
}

/// A stage of an investigation that is journalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The brief was put together: what the investigator saw.
    Briefed,
    /// The investigator answered: never asked (and paid) again.
    Answered,
}

impl Stage {
    /// The word as stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Briefed => "briefed",
            Self::Answered => "answered",
        }
    }
}

/// One journal row.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// The stage.
    pub stage: Stage,
    /// What the stage left, as JSON.
    pub body: serde_json::Value,
}

/// How far the sequence is when an investigation ends.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// The retrospective.
    pub retrospective: Retrospective,
    /// Its sample.
    pub sample: Sample,
    /// Every ended investigation in sequence, the one that ends now included.
    pub ended: Vec<Investigation>,
}

/// What follows the end of an investigation.
#[derive(Debug, Clone)]
pub struct Finish {
    /// The next investigation, or settle.
    pub next: Next,
    /// The mutations, when it is time to settle.
    pub batch: Vec<Mutation>,
    /// The message that wakes whoever is next.
    pub message: Message,
}

/// What an investigator decides with when one ends.
pub type Decide<'a> = &'a (dyn Fn(&Sequence) -> Finish + Send + Sync);

/// Investigating.
#[async_trait]
pub trait InvestigatorStore: TraceStore {
    /// Claims the oldest investigation that is due, whose pause has passed and that nobody holds, for `lease_s`
    /// seconds; `None` when there is none. `worker` is for people.
    async fn claim(&self, worker: &str, lease_s: u64) -> Result<Option<Claim>>;

    /// Holds the lease for another `lease_s` seconds from now.
    async fn heartbeat(&self, claim: &Claim, lease_s: u64) -> Result<()>;

    /// Stores a stage's row; a second one of the same stage is ignored.
    async fn journal(&self, claim: &Claim, entry: &JournalEntry) -> Result<()>;

    /// Gives the claim back after a failed attempt: due again after `pause_s` seconds.
    async fn retry_later(&self, claim: &Claim, pause_s: u64, reason: &str) -> Result<()>;

    /// Gives the claim back unspent, because its worker stops: due again at once, and the attempt does not count. What
    /// was journalled stays, and the token moves on.
    async fn release(&self, claim: &Claim) -> Result<()>;

    /// Ends the investigation: stores result and timing, lets `decide` say what follows, makes the next one due or
    /// moves the retrospective to settling with its batch of mutations, and stores the message, in one transaction.
    /// `timing.attempts` and `timing.duration_ms` are overwritten by what the database saw.
    async fn finish(
        &self,
        claim: &Claim,
        result: &InvestigationResult,
        timing: Timing,
        decide: Decide<'_>,
    ) -> Result<()>;

    /// How many investigations may be claimed now: what waits for a worker, for people who ask why nothing moves.
    async fn claimable(&self) -> Result<u64>;
}
