//! Defines the result of a check.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::invariant::Invariant;

/// Violation of an invariant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Violated invariant.
    pub invariant: Invariant,
    /// Location of the violation: table and key, or stream and sequence.
    pub place: String,
    /// Human-readable description of the violation.
    pub problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, place, problem } = self;
        write!(f, "{}: {place}: {problem}. {}", invariant.as_str(), invariant.sentence())
    }
}

/// Result of checking a history and its states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Violations; empty if every invariant holds.
    pub violations: Vec<Violation>,
    /// Acknowledged events that were lost with the broker's data; empty unless the history contains a wipe of
    /// the broker.
    pub lost_with_broker: Vec<String>,
    /// Amount of work done by the program.
    pub progress: Progress,
}

impl CheckReport {
    /// Returns the distinct violated invariants.
    pub fn broken_invariants(&self) -> BTreeSet<Invariant> {
        self.violations.iter().map(|violation| violation.invariant).collect()
    }

    /// Panics with a list of the violations if there are any.
    pub fn assert_sound(&self) {
        let violations: Vec<_> = self.violations.iter().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
    }
}

/// Work done by the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of counted runs.
    pub counted: u64,
    /// Number of closed retrospectives.
    pub closed: u64,
    /// Number of dead letters.
    pub dead_letters: u64,
    /// Number of memory changes.
    pub changes: u64,
    /// Number of injected faults by kind.
    pub faults: BTreeMap<String, u64>,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counted, closed, dead_letters, changes, faults } = self;
        write!(
            f,
            "{counted} runs counted, {closed} retrospectives closed, {changes} changes, {dead_letters} dead letters"
        )?;
        let faults: Vec<_> = faults.iter().map(|(kind, times)| format!("{times} × {kind}")).collect();
        write!(f, "; faults: {}", if faults.is_empty() { "none".to_owned() } else { faults.join(", ") })
    }
}
