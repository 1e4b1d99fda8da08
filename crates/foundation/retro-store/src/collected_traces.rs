//! Storage port of traces whose spans come in several requests.

use async_trait::async_trait;
use retro_core::id::{Tenant, Workflow};
use retro_core::trace_collection::{SpanOutline, TraceWaits};

use crate::{CompressedDocument, NewDeadLetter, Result};

/// Spans of one trace that came in a request.
#[derive(Debug, Clone)]
pub struct ArrivingTrace {
    /// Id of the trace.
    pub trace_id: String,
    /// Its spans, each once. None of a trace whose run the caller has, if they take too much memory.
    pub spans: Vec<ArrivingSpan>,
    /// `true` if the caller has the run of these spans and publishes it, unless more of the trace is stored.
    pub has_run: bool,
}

/// A span that came in a request, without secrets.
#[derive(Debug, Clone)]
pub struct ArrivingSpan {
    /// What decides when its trace is read.
    pub outline: SpanOutline,
    /// The span with its resource, as OTLP in JSON.
    pub document: CompressedDocument,
    /// Size of the document before compression, in bytes.
    pub bytes: u64,
}

/// Bounds of what is collected. Sizes are those of documents before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectionBounds {
    /// Maximum number of spans of a trace.
    pub trace_spans_max: u64,
    /// Maximum size of a trace, in bytes.
    pub trace_bytes_max: u64,
    /// Maximum number of traces of a tenant.
    pub tenant_traces_max: u64,
    /// Maximum size of the traces of a tenant, in bytes.
    pub tenant_bytes_max: u64,
}

/// When traces are decided about, and how much of them is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectionRules {
    /// Times after which a trace is not waited for any more.
    pub waits: TraceWaits,
    /// Bounds of what is collected.
    pub bounds: CollectionBounds,
    /// Seconds for which a process may work on a trace.
    pub lease_s: u64,
}

/// The right to decide about a trace, until another process claims it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceClaim {
    /// Owner of the trace.
    pub tenant: Tenant,
    /// Id of the trace.
    pub trace_id: String,
    /// Fencing token, which grows with each claim: the attempt of the run that is read under it, from 1.
    pub attempt: u32,
    /// Number of spans about which the claim decides. If more have come, only [`CollectedTraceStore::mark_traces_read`]
    /// has an effect.
    pub spans: u64,
}

/// A claimed trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedTrace {
    /// The right to decide about it.
    pub claim: TraceClaim,
    /// Number of spans from which its run was read; 0 if it was not.
    pub read_spans: u64,
    /// Milliseconds since its newest span came.
    pub quiet_ms: u64,
    /// Workflow of its run; `None` if it was not read.
    pub workflow: Option<Workflow>,
}

/// A stored span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSpan {
    /// What decides when its trace is read.
    pub outline: SpanOutline,
    /// The span with its resource, as OTLP in JSON.
    pub document: Vec<u8>,
}

/// What became of the spans of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddedTrace {
    /// They are all of the trace: the caller publishes its run and then calls
    /// [`CollectedTraceStore::mark_traces_read`]. `None` if the tenant has no space: nothing is kept, so spans that come
    /// later do not find the trace.
    HasRun(Option<TraceClaim>),
    /// They are stored, or were before.
    Stored {
        /// `true` if a run can be read from the trace now.
        is_due: bool,
    },
    /// The trace is closed; nothing is stored.
    TooLate,
    /// With them the trace would have this many spans, which is too many; nothing is stored.
    TooManySpans(u64),
    /// With them the trace would have this many bytes, which is too many; nothing is stored.
    TooManyBytes(u64),
}

/// Outcome of adding the spans of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddSpansResult {
    /// What became of each trace, in the order of the request.
    Added(Vec<AddedTrace>),
    /// The tenant has no space for them. Nothing was stored.
    TenantFull,
}

/// A trace whose run was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadTrace {
    /// The claim under which it was read.
    pub claim: TraceClaim,
    /// Workflow of its run; `None` if nothing was captured of it, so that it has none.
    pub workflow: Option<Workflow>,
}

/// What is decided about a trace that is not read.
#[derive(Debug, Clone, Copy)]
pub enum TraceEnd<'a> {
    /// It is decided about again when no span has come for this many milliseconds.
    Wait(u64),
    /// It is decided about again in this many milliseconds.
    Retry(u64),
    /// Its spans are deleted: it was read.
    Forget,
    /// It is deleted: nothing was called in it.
    Delete,
    /// Its spans become a dead letter.
    DeadLetter(&'a NewDeadLetter),
}

/// Collects the spans of traces.
#[async_trait]
pub trait CollectedTraceStore: Send + Sync {
    /// Returns those of these traces of which something is stored, or was in the last day.
    async fn list_collected_traces(&self, tenant: &Tenant, trace_ids: &[String]) -> Result<Vec<String>>;

    /// Adds the spans of a request, each once: a span that is stored stays as it is, unless only the new copy has ended.
    /// No trace may occur twice.
    async fn add_spans(
        &self,
        tenant: &Tenant,
        traces: &[ArrivingTrace],
        rules: &CollectionRules,
    ) -> Result<AddSpansResult>;

    /// Claims at most `limit` traces about which something may be decided, the longest due first. Skips those that
    /// another process has claimed in the last `lease_s` seconds.
    async fn claim_traces(&self, limit: u32, lease_s: u64) -> Result<Vec<ClaimedTrace>>;

    /// Loads the spans of a claimed trace, in the order of their ids.
    async fn load_trace_spans(&self, claim: &TraceClaim) -> Result<Vec<StoredSpan>>;

    /// Records that runs were read from the spans of these traces, which are of one tenant. They are decided about again
    /// when no span has come for `quiet_ms`. Does nothing for traces that another process has claimed since.
    async fn mark_traces_read(&self, tenant: &Tenant, traces: &[ReadTrace], quiet_ms: u64) -> Result<()>;

    /// Ends a claim. Returns `false`, and does no more than that, if spans have come since the claim, or if another
    /// process has claimed the trace.
    async fn end_trace_claim(&self, claim: &TraceClaim, end: TraceEnd<'_>) -> Result<bool>;

    /// Deletes at most `limit` traces that were closed at least `older_than_s` seconds ago. Returns their number.
    async fn purge_closed_traces(&self, older_than_s: u64, limit: u32) -> Result<u64>;
}
