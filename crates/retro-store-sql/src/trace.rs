//! Trace contexts in rows.

use retro_core::trace::TraceContext;
use retro_store::trace::InvestigationTraces;

/// What is at work here, as it is kept in a row.
pub fn current() -> Option<String> {
    retro_trace::current().map(|trace| trace.to_string())
}

/// A context as it was kept. What cannot be read counts as none: no work may fail because of it.
pub fn read(kept: Option<&str>) -> Option<TraceContext> {
    kept?.parse().ok()
}

/// Those of an investigation: of what made it due, and of the run.
pub fn of_investigation(row: Option<(Option<String>, Option<String>)>) -> InvestigationTraces {
    let (due, run) = row.unwrap_or_default();
    InvestigationTraces { due: read(due.as_deref()), run: read(run.as_deref()) }
}
