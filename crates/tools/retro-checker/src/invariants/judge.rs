//! Collects violations.

use super::invariant::Invariant;
use super::report::{CheckReport, Violation};

/// Collects the violations found by a check.
#[derive(Default)]
pub(super) struct Judge {
    pub(super) checked: CheckReport,
}

impl Judge {
    pub(super) fn add_violation(
        &mut self,
        invariant: Invariant,
        place: impl Into<String>,
        problem: impl Into<String>,
    ) {
        let (place, problem) = (place.into(), problem.into());
        self.checked.violations.push(Violation { invariant, place, problem });
    }
}
