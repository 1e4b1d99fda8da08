//! Port of the counter, which stores and counts finished runs.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::count::{Arrival, ArrivalDecision, CountingEffects, CountingFacts};
use retro_core::id::{EventKey, WorkflowKey};
use retro_core::retention::SeenContent;
use retro_core::run::{HttpsRef, ObjectRef};
use retro_core::trace::TraceContext;

use crate::Result;

/// A finished run and its body, to be stored by the counter.
#[derive(Debug, Clone, PartialEq)]
pub struct IncomingRun {
    /// Event of the run and the facts that it states.
    pub arrival: Arrival,
    /// Sequence number of the event in the intake stream. When a window is claimed, its runs get their ordinals in this
    /// order, so the result does not depend on which of several counters was faster.
    pub position: u64,
    /// Trajectory of the run, or where it is stored.
    pub body: IncomingBody,
    /// Trace context of the run, which counting continues; `None` when the run was not traced. It is stored with the
    /// run, so that the retrospective can continue it too.
    pub trace: Option<TraceContext>,
}

/// The trajectory of an incoming run, or where it is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum IncomingBody {
    /// The event contained no trajectory.
    None,
    /// A redacted trajectory, as JSON of [`retro_core::trajectory::Trajectory`]. It is stored compressed.
    Inline(Vec<u8>),
    /// A trajectory in the broker's object store.
    Object(ObjectRef),
    /// A trajectory at an HTTPS address, on a host that the configuration allows.
    Https(HttpsRef),
}

/// Decides how to count a batch of arrivals: takes the stored facts and the arrivals, and returns the effects to store.
pub type DecideCount<'a> = &'a (dyn Fn(CountingFacts, &[Arrival]) -> CountingEffects + Send + Sync);

/// Stores runs and counts them into the windows of their workflows.
#[async_trait]
pub trait CounterStore: Send + Sync {
    /// Counts a batch of runs in one transaction. Loads the stored state of their events, runs and workflows, and of
    /// the workflows in `look_at`. Then calls `decide`, and stores inbox rows, runs with bodies, workflow states,
    /// opened retrospectives and their messages. Returns one decision per run, in order. Two concurrent calls have the
    /// same result as two consecutive calls.
    async fn count_runs(
        &self,
        batch: &[IncomingRun],
        look_at: &[WorkflowKey],
        decide: DecideCount<'_>,
    ) -> Result<Vec<ArrivalDecision>>;

    /// Returns the inbox entry of each event, in order; `None` for an event that was never handled.
    async fn find_seen_events(&self, events: &[EventKey]) -> Result<Vec<Option<SeenContent>>>;

    /// Returns the stored facts about the events, runs and workflows of these arrivals, as
    /// [`count_runs`](Self::count_runs) would load them. It takes no lock, so the facts may be outdated when the
    /// call returns.
    async fn load_counting_facts(&self, arrivals: &[Arrival]) -> Result<CountingFacts>;

    /// Returns workflows whose windows may be full: those with counted runs waiting, no open retrospective, and no
    /// pause that lasts beyond `now`. Returns at most `limit`. The counter polls for them, because no further event may
    /// arrive to trigger the check.
    async fn list_waiting_windows(&self, now: Timestamp, limit: u32) -> Result<Vec<WorkflowKey>>;
}
