//! Trace contexts in rows.

use retro_core::trace::TraceContext;
use retro_store::trace::InvestigationTraces;

/// Returns the current trace context as text for a column.
pub fn current_trace() -> Option<String> {
    retro_trace::current_trace_context().map(|trace| trace.to_string())
}

/// Parses a stored trace context. An unreadable one counts as none: tracing must never fail the work.
pub fn parse_trace(kept: Option<&str>) -> Option<TraceContext> {
    kept?.parse().ok()
}

/// Parses the trace contexts of an investigation: the one that made it due, and the run's.
pub fn investigation_traces_from_row(row: Option<(Option<String>, Option<String>)>) -> InvestigationTraces {
    let (due, run) = row.unwrap_or_default();
    InvestigationTraces { due: parse_trace(due.as_deref()), run: parse_trace(run.as_deref()) }
}
