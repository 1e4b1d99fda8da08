//! Estimates the effect of a memory: whether runs that were exposed to it end well more often than runs that were not.
//!
//! Exposure is not randomised, so this is a comparison and not a proof: memories are presented by weight, and weights
//! depend on success. Two measures keep the comparison fair. Unexposed runs count only if they began while the memory
//! was active, so that the memory is not credited with what became easier later. If runs name their task, each task is
//! compared with itself, so that hard tasks influence both sides equally.
//!
//! **Paired.** If enough tasks were tried both with and without the memory, the difference of success rates is computed
//! within each task. The tasks are the sample: many runs of one task count as one observation, because they resemble
//! each other. The interval is that of Agresti and Min ("Simple improved confidence intervals for comparing matched
//! proportions", Statistics in Medicine 24, 2005): half an observation is added to each cell of the table of pairs,
//! which keeps the interval from collapsing where every pair agrees. Student's quantile replaces the normal one,
//! because there are usually few tasks.
//!
//! **Unpaired.** Otherwise two proportions are compared by Newcombe's hybrid score interval ("Interval estimation for
//! the difference between independent proportions", Statistics in Medicine 17, 1998, method 10). As above, the runs of
//! one task count as one observation.
//!
//! Both intervals are about future runs and not about a finite set, so there is no finite population correction. The
//! tests compute the exact coverage probability by adding up all possible tables.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::memory::{Change, Memory, MemoryStatus, fold_change};

/// Number of observations that a claim needs: tasks tried both with and without the memory, or observations on each
/// side. With ten, the intervals cover the true difference with a probability of at least 0.84, whatever the difference
/// is; with eight, 0.83 (see the tests).
pub const OBSERVATIONS_MIN: u32 = 10;

/// The 0.95 quantile of the normal distribution, which gives 90 % intervals.
const Z: f64 = 1.644_853_626_951_472_2;

/// Facts about a run that are used to compare runs with and without a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Time at which the run began.
    pub began_at: Timestamp,
    /// Task of the run; `None` if the run does not name one.
    pub task: Option<String>,
    /// True if the memory was in the run's prompt or the agent opened it.
    pub exposed: bool,
    /// True if the run succeeded. `None` if that is unknown; the run is then ignored.
    pub succeeded: Option<bool>,
}

/// Effect of a memory on the success of its workflow's runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryEffect {
    /// Number of runs that were exposed to the memory, and how many of them succeeded.
    pub with: Arm,
    /// Number of runs that were not exposed to the memory while it was active, and how many of them succeeded.
    pub without: Arm,
    /// Number of tasks that were tried both with and without the memory.
    pub paired_tasks: u32,
    /// Number of observations so far, of the [`OBSERVATIONS_MIN`] that a claim needs. It is the number of paired tasks,
    /// or the number of observations on the smaller side if that is higher.
    pub observations: u32,
    /// Estimated difference; `None` while there are too few observations.
    pub estimate: Option<Estimate>,
}

/// Numbers of runs on one side of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Arm {
    /// Number of runs on this side whose outcome is known.
    pub runs: u32,
    /// Number of runs that succeeded.
    pub succeeded: u32,
}

/// Estimated difference of success rates, in thousandths: 120 means that 12 more of 100 runs succeed with the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// Method by which the two sides were compared.
    pub method: ComparisonMethod,
    /// Success rate with the memory minus success rate without it, in thousandths.
    pub difference_milli: i32,
    /// Lower end of the 90 % interval, in thousandths.
    pub low_milli: i32,
    /// Upper end of the 90 % interval, in thousandths.
    pub high_milli: i32,
}

/// Method by which the runs with and without a memory are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonMethod {
    /// Each task with the memory is compared with the same task without it.
    Paired,
    /// All runs with the memory are compared with all runs without it.
    Unpaired,
}

/// Conclusion that can be drawn from an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Runs succeed more often with the memory: the whole interval is above zero.
    Helps,
    /// Runs succeed less often with the memory: the whole interval is below zero.
    Harms,
    /// No difference is shown, because the interval contains zero.
    Inconclusive,
}

