//! Summarises the calls of all runs of a window, before its runs are investigated.
//!
//! This happens under the lease of the first claim, and of a later one if the process was lost in between. The
//! store hands out the runs without a summary and counts how often each was begun, so a body that ends the
//! process is given up and stops no retrospective.

use std::time::Duration;

use retro_consumer::{Watchdog, catch_panic, run_blocking};
use retro_core::calls::{SavedQuotes, SummaryContent};
use retro_core::memory::Memory;
use retro_store::{Claim, InvestigatorStore, RunToSummarize, StoreError, SummaryWrite};
use tracing::debug;

use crate::brief::{BodyError, BodySources, active_memories, fetch_body};
use crate::summary::summarize_run;

/// Maximum number of runs that are summarised between two writes. Their stored bodies are in memory at once.
const RUNS_PER_WRITE: u32 = 32;

/// Summarises the runs of claimed windows.
pub(crate) struct Summarizer<'a> {
    pub(crate) store: &'a dyn InvestigatorStore,
    pub(crate) bodies: &'a BodySources,
    /// Time that one summary may take. The watchdog then ends the process.
    pub(crate) deadline: Duration,
    pub(crate) watchdog: &'a Watchdog,
}

impl Summarizer<'_> {
    /// Summarises the runs of the window that have no summary yet.
    pub(crate) async fn summarize_window(&self, claim: &Claim) -> Result<(), StoreError> {
        loop {
            let runs = self.store.begin_summaries(claim, RUNS_PER_WRITE).await?;
            if runs.is_empty() {
                return Ok(());
            }
            let mut summaries = Vec::with_capacity(runs.len());
            for run in runs {
                summaries.extend(self.summarize(claim, run).await);
            }
            self.store.store_summaries(claim, &summaries).await?;
        }
    }

    /// Summarises a run. Returns `None` if its body cannot be fetched now: the store hands the run out again,
    /// as often as it may be begun.
    async fn summarize(&self, claim: &Claim, to_summarize: RunToSummarize) -> Option<SummaryWrite> {
        let RunToSummarize { run: facts, body } = to_summarize;
        let (run, attempt) = (facts.run_id.clone(), facts.attempt);
        let write = |content| Some(SummaryWrite { run: run.clone(), attempt, content });
        let fetched = match fetch_body(&claim.retrospective.key.tenant, &body, self.bodies).await {
            Ok(fetched) => fetched,
            Err(BodyError::Gone(reason)) => return write(SummaryContent::Unreadable(reason)),
            Err(BodyError::Unavailable(reason)) => {
                debug!(run.id = %run, "the body of run {run} cannot be summarised now: {reason}");
                return None;
            }
        };
        let what = format!("summary of run {run} in retrospective {}", claim.retrospective.id);
        let memories = active_memories(claim, &facts);
        let gave_quote = |memory: &&Memory| memory.unchecked_evidence(&facts.run_id).is_some();
        let saved: Vec<Memory> = claim.memories.iter().filter(gave_quote).cloned().collect();
        // The watch moves into the closure: nothing else can stop a thread that computes for too long.
        let watch = self.watchdog.watch(what, self.deadline);
        let summarized = catch_panic(run_blocking(move || {
            let _watch = watch;
            fetched.parse_trajectory(&facts).map(|trajectory| {
                // Our own words in the trace are no answer of a tool.
                let trajectory = trajectory.without_injected_blocks();
                let mut summary = summarize_run(&facts, &trajectory, &memories);
                summary.saved_quotes = SavedQuotes::check(&facts, &trajectory, &saved);
                summary
            })
        }));
        write(match summarized.await {
            Ok(Ok(summary)) => SummaryContent::Summary(summary),
            Ok(Err(reason)) => SummaryContent::Unreadable(reason),
            Err(panicked) => SummaryContent::Unreadable(panicked.to_string()),
        })
    }
}
