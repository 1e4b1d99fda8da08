//! Estimates the effect of a memory by comparing the success rates of runs with and without it.
//!
//! Exposure is not randomised, so the result is a comparison and not a proof: memories are presented by
//! weight, and weights depend on success. Two measures keep the comparison fair. Unexposed runs count only if
//! they began while the memory was active, so improvements over time are not credited to the memory. If runs
//! name their task, each task is compared with itself, so hard tasks affect both sides equally.
//!
//! **Paired.** If enough tasks were tried both with and without the memory, the difference in success rates
//! is computed within each task. The tasks are the sample: many runs of one task count as one observation,
//! because they resemble each other. The interval is that of Agresti and Min ("Simple improved confidence
//! intervals for comparing matched proportions", Statistics in Medicine 24, 2005): half an observation is
//! added to each cell of the table of pairs, which keeps the interval from collapsing if all pairs agree.
//! Student's quantile replaces the normal one, because the number of tasks is usually small.
//!
//! **Unpaired.** Otherwise the two success rates are compared by Newcombe's hybrid score interval ("Interval
//! estimation for the difference between independent proportions", Statistics in Medicine 17, 1998, method
//! 10). As above, the runs of one task count as one observation.
//!
//! Both intervals describe future runs rather than a finite population, so there is no finite population
//! correction. The tests compute the exact coverage of the paired interval by enumerating all possible
//! tables.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::memory::{Change, Memory, MemoryStatus, fold_change};

/// Minimum number of observations for a claim: tasks tried both with and without the memory, or observations
/// on each side. With ten tasks, the paired interval covers the true difference with a probability of 0.94 on
/// average and at least 0.84, over the grid of differences in the tests. With eight tasks, the minimum is
/// 0.83.
pub const OBSERVATIONS_MIN: u32 = 10;

/// 0.95 quantile of the standard normal distribution, for two-sided 90 % intervals.
const Z: f64 = 1.644_853_626_951_472_2;

/// Facts about one run that enter the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Start time of the run, or the time at which it was stored if the emitter did not report a start.
    pub began_at: Timestamp,
    /// Name of the run's task; `None` if the run does not name one.
    pub task: Option<String>,
    /// `true` if the memory was in the run's prompt or the agent opened it.
    pub exposed: bool,
    /// `true` if the run succeeded; `None` if unknown, in which case the run is ignored.
    pub succeeded: Option<bool>,
}

/// Estimated effect of a memory on the success of its workflow's runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MemoryEffect {
    /// Runs that were exposed to the memory.
    pub with: Arm,
    /// Runs that began while the memory was active and were not exposed to it.
    pub without: Arm,
    /// Number of tasks that were tried both with and without the memory.
    pub paired_tasks: u32,
    /// Number of observations so far; a claim needs [`OBSERVATIONS_MIN`]. This is the number of paired tasks
    /// or the number of observations on the smaller side, whichever is larger.
    pub observations: u32,
    /// Estimated difference in success rates; `None` while there are too few observations.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub estimate: Option<Estimate>,
}

/// Run counts for one side of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Arm {
    /// Number of runs with a known outcome.
    pub runs: u32,
    /// Number of runs that succeeded.
    pub succeeded: u32,
}

/// Estimated difference in success rates, in thousandths: 120 means that 12 more of every 100 runs succeed
/// with the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Estimate {
    /// Method by which the two sides were compared.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub method: ComparisonMethod,
    /// Success rate with the memory minus success rate without it, in thousandths.
    pub difference_milli: i32,
    /// Lower bound of the 90 % interval, in thousandths.
    pub low_milli: i32,
    /// Upper bound of the 90 % interval, in thousandths.
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

/// Conclusion drawn from an estimate.
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
    /// Returns the conclusion that the interval allows.
    pub fn claim(&self) -> Claim {
        match (self.low_milli, self.high_milli) {
            (1.., _) => Claim::Helps,
            (_, ..=-1) => Claim::Harms,
            _ => Claim::Inconclusive,
        }
    }
}

impl MemoryEffect {
    /// Returns the conclusion as one line for people. It claims a difference only if the interval excludes
    /// zero.
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

/// Period in which a memory was active: start (inclusive) and end (exclusive). The end is `None` while the
/// memory is active.
pub type ActivePeriod = (Timestamp, Option<Timestamp>);

/// Returns the periods in which a memory was active, computed from its complete history, oldest change first.
/// Changes that cannot be folded are ignored.
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

/// Estimates the effect of a memory by comparing runs that were exposed to it with runs that were not.
/// Unexposed runs count only if they began while the memory was active. Exposed runs always count: only
/// active memories are presented, so a start outside these periods comes from different clocks.
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
        // Counting a run of unknown outcome as a success or as a failure would bias its side.
        let Some(succeeded) = trial.succeeded else { continue };
        let side = if trial.exposed { &mut with } else { &mut without };
        side.record_run(succeeded);
        let task = tasks.entry(trial.task.as_deref()).or_default();
        // Index 0 is the side without the memory, index 1 the side with it.
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

/// Returns the difference in success rates within a task. Returns `None` if the task was not tried both with
/// and without the memory, and for runs that name no task.
fn task_difference((task, [without, with]): (&Option<&str>, &[Arm; 2])) -> Option<f64> {
    task.as_ref().and(Some(with.success_rate()? - without.success_rate()?))
}

/// Estimates the effect from the differences within tasks, by the method of Agresti and Min.
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

/// Totals of one side of an unpaired comparison. Each task counts as one observation, and so does each run
/// without a task.
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

/// Estimates the effect from the success rates of the two sides, by Newcombe's method. Returns `None` if a
/// side has too few observations.
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

/// Returns the 0.95 quantile of Student's t distribution by Fisher's expansion (Abramowitz and Stegun 26.7.5,
/// two terms). The error is below 0.002 for nine or more degrees of freedom.
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