impl Estimate {
    /// Returns the conclusion that can be drawn from the interval.
    pub fn claim(&self) -> Claim {
        match (self.low_milli, self.high_milli) {
            (1.., _) => Claim::Helps,
            (_, ..=-1) => Claim::Harms,
            _ => Claim::Inconclusive,
        }
    }
}

impl MemoryEffect {
    /// Returns the conclusion in one line, which claims no more than the interval allows.
    pub fn summary_line(&self) -> String {
        let Some(estimate) = self.estimate else {
            return format!("no claim: {} of {OBSERVATIONS_MIN} observations", self.observations);
        };
        let claim = match estimate.claim() {
            Claim::Helps => "runs end well more often with it",
            Claim::Harms => "runs end well less often with it",
            Claim::Inconclusive => "no difference is shown",
        };
        let [difference, low, high] =
            [estimate.difference_milli, estimate.low_milli, estimate.high_milli].map(format_points);
        format!("{claim}: {difference} points of success, 90 % interval {low} to {high}")
    }
}

fn format_points(milli: i32) -> String {
    format!("{}{}.{}", if milli < 0 { "−" } else { "+" }, milli.abs() / 10, milli.abs() % 10)
}

/// Start and end of a period in which a memory was active. The end is `None` while the memory is still active.
pub type ActivePeriod = (Timestamp, Option<Timestamp>);

/// Returns the periods in which a memory was active, computed from its changes in order. Changes that cannot be applied
/// are ignored.
pub fn active_periods(history: &[Change]) -> Vec<ActivePeriod> {
    let mut memory: Option<Memory> = None;
    let mut spans: Vec<ActivePeriod> = Vec::new();
    for change in history {
        let is_active =
            |memory: &Option<Memory>| memory.as_ref().is_some_and(|one| one.status == MemoryStatus::Active);
        let was = is_active(&memory);
        if let Ok(after) = fold_change(memory.clone(), change) {
            memory = after;
        }
        match (was, is_active(&memory)) {
            (false, true) => spans.push((change.at, None)),
            (true, false) => {
                spans.last_mut().expect("a period began when the memory became active").1 = Some(change.at)
            }
            _ => {}
        }
    }
    spans
}

/// Compares runs that were exposed to a memory with runs that were not. Unexposed runs count only if they began while
/// the memory was active. Exposed runs always count, because only active memories are presented and clocks may differ.
pub fn estimate_effect(trials: &[Trial], active: &[ActivePeriod]) -> MemoryEffect {
    let within = |trial: &&Trial| {
        let during = |(from, until): &ActivePeriod| {
            *from <= trial.began_at && until.is_none_or(|end| trial.began_at < end)
        };
        trial.exposed || active.iter().any(during)
    };
    let (mut with, mut without) = (Arm::default(), Arm::default());
    // A sorted map, because a sum of floats depends on the order of its terms.
    let mut tasks: BTreeMap<Option<&str>, [Arm; 2]> = BTreeMap::new();
    for trial in trials.iter().filter(within) {
        // Counting a run of unknown outcome as either would bias its side.
        let Some(succeeded) = trial.succeeded else { continue };
        let side = if trial.exposed { &mut with } else { &mut without };
        side.record_run(succeeded);
        let task = tasks.entry(trial.task.as_deref()).or_default();
        task[usize::from(trial.exposed)].record_run(succeeded);
    }
    let differences: Vec<f64> = tasks.iter().filter_map(task_difference).collect();
    let paired_tasks = u32::try_from(differences.len()).unwrap_or(u32::MAX);
    let sides = [total_side(&tasks, 0), total_side(&tasks, 1)];
    let observations = sides.map(|side| side.observations).into_iter().min().unwrap_or(0).max(paired_tasks);
    let estimate = if paired_tasks >= OBSERVATIONS_MIN {
        paired_estimate(&differences)
    } else {
        unpaired_estimate(sides)
    };
    MemoryEffect { with, without, paired_tasks, observations, estimate }
}

