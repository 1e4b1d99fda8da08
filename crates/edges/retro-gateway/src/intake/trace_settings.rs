//! Says how traces are collected, and within which bounds.

use std::sync::Arc;

use retro_core::trace_collection::TraceWaits;
use retro_store::{CollectedTraceStore, CollectionBounds, CollectionRules};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

/// Maximum number of spans of a trace: more calls than a trajectory may have turns are never read.
pub(super) const TRACE_SPANS_MAX: u64 = 10_000;
/// Maximum size of a trace, in bytes of JSON: about that of a request, since reading it takes as much memory.
pub(super) const TRACE_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of traces of a tenant that are not closed. Each takes a row, however small it is.
const TENANT_TRACES_MAX: u64 = 20_000;

/// How traces are collected.
#[derive(Clone)]
pub struct TraceSettings {
    /// Stores the spans.
    pub store: Arc<dyn CollectedTraceStore>,
    /// Times after which a trace is not waited for any more.
    pub waits: TraceWaits,
    /// Maximum size of the traces of a tenant that are not closed, in bytes of JSON.
    pub tenant_bytes_max: u64,
    /// Seconds for which a process may work on a trace before another one takes it over. Reading the largest takes a
    /// second.
    pub lease_s: u64,
}

/// Collects traces.
pub(super) struct TraceCollection {
    pub(super) store: Arc<dyn CollectedTraceStore>,
    pub(super) rules: CollectionRules,
    /// Notified if something can be decided about a trace.
    pub(super) wake: Notify,
    /// Tasks that keep the spans of whole traces. A process that stops does not wait for them.
    pub(super) tasks: TaskTracker,
}

impl TraceCollection {
    pub(super) fn new(settings: TraceSettings) -> Self {
        let bounds = CollectionBounds {
            trace_spans_max: TRACE_SPANS_MAX,
            trace_bytes_max: TRACE_BYTES_MAX,
            tenant_traces_max: TENANT_TRACES_MAX,
            tenant_bytes_max: settings.tenant_bytes_max,
        };
        let rules = CollectionRules { waits: settings.waits, bounds, lease_s: settings.lease_s };
        Self { store: settings.store, rules, wake: Notify::new(), tasks: TaskTracker::new() }
    }
}
