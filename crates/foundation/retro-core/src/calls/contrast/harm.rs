//! Decides if following a memory makes calls fail, or if calls work as well without it.

use serde::{Deserialize, Serialize};

use super::witness::to_count;
use super::{Contrast, ContrastRun};
use crate::calls::summary::MemoryTrial;
use crate::id::{MemoryId, RunId};

/// Number of newest runs that count.
const RUNS_COUNTED: usize = 40;
/// Minimum number of followed calls that failed.
const FAILED_MIN: u32 = 2;
/// Minimum probability that calls as the memory says fail more often than others.
const WORSE_MIN: f64 = 0.9;

/// Number of newest calls not made as a memory says that show whether it is still needed.
const OTHERS_COUNTED: usize = 46;
/// Share of failing calls that is too small for a memory to be worth its place, and the maximum probability that so
/// few fail although the share is larger. None of 29 calls may fail, or one of 46.
const NEEDED_SHARE: f64 = 0.1;
const NEEDED_CHANCE_MAX: f64 = 0.05;

/// Numbers of calls that a memory is about and that were not made as it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnneededMemory {
    /// Memory that the calls did without.
    pub memory: MemoryId,
    /// Calls that were not made as the memory says, the newest ones.
    pub calls: u32,
    /// Those of them that failed.
    pub failed: u32,
}

/// Numbers of first calls that a memory is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HarmNumbers {
    /// Calls made as the memory says.
    pub followed: u32,
    /// Those of them that failed.
    pub followed_failed: u32,
    /// Other calls.
    pub others: u32,
    /// Those of them that failed.
    pub others_failed: u32,
}

impl Contrast<'_> {
    /// Returns the runs of the window whose call failed although or because it followed a memory, if such
    /// calls fail more often than others. The numbers are about the newest 40 runs with such a call.
    pub fn find_harmed_runs(&self, memory: MemoryId) -> Option<(HarmNumbers, Vec<RunId>)> {
        let trials: Vec<_> = self.trials_of(memory).take(RUNS_COUNTED).collect();
        let count = |wanted: &dyn Fn(&MemoryTrial) -> bool| {
            to_count(trials.iter().filter(|(_, trial)| wanted(trial)).count())
        };
        let numbers = HarmNumbers {
            followed: count(&|trial| trial.followed),
            followed_failed: count(&|trial| trial.followed && trial.failed),
            others: count(&|trial| !trial.followed),
            others_failed: count(&|trial| !trial.followed && trial.failed),
        };
        if numbers.followed_failed < FAILED_MIN || numbers.probability_of_harm() < WORSE_MIN {
            return None;
        }
        let harmed = trials
            .iter()
            .filter(|(one, trial)| one.ordinal >= self.window_from && trial.followed && trial.failed);
        let runs: Vec<RunId> = harmed.map(|(one, _)| one.run.clone()).collect();
        (!runs.is_empty()).then_some((numbers, runs))
    }

    /// Returns the numbers of the newest calls not made as a memory says, if so few of them fail that its effect cannot
    /// be more than small: the upper bound is that share of the calls, whatever following it does. Returns `None` if no
    /// such call is known to have failed before: then the failure does not show in the calls.
    pub fn find_unneeded(&self, memory: MemoryId) -> Option<UnneededMemory> {
        let others: Vec<_> =
            self.trials_of(memory).map(|(_, trial)| trial).filter(|trial| !trial.followed).collect();
        let newest = others.get(..OTHERS_COUNTED).unwrap_or(&others);
        let failed = to_count(newest.iter().filter(|trial| trial.failed).count());
        let calls = to_count(newest.len());
        let shows = others.iter().any(|trial| trial.failed);
        let is_rare = chance_of_at_most(failed, calls, NEEDED_SHARE) <= NEEDED_CHANCE_MAX;
        (shows && is_rare).then_some(UnneededMemory { memory, calls, failed })
    }

    /// Returns the trials of a memory with their runs, the newest first.
    fn trials_of(&self, memory: MemoryId) -> impl Iterator<Item = (&ContrastRun<'_>, MemoryTrial)> {
        let trial_of =
            move |trials: &[MemoryTrial]| trials.iter().find(|trial| trial.memory == memory).copied();
        self.runs.iter().rev().filter_map(move |one| Some((one, trial_of(&one.summary.trials)?)))
    }

    /// Returns the memories with a trial in the runs of the window, sorted.
    pub fn memories_tried(&self) -> Vec<MemoryId> {
        let since = self.runs.iter().filter(|one| one.ordinal >= self.window_from);
        let mut tried: Vec<MemoryId> =
            since.flat_map(|one| one.summary.trials.iter().map(|trial| trial.memory)).collect();
        tried.sort_unstable();
        tried.dedup();
        tried
    }
}