impl Arm {
    fn record_run(&mut self, succeeded: bool) {
        self.runs += 1;
        self.succeeded += u32::from(succeeded);
    }

    fn success_rate(self) -> Option<f64> {
        (self.runs > 0).then(|| f64::from(self.succeeded) / f64::from(self.runs))
    }
}

/// Returns the difference of success rates within a task. Returns `None` if the task was not tried both ways, and for
/// runs without a task.
fn task_difference((task, [without, with]): (&Option<&str>, &[Arm; 2])) -> Option<f64> {
    task.as_ref().and(Some(with.success_rate()? - without.success_rate()?))
}

/// Estimates the effect from the differences within tasks.
fn paired_estimate(differences: &[f64]) -> Option<Estimate> {
    let tasks = f64::from(u32::try_from(differences.len()).ok()?);
    let sum: f64 = differences.iter().sum();
    let squares: f64 = differences.iter().map(|one| one * one).sum();
    // Half an observation in each of the four cells adds two pairs and a sum of squares of 1.
    let all = tasks + 2.0;
    let centre = sum / all;
    let variance = (squares + 1.0) / all - centre * centre;
    let half = student_quantile(tasks - 1.0) * (variance / all).sqrt();
    Some(Estimate::from_fractions(ComparisonMethod::Paired, sum / tasks, centre - half, centre + half))
}

/// Totals of one side of an unpaired comparison. Each task counts as one observation, and so does each run without a
/// task.
#[derive(Debug, Clone, Copy, Default)]
struct SideTotals {
    observations: u32,
    successes: f64,
}

fn total_side(tasks: &BTreeMap<Option<&str>, [Arm; 2]>, at: usize) -> SideTotals {
    let mut all = SideTotals::default();
    for (task, arms) in tasks {
        let arm = arms[at];
        let (count, successes) = match (task, arm.success_rate()) {
            (_, None) => continue,
            (Some(_), Some(rate)) => (1, rate),
            (None, Some(_)) => (arm.runs, f64::from(arm.succeeded)),
        };
        all.observations = all.observations.saturating_add(count);
        all.successes += successes;
    }
    all
}

/// Estimates the effect from the success rates of the two sides; `None` if a side has too few observations.
fn unpaired_estimate(sides: [SideTotals; 2]) -> Option<Estimate> {
    if sides.iter().any(|side| side.observations < OBSERVATIONS_MIN) {
        return None;
    }
    let [(p0, n0), (p1, n1)] = sides.map(|side| {
        let observations = f64::from(side.observations);
        (side.successes / observations, observations)
    });
    let ((low0, high0), (low1, high1)) = (wilson_interval(p0, n0), wilson_interval(p1, n1));
    let (low, high) = ((p1 - low1).hypot(high0 - p0), (high1 - p1).hypot(p0 - low0));
    Some(Estimate::from_fractions(ComparisonMethod::Unpaired, p1 - p0, p1 - p0 - low, p1 - p0 + high))
}

/// Returns Wilson's 90 % score interval for a proportion of `n` observations.
fn wilson_interval(share: f64, n: f64) -> (f64, f64) {
    let z2 = Z * Z;
    let centre = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt() / (1.0 + z2 / n);
    (centre - half, centre + half)
}

/// Returns Student's 0.95 quantile by Fisher's expansion in the degrees of freedom (Abramowitz and Stegun 26.7.5, two
/// terms). The error is below 0.002 from nine degrees of freedom on.
fn student_quantile(degrees: f64) -> f64 {
    let (z3, z5) = (Z.powi(3), Z.powi(5));
    Z + (z3 + Z) / (4.0 * degrees) + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * degrees * degrees)
}

impl Estimate {
    fn from_fractions(method: ComparisonMethod, difference: f64, low: f64, high: f64) -> Self {
        Self {
            method,
            difference_milli: to_milli(difference),
            low_milli: to_milli(low),
            high_milli: to_milli(high),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to ±1000")]
fn to_milli(difference: f64) -> i32 {
    (difference * 1000.0).round().clamp(-1000.0, 1000.0) as i32
}

#[cfg(test)]
mod tests;
