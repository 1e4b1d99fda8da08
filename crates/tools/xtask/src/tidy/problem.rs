//! Names what a check reports.

/// Sentence that states a problem, its location and its fix.
pub(crate) type Problem = String;
