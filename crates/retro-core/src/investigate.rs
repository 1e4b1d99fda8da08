//! Investigating in sequence: who is next, and when the last one has ended.

use serde::{Deserialize, Serialize};

use crate::retrospective::{Investigation, InvestigationResult};
use crate::sample::Sample;

/// What follows the end of an investigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "next", rename_all = "snake_case")]
pub enum Next {
    /// The next place of the sequence becomes due; `at` is its index in the shuffled order.
    Investigate {
        /// Its number, from 1.
        number: u32,
        /// Index into [`Sample::order`].
        at: u32,
        /// Whether it takes the place of one that failed.
        replacement: bool,
    },
    /// All are done: settle.
    Settle,
}

/// Decides what follows when the investigations `ended` so far have results. Each finally failed one lets the next
/// run of the shuffled order in, at most as often as the sample is large.
pub fn next(sample: &Sample, ended: &[InvestigationResult]) -> Next {
    let failed = ended.iter().filter(|result| !result.success()).count();
    let replacements = failed.min(sample.size as usize);
    let wanted = (sample.size as usize + replacements).min(sample.order.len());
    let done = ended.len();
    if done >= wanted {
        return Next::Settle;
    }
    let at = u32::try_from(done).expect("a sample is small");
    Next::Investigate { number: at + 1, at, replacement: at >= sample.size }
}

/// Whether the retrospective as a whole succeeded: one success suffices for a report.
pub fn succeeded(investigations: &[Investigation]) -> bool {
    investigations.iter().any(|one| one.result.as_ref().is_some_and(InvestigationResult::success))
}

/// What follows a failed attempt of one investigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Try again after so many seconds.
    After(u64),
    /// It is finally failed.
    GiveUp,
}

/// First pause between attempts of an investigation, seconds; doubles each time.
pub const RETRY_FIRST_S: u64 = 2;
/// Longest such pause, seconds.
pub const RETRY_MAX_S: u64 = 60;

/// Decides whether attempt number `attempts` (from 1), which failed, is followed by another.
pub fn retry(attempts: u32, attempts_max: u32) -> Retry {
    if attempts >= attempts_max {
        return Retry::GiveUp;
    }
    let doublings = attempts.saturating_sub(1).min(20);
    Retry::After((RETRY_FIRST_S << doublings).min(RETRY_MAX_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(size: u32, window: u64) -> Sample {
        Sample { seed: String::new(), order: (1..=window).collect(), size }
    }

    fn failed() -> InvestigationResult {
        InvestigationResult::Failed { reason: "x".into() }
    }

    fn nothing() -> InvestigationResult {
        InvestigationResult::Nothing { checked: crate::finding::Checked::default(), presented: vec![] }
    }

    #[test]
    fn a_failed_one_is_replaced_from_the_window_at_most_n_times() {
        let ok = nothing;
        assert_eq!(next(&sample(2, 10), &[]), Next::Investigate { number: 1, at: 0, replacement: false });
        assert_eq!(next(&sample(2, 10), &[ok(), ok()]), Next::Settle);
        assert_eq!(
            next(&sample(2, 10), &[failed(), ok()]),
            Next::Investigate { number: 3, at: 2, replacement: true }
        );
        assert_eq!(next(&sample(2, 10), &[failed(), failed(), failed(), failed()]), Next::Settle);
        assert_eq!(next(&sample(2, 2), &[failed(), failed()]), Next::Settle, "the window is used up");
    }

    #[test]
    fn attempts_are_bounded_and_pauses_double() {
        assert_eq!(retry(1, 3), Retry::After(2));
        assert_eq!(retry(2, 3), Retry::After(4));
        assert_eq!(retry(3, 3), Retry::GiveUp);
        assert_eq!(retry(30, 100), Retry::After(60));
    }
}
