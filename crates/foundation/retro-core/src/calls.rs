//! Counts the calls of all runs of a window, also of those that are not investigated.
//!
//! A random sample decides which runs are *investigated*, because an investigation is expensive. What the
//! agents called, and what failed, is cheap to know of every run: each leaves a [`CallSummary`] of at most
//! [`SUMMARY_BYTES_MAX`] bytes. The summaries of a window become [`CallCounts`] when its retrospective
//! settles. The counts travel with the batch of mutations, and the writer reports them without counting again.

mod count;
mod failure;
mod statistics;
mod summary;
#[cfg(test)]
mod tests;

pub use count::{CallCounts, SummaryCoverage, WindowSummaries, count_calls};
pub use failure::{FAILURES_MAX, MissedFailure, MissedReason, RecurringFailure};
pub use statistics::{OPERATIONS_MAX, OperationStatistics, compute_statistics};
pub use summary::{
    CallSummary, ERROR_CHARS_MAX, ObservedCall, Operation, SUMMARIES_KEPT, SUMMARY_BYTES_MAX,
    SUMMARY_VERSION, StoredSummary, SummarizedCall, SummarizedError, SummaryContent,
};
