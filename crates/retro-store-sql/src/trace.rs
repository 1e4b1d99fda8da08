//! Converts the trace contexts that are stored in rows.

use retro_core::trace::TraceContext;
use retro_store::trace::InvestigationTraces;

/// Returns the current trace context as text for a column; `None` when there is none.
pub fn current_trace() -> Option<String> {
    retro_trace::current_trace_context().map(|trace| trace.to_string())
}

/// Parses a stored trace context. Returns `None` for an unreadable one, because a problem with tracing must never
/// make the work fail.
pub fn parse_trace(kept: Option<&str>) -> Option<TraceContext> {
    kept?.parse().ok()
}

/// Parses the two trace contexts of an investigation: that of the work that made it due, and that of the run.
pub fn investigation_traces_from_row(row: Option<(Option<String>, Option<String>)>) -> InvestigationTraces {
    let (due, run) = row.unwrap_or_default();
    InvestigationTraces { due: parse_trace(due.as_deref()), run: parse_trace(run.as_deref()) }
}
