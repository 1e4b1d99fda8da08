//! Storage port of the investigator: claims investigations under fenced leases and journals their stages.
//!
//! Leases are measured by the database clock alone. Every write after the claim passes the fencing token; a
//! write with an outdated token fails with [`crate::StoreError::Fenced`] and stores nothing.

use async_trait::async_trait;
use retro_core::calls::{CallCounts, SummaryContent, WindowSummaries};
use retro_core::id::RunId;
use retro_core::investigate::NextStage;
use retro_core::learn::Mutation;
use retro_core::message::Message;
use retro_core::report::InvestigationTiming;
use retro_core::retrospective::{Investigation, InvestigationResult, Retrospective};
use retro_core::run::RunFacts;
use retro_core::sample::Sample;

use crate::{
    Claim, JournalEntry, ModelCallStore, PipelineStore, Result, StoredBody, TraceStore, WorkflowBriefStore,
};

/// Run of a claimed window whose calls are not yet summarised.
#[derive(Debug, Clone)]
pub struct RunToSummarize {
    /// Facts of the run as reported by its event.
    pub run: RunFacts,
    /// Trajectory of the run, inline or by reference.
    pub body: StoredBody,
}

/// Summary of a run to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryWrite {
    /// Run that was summarised.
    pub run: RunId,
    /// Attempt of the run that was summarised. A higher attempt is summarised again.
    pub attempt: u32,
    /// Summary, or the reason why the body could not be read.
    pub content: SummaryContent,
}

/// Number of times that the summary of one run may be begun. A body that ends the process each time is given
/// up, so it cannot stop a retrospective.
pub const SUMMARY_ATTEMPTS_MAX: u32 = 3;

/// State of a retrospective at the end of one of its investigations.
#[derive(Debug, Clone)]
pub struct InvestigationSequence {
    /// Retrospective that is being investigated.
    pub retrospective: Retrospective,
    /// Sample of runs to investigate.
    pub sample: Sample,
    /// Ended investigations in order of execution, including the one that is ending now.
    pub ended: Vec<Investigation>,
    /// Call summaries of the window; empty for a manual retrospective, and as long as an investigation is
    /// left.
    pub window: WindowSummaries,
}

/// Work to store when an investigation ends.
#[derive(Debug, Clone)]
pub struct FollowUp {
    /// Next stage of the retrospective: another investigation, or settling.
    pub next: NextStage,
    /// Mutations for the writer to apply; empty unless the retrospective settles.
    pub batch: Vec<Mutation>,
    /// What the runs of the window called and what failed; `None` unless an automatic retrospective settles.
    pub calls: Option<CallCounts>,
    /// Message that wakes the next worker, or the writer if the retrospective settles.
    pub message: Message,
}

/// Callback that decides what follows the end of an investigation.
pub type DecideFollowUp<'a> = &'a (dyn Fn(&InvestigationSequence) -> FollowUp + Send + Sync);

/// Claims investigations, journals their stages and ends them.
#[async_trait]
pub trait InvestigatorStore: TraceStore + ModelCallStore + PipelineStore + WorkflowBriefStore {
    /// Claims the oldest due investigation that is neither paused nor claimed, for `lease_s` seconds. Returns
    /// `None` if there is none. `worker` is the display name of the worker.
    async fn claim_investigation(&self, worker: &str, lease_s: u64) -> Result<Option<Claim>>;

    /// Renews the lease of a claim to `lease_s` seconds from now.
    async fn extend_lease(&self, claim: &Claim, lease_s: u64) -> Result<()>;

    /// Appends a journal entry. Ignores a second entry for the same stage.
    async fn append_journal(&self, claim: &Claim, entry: &JournalEntry) -> Result<()>;

    /// Releases the claim after a failed attempt and makes the investigation due again in `pause_s` seconds.
    async fn schedule_retry(&self, claim: &Claim, pause_s: u64, reason: &str) -> Result<()>;

    /// Releases the claim of a worker that is shutting down. The investigation is due again immediately and
    /// the attempt does not count. Keeps the journal and increases the fencing token.
    async fn release_claim(&self, claim: &Claim) -> Result<()>;

    /// Begins to summarise runs of the claimed retrospective's window, at most `limit`, in the order of their
    /// ordinals. Of a long window, only the newest [`SUMMARIES_KEPT`](retro_core::calls::SUMMARIES_KEPT) runs
    /// are summarised, because no more are kept. Returns those without a summary, and those whose summary is of a lower attempt at the run or
    /// of an older version than [`SUMMARY_VERSION`](retro_core::calls::SUMMARY_VERSION). A run whose summary
    /// was begun before and not stored is returned alone. One that was begun [`SUMMARY_ATTEMPTS_MAX`] times is
    /// stored as unreadable instead. Returns nothing for a manual retrospective.
    async fn begin_summaries(&self, claim: &Claim, limit: u32) -> Result<Vec<RunToSummarize>>;

    /// Stores summaries of runs of the claimed retrospective's window. Replaces those of lower attempts and
    /// older versions.
    async fn store_summaries(&self, claim: &Claim, summaries: &[SummaryWrite]) -> Result<()>;

    /// Ends the investigation in one transaction.
    ///
    /// Stores its result and timing, to whose cost it adds that of the stored model calls, calls `decide`, and stores the follow-up: either the next investigation
    /// becomes due, or the retrospective starts settling with its batch of mutations. Everything else in `timing` is
    /// replaced with the values known to the database.
    async fn finish_investigation(
        &self,
        claim: &Claim,
        result: &InvestigationResult,
        timing: InvestigationTiming,
        decide: DecideFollowUp<'_>,
    ) -> Result<()>;

    /// Returns the number of investigations that can be claimed now.
    async fn count_claimable(&self) -> Result<u64>;
}
