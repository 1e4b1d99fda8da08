//! The counter's port.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::count::{Arrival, Counted, Effects, Facts};
use retro_core::id::{EventKey, WorkflowKey};
use retro_core::keep::Seen;
use retro_core::run::{HttpsRef, ObjectRef};
use retro_core::trace::TraceContext;

use crate::Result;

/// A finished run with its body, as the counter wants it stored.
#[derive(Debug, Clone, PartialEq)]
pub struct IncomingRun {
    /// The event and the run's facts.
    pub arrival: Arrival,
    /// Its place in the intake stream. Runs that wait in a window take their ordinals in this order when the window is
    /// claimed, so that it makes no difference which of several counters was quicker.
    pub position: u64,
    /// The trajectory.
    pub body: IncomingBody,
    /// What counting it continues; stored beside it, so that what follows can continue that.
    pub trace: Option<TraceContext>,
}

/// The trajectory of an incoming run.
#[derive(Debug, Clone, PartialEq)]
pub enum IncomingBody {
    /// None came.
    None,
    /// The redacted trajectory as JSON of [`retro_core::trajectory::Trajectory`]; stored compressed.
    Inline(Vec<u8>),
    /// It lies in the broker's object store.
    Object(ObjectRef),
    /// It lies at a host that is allowed.
    Https(HttpsRef),
}

/// What a counter decides with: the facts of a batch in, its effects out.
pub type Decide<'a> = &'a (dyn Fn(Facts, &[Arrival]) -> Effects + Send + Sync);

/// Counting.
#[async_trait]
pub trait CounterStore: Send + Sync {
    /// One transaction for a batch: loads what is known about its events, runs and workflows (and about the
    /// workflows in `look_at`), lets `decide` decide, and stores inbox rows, runs with bodies, workflow states,
    /// opened retrospectives and their messages. Returns one entry a run, in order. Two calls at once leave what
    /// one after the other would have left.
    async fn count(
        &self,
        batch: &[IncomingRun],
        look_at: &[WorkflowKey],
        decide: Decide<'_>,
    ) -> Result<Vec<Counted>>;

    /// What is remembered of each of these events, in order; `None` of one that was never handled.
    async fn seen(&self, events: &[EventKey]) -> Result<Vec<Option<Seen>>>;

    /// What is known now about the events, runs and workflows of these arrivals, as [`count`](Self::count) would load it.
    /// Holds nothing: others may change it meanwhile.
    async fn known(&self, arrivals: &[Arrival]) -> Result<Facts>;

    /// Workflows without an open retrospective whose pause, if any, has passed and that have counted runs waiting:
    /// the counter looks at them every so often, since no event may come to wake them. At most `limit`.
    async fn waiting_windows(&self, now: Timestamp, limit: u32) -> Result<Vec<WorkflowKey>>;
}
