//! Converts between trace contexts and text columns.

use retro_core::trace::TraceContext;
use retro_store::trace::InvestigationTraces;

/// Formats the current trace context for a text column; `None` outside a trace.
pub(crate) fn current_trace() -> Option<String> {
    retro_telemetry::trace::current_trace_context().map(|trace| trace.to_string())
}

/// Parses a stored trace context. Returns `None` if the text is invalid, because tracing must never make the
/// traced work fail.
pub(crate) fn parse_trace(kept: Option<&str>) -> Option<TraceContext> {
    kept?.parse().ok()
}

/// Parses the trace contexts of an investigation from a row of two columns: that of the transaction that made
/// it due, and that of its run.
pub(crate) fn investigation_traces_from_row(
    row: Option<(Option<String>, Option<String>)>,
) -> InvestigationTraces {
    let (due, run) = row.unwrap_or_default();
    InvestigationTraces { due: parse_trace(due.as_deref()), run: parse_trace(run.as_deref()) }
}
