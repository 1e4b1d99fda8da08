//! Storage port of the counter, which stores finished runs and counts them into windows.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::count::{Arrival, ArrivalDecision, CountingEffects, CountingFacts};
use retro_core::id::{EventKey, WorkflowKey};
use retro_core::retention::SeenContent;
use retro_core::run::{GithubLogRef, HttpsRef, ObjectRef};
use retro_core::trace::TraceContext;

use crate::{CompressedDocument, Result};

/// A finished run with its body, as the counter passes it to the store.
#[derive(Debug, Clone, PartialEq)]
pub struct IncomingRun {
    /// Run event with the facts it reports. Ordinals are assigned in the order of its position when a window is claimed,
    /// so the result does not depend on how concurrent counters interleave.
    pub arrival: Arrival,
    /// Trajectory of the run, inline or by reference.
    pub body: IncomingBody,
    /// Trace context of the run; `None` if the run was not traced. Stored with the run so that counting and
    /// the retrospective continue the trace.
    pub trace: Option<TraceContext>,
}

/// Trajectory of an incoming run, inline or by reference.
#[derive(Debug, Clone, PartialEq)]
pub enum IncomingBody {
    /// The event has no trajectory.
    None,
    /// Redacted trajectory: JSON of [`retro_core::trajectory::Trajectory`], compressed by the caller, who can do so
    /// while an earlier batch is being stored.
    Inline(CompressedDocument),
    /// Trajectory in the broker's object store.
    Object(ObjectRef),
    /// Trajectory at an HTTPS URL whose host is on the configured allowlist.
    Https(HttpsRef),
    /// Log of a GitHub Actions workflow, at GitHub.
    GithubLog(GithubLogRef),
}

/// Workflows whose windows are checked, although a batch may have no run of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct WindowsToCheck<'a> {
    /// The workflows.
    pub keys: &'a [WorkflowKey],
    /// Position up to which the intake stream has been handled.
    pub handled_up_to: u64,
}

/// Callback that decides how to count a batch, from the stored facts and the arrivals. Must be pure, because
/// a store may call it more than once.
pub type DecideCount<'a> = &'a (dyn Fn(CountingFacts, &[Arrival]) -> CountingEffects + Send + Sync);

/// Stores runs and counts them into the windows of their workflows.
#[async_trait]
pub trait CounterStore: Send + Sync {
    /// Counts a batch of runs in one transaction and returns one decision per run, in order.
    ///
    /// Loads the stored state of the batch's events, runs and workflows and of the workflows in `windows`,
    /// calls `decide`, and stores inbox rows, runs with bodies, workflow states, opened retrospectives and
    /// their messages. Concurrent calls are serialisable.
    async fn count_runs(
        &self,
        batch: &[IncomingRun],
        windows: WindowsToCheck<'_>,
        decide: DecideCount<'_>,
    ) -> Result<Vec<ArrivalDecision>>;

    /// Returns the inbox entry of each event, in input order; `None` for an event that was never handled.
    async fn find_seen_events(&self, events: &[EventKey]) -> Result<Vec<Option<SeenContent>>>;

    /// Returns the stored facts that [`count_runs`](Self::count_runs) would load for these arrivals. Takes no
    /// locks, so the facts may be outdated by the time the call returns.
    async fn load_counting_facts(&self, arrivals: &[Arrival]) -> Result<CountingFacts>;

    /// Returns at most `limit` workflows whose windows may be full, fullest first: workflows with waiting
    /// counted runs, no open retrospective, and no pause that ends after `now`. The counter polls this method
    /// because a full window may receive no further event that would trigger the check.
    async fn list_waiting_windows(&self, now: Timestamp, limit: u32) -> Result<Vec<WorkflowKey>>;
}
