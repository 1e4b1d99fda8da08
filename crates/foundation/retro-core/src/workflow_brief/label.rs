//! Labels of calls, and counts.

use crate::calls::Operation;

/// Returns the label of an operation: its tool, and for a command the program with its subcommands.
pub(super) fn label_of(operation: &Operation) -> String {
    let words = std::iter::once(&operation.tool).chain(&operation.program);
    words.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// Converts a length to a count.
pub(super) fn to_count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
