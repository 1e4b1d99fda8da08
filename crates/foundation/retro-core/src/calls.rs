//! Counts the calls of all runs of a window, also of those that are not investigated.
//!
//! A random sample decides which runs are *investigated*, because an investigation is expensive. What the
//! agents called, and what failed, is cheap to know of every run: each leaves a [`CallSummary`] of at most
//! [`SUMMARY_BYTES_MAX`] bytes. The summaries of a window become [`CallCounts`] when its retrospective
//! settles. The counts travel with the batch of mutations, and the writer reports them without counting again.

mod contrast;
mod count;
mod error_class;
mod failure;
mod reaction;
mod saved_quotes;
mod statistics;
mod summary;
#[cfg(test)]
mod tests;

pub use contrast::{
    CONTRAST_RUNS, Contrast, ContrastAnswer, HarmNumbers, ReactionCounts, SharedPart, SharedRemedy,
    UnneededMemory,
};
pub use count::{CallCounts, SummaryCoverage, WindowSummaries, count_calls};
pub use error_class::is_same_error_class;
pub use failure::{FAILURES_MAX, MissedFailure, MissedReason, RecurringFailure};
pub use reaction::{
    COMMAND_WORDS_MAX, ChangedPart, FIRST_SLOT, FORM_CHARS_MAX, FORMS_MAX, PARTS_MAX, REACTIONS_MAX,
    Reaction, ReactionEnding, SUBCOMMAND_SLOT, TOOL_SLOT, VOLATILE_MARK, label_of_words,
};
pub use saved_quotes::{QuoteCheck, SavedQuotes};
pub use statistics::{OPERATIONS_MAX, OperationStatistics, compute_statistics};
pub use summary::{
    CallSummary, ERROR_CHARS_MAX, MemoryTrial, ObservedBehaviour, ObservedCall, Operation, SUMMARIES_KEPT,
    SUMMARY_BYTES_MAX, SUMMARY_VERSION, StoredSummary, SummarizedCall, SummarizedError, SummaryContent,
    hash_answer, hash_label, hash_witnesses,
};