impl HarmNumbers {
    /// Returns the probability that followed calls fail more often than others, with uniform priors.
    ///
    /// Both failure rates have beta distributions with integer parameters, for which the probability is a finite
    /// sum (E. Miller, "Formulas for Bayesian A/B Testing", 2014). It is computed with the four basic operations
    /// only, so every machine gets the same bits.
    fn probability_of_harm(self) -> f64 {
        let beta = |failed: u32, all: u32| (f64::from(failed + 1), f64::from(all - failed + 1));
        let (a_others, b_others) = beta(self.others_failed, self.others);
        let (_, b_followed) = beta(self.followed_failed, self.followed);
        let mut term = 1.0;
        for k in 0..=(self.followed - self.followed_failed) {
            let k = f64::from(k);
            term *= (b_others + k) / (a_others + b_others + k);
        }
        let mut sum = 0.0;
        for i in 0..=self.followed_failed {
            sum += term;
            let i = f64::from(i);
            term *= (a_others + i) / (a_others + b_others + b_followed + i) * (b_followed + i) / (1.0 + i);
        }
        sum
    }
}

/// Returns the probability that at most `failed` of `calls` fail if each fails with the probability `share`. Computed with
/// the four basic operations only.
fn chance_of_at_most(failed: u32, calls: u32, share: f64) -> f64 {
    let none: f64 = (0..calls).map(|_| 1.0 - share).product();
    let mut term = none;
    let mut sum = term;
    for k in 0..failed.min(calls) {
        let (k, left) = (f64::from(k), f64::from(calls - k));
        term *= left / (k + 1.0) * share / (1.0 - share);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_failures_of_many_calls_are_no_accident() {
        assert!((chance_of_at_most(1, 2, 0.5) - 0.75).abs() < 1e-12);
        assert!((chance_of_at_most(2, 2, 0.1) - 1.0).abs() < 1e-12);
        for (failed, calls, rare) in
            [(0, 28, false), (0, 29, true), (1, 45, false), (1, 46, true), (2, 46, false)]
        {
            assert_eq!(
                chance_of_at_most(failed, calls, NEEDED_SHARE) <= NEEDED_CHANCE_MAX,
                rare,
                "{failed}/{calls}"
            );
        }
    }

    fn probability(followed: [u32; 2], others: [u32; 2]) -> f64 {
        let ([followed_failed, followed], [others_failed, others]) = (followed, others);
        HarmNumbers { followed, followed_failed, others, others_failed }.probability_of_harm()
    }

    #[test]
    fn equal_numbers_leave_it_open_and_a_clear_difference_does_not() {
        for same in [[0, 0], [1, 2], [3, 9]] {
            assert!((probability(same, same) - 0.5).abs() < 1e-12, "{same:?}");
        }
        // One side has the rate p with density 1, the other 2p: the integral of 2p·p is 2/3.
        assert!((probability([1, 1], [0, 0]) - 2.0 / 3.0).abs() < 1e-12);
        assert!(probability([4, 4], [0, 6]) > 0.99);
        assert!(probability([0, 6], [4, 6]) < 0.05);
        assert!((probability([4, 4], [0, 6]) + probability([0, 6], [4, 4]) - 1.0).abs() < 1e-12);
    }
}
