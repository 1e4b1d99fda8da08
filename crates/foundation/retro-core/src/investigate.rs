//! Decides which run is investigated next, whether a failed attempt is retried, and when the retrospective
//! settles.

use serde::{Deserialize, Serialize};

use crate::retrospective::{Investigation, InvestigationResult};
use crate::sample::Sample;

/// Next stage of a retrospective after an investigation has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "next", rename_all = "snake_case")]
pub enum NextStage {
    /// Another investigation becomes due.
    Investigate {
        /// 1-based number of the investigation within the retrospective.
        number: u32,
        /// Index of the run in [`Sample::order`].
        at: u32,
        /// `true` if the investigation replaces one that failed.
        replacement: bool,
    },
    /// All investigations have ended, and the retrospective settles.
    Settle,
}

/// Decides the next stage from the results of the investigations that have ended. Each unsuccessful
/// investigation is replaced by the next run in the shuffled order, up to as many replacements as the sample
/// has runs.
pub fn decide_next_stage(sample: &Sample, ended: &[InvestigationResult]) -> NextStage {
    let failed = ended.iter().filter(|result| !result.is_success()).count();
    // Bounded, because a broken investigator would otherwise consume the whole window.
    let replacements = failed.min(sample.size as usize);
    let wanted = (sample.size as usize + replacements).min(sample.order.len());
    let done = ended.len();
    if done >= wanted {
        return NextStage::Settle;
    }
    let at = u32::try_from(done).expect("a sample is small");
    NextStage::Investigate { number: at + 1, at, replacement: at >= sample.size }
}

/// Returns `true` if any investigation succeeded. One success is enough for the retrospective to succeed.
pub fn has_success(investigations: &[Investigation]) -> bool {
    investigations.iter().any(|one| one.result.as_ref().is_some_and(InvestigationResult::is_success))
}

/// Decision about retrying an investigation after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// The investigation is retried after this many seconds.
    After(u64),
    /// The investigation has failed for good and is not retried.
    GiveUp,
}

/// Pause before the first retry of an investigation, in seconds. The pause doubles with each retry.
pub const RETRY_FIRST_S: u64 = 2;
/// Maximum pause between two attempts at an investigation, in seconds.
pub const RETRY_MAX_S: u64 = 60;

/// Decides whether to retry after `attempts` attempts have failed.
pub fn decide_retry(attempts: u32, attempts_max: u32) -> RetryDecision {
    if attempts >= attempts_max {
        return RetryDecision::GiveUp;
    }
    // Bounded, because shifting by 64 or more would overflow.
    let doublings = attempts.saturating_sub(1).min(20);
    RetryDecision::After((RETRY_FIRST_S << doublings).min(RETRY_MAX_S))
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
        InvestigationResult::Nothing { checked: crate::finding::CheckedAnswer::default(), presented: vec![] }
    }

    #[test]
    fn failed_investigations_are_replaced_at_most_n_times() {
        let ok = nothing;
        assert_eq!(
            decide_next_stage(&sample(2, 10), &[]),
            NextStage::Investigate { number: 1, at: 0, replacement: false }
        );
        assert_eq!(decide_next_stage(&sample(2, 10), &[ok(), ok()]), NextStage::Settle);
        assert_eq!(
            decide_next_stage(&sample(2, 10), &[failed(), ok()]),
            NextStage::Investigate { number: 3, at: 2, replacement: true }
        );
        assert_eq!(
            decide_next_stage(&sample(2, 10), &[failed(), failed(), failed(), failed()]),
            NextStage::Settle
        );
        assert_eq!(
            decide_next_stage(&sample(2, 2), &[failed(), failed()]),
            NextStage::Settle,
            "the window is used up"
        );
    }

    #[test]
    fn attempts_are_bounded_and_pauses_double() {
        assert_eq!(decide_retry(1, 3), RetryDecision::After(2));
        assert_eq!(decide_retry(2, 3), RetryDecision::After(4));
        assert_eq!(decide_retry(3, 3), RetryDecision::GiveUp);
        assert_eq!(decide_retry(30, 100), RetryDecision::After(60));
    }
}
