//! Derives what both forms of a report show about the calls of all runs of the window: the first failures without
//! a memory, and the first operations.

use retro_core::calls::MissedFailure;
use retro_core::report::Report;

use crate::calls::describe::{
    OPERATION_HEAD, describe_coverage, describe_failure, describe_frequency, explain_reason, operation_cells,
};

/// Title of the section about failures that agents are not told about.
pub(super) const MISSED_TITLE: &str = "Failures without a memory";

/// Title of the section about operations.
pub(super) const CALLS_TITLE: &str = "What the runs called";

/// Headers of the table of operations.
pub(super) const CALLS_HEAD: [&str; 8] = OPERATION_HEAD;

/// Maximum number of failures and of operations shown.
const SHOWN_MAX: usize = 10;

/// The first failures without a memory.
pub(super) struct MissedSection {
    /// Name, frequency and reason of each failure. They contain text from runs.
    pub(super) failures: Vec<[String; 3]>,
    /// Sentence about the failures left out; empty if there are none.
    pub(super) more: String,
}

/// The first operations of the runs.
pub(super) struct CallsSection {
    /// Sentence about the number of counted runs.
    pub(super) coverage: String,
    /// Cells of the table, in the order of [`CALLS_HEAD`]. They contain text from runs.
    pub(super) rows: Vec<[String; 8]>,
    /// Sentence about the operations left out; empty if there are none.
    pub(super) more: String,
}

/// Returns the first failures without a memory; `None` if there are none.
pub(super) fn missed_section(report: &Report) -> Option<MissedSection> {
    let all = &report.calls.as_ref()?.missed;
    let line = |missed: &MissedFailure| {
        let failure = &missed.failure;
        [
            describe_failure(failure),
            describe_frequency(failure),
            explain_reason(&missed.reason, &report.tenant),
        ]
    };
    let failures: Vec<_> = all.iter().take(SHOWN_MAX).map(line).collect();
    (!failures.is_empty()).then(|| MissedSection { more: count_omitted(all.len()), failures })
}

/// Returns the first operations; `None` if the calls were not counted.
pub(super) fn calls_section(report: &Report) -> Option<CallsSection> {
    let calls = report.calls.as_ref()?;
    Some(CallsSection {
        coverage: describe_coverage(calls.coverage),
        rows: calls.operations.iter().take(SHOWN_MAX).map(operation_cells).collect(),
        more: count_omitted(calls.operations.len()),
    })
}

fn count_omitted(all: usize) -> String {
    match all.saturating_sub(SHOWN_MAX) {
        0 => String::new(),
        more => format!("and {more} more (the JSON has all)"),
    }
}
