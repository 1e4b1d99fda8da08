//! Counts of the calls of one window.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::failure::{RecurringFailure, find_recurring_failures};
use super::statistics::{OperationStatistics, compute_statistics};
use super::summary::{SUMMARY_VERSION, StoredSummary, SummaryContent};
use crate::id::RunId;

/// What the runs of a window called and what failed. It is stored with the batch of mutations, so the writer
/// reports the numbers without counting again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    /// Number of runs that the counts are about.
    pub coverage: SummaryCoverage,
    /// Statistics of the operations.
    pub operations: Vec<OperationStatistics>,
    /// Failures that recurred.
    pub failures: Vec<RecurringFailure>,
}

/// Number of runs of a window whose calls were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SummaryCoverage {
    /// Runs in the window.
    pub runs: u32,
    /// Runs whose calls were counted.
    pub counted: u32,
    /// Runs whose body could not be read.
    pub unreadable: u32,
    /// Calls that no count includes, because their runs had too many different operations.
    pub uncounted_calls: u32,
}

/// Summaries of the runs of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowSummaries {
    /// Number of runs in the window, also of those without a summary.
    pub runs: u32,
    /// Summaries, sorted by ordinal.
    pub summaries: Vec<StoredSummary>,
    /// Summaries of the runs claimed before, sorted by ordinal: with those of the window, at most
    /// [`CONTRAST_RUNS`](super::CONTRAST_RUNS).
    pub earlier: Vec<StoredSummary>,
}

/// Counts the calls of a window. `investigated` are the runs whose investigation gave an answer.
pub fn count_calls(window: &WindowSummaries, investigated: &BTreeSet<RunId>) -> CallCounts {
    let readable = |stored: &&StoredSummary| match &stored.content {
        SummaryContent::Summary(summary) => summary.version == SUMMARY_VERSION,
        SummaryContent::Unreadable(_) => false,
    };
    let counted: Vec<StoredSummary> = window.summaries.iter().filter(readable).cloned().collect();
    let unreadable =
        window.summaries.iter().filter(|stored| matches!(stored.content, SummaryContent::Unreadable(_)));
    let summaries = || {
        counted.iter().filter_map(|stored| match &stored.content {
            SummaryContent::Summary(summary) => Some(summary),
            SummaryContent::Unreadable(_) => None,
        })
    };
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    CallCounts {
        coverage: SummaryCoverage {
            runs: window.runs,
            counted: number(counted.len()),
            unreadable: number(unreadable.count()),
            uncounted_calls: summaries()
                .fold(0, |sum: u32, summary| sum.saturating_add(summary.uncounted_calls)),
        },
        operations: compute_statistics(summaries()),
        failures: find_recurring_failures(&counted, investigated),
    }
}
