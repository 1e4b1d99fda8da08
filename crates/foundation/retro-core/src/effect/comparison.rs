//! Compares the success rates of runs with and without a memory, whether chance decided about them or not.
//!
//! The result is a comparison and not an effect: memories are presented by weight, and weights depend on
//! success. Two measures keep it fair. Unexposed runs count only if they began while the memory was active, so
//! improvements over time are not credited to the memory. If enough tasks were tried both with and without the
//! memory, each task is compared with itself, so hard tasks affect both sides equally; the tasks are the
//! sample, because many runs of one task resemble each other.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Arm;
use crate::memory::{Change, Memory, MemoryStatus, fold_change};

/// Minimum number of observations for a difference: tasks tried both with and without the memory, or
/// observations on each side.
pub const OBSERVATIONS_MIN: u32 = 10;

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

/// Comparison of the runs with and without a memory. Not an effect, because chance did not decide which runs are
/// on which side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunComparison {
    /// Runs that were exposed to the memory.
    pub with: Arm,
    /// Runs that began while the memory was active and were not exposed to it.
    pub without: Arm,
    /// Number of tasks that were tried both with and without the memory.
    pub paired_tasks: u32,
    /// Method by which the two sides were compared.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub method: ComparisonMethod,
    /// Success rate with the memory minus success rate without it, in thousandths; `None` while there are fewer
    /// than ten observations.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub difference_milli: Option<i32>,
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

/// Compares runs that were exposed to a memory with runs that were not. Unexposed runs count only if they began
/// while the memory was active. Exposed runs always count: only active memories are presented, so a start
/// outside these periods comes from different clocks.
pub fn compare_runs(trials: &[Trial], active: &[ActivePeriod]) -> RunComparison {
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
    let (method, difference) = if paired_tasks >= OBSERVATIONS_MIN {
        (ComparisonMethod::Paired, Some(differences.iter().sum::<f64>() / f64::from(paired_tasks)))
    } else {
        (ComparisonMethod::Unpaired, unpaired_difference([total_side(&tasks, 0), total_side(&tasks, 1)]))
    };
    RunComparison { with, without, paired_tasks, method, difference_milli: difference.map(to_milli) }
}

/// Returns the difference in success rates within a task. Returns `None` if the task was not tried both with
/// and without the memory, and for runs that name no task.
fn task_difference((task, [without, with]): (&Option<&str>, &[Arm; 2])) -> Option<f64> {
    task.as_ref().and(Some(with.success_rate()? - without.success_rate()?))
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

/// Returns the difference between the success rates of the two sides; `None` if a side has too few
/// observations.
fn unpaired_difference(sides: [SideTotals; 2]) -> Option<f64> {
    let is_small = |side: &SideTotals| side.observations < OBSERVATIONS_MIN;
    let [without, with] = sides.map(|side| side.successes / f64::from(side.observations));
    (!sides.iter().any(is_small)).then_some(with - without)
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to ±1000")]
fn to_milli(difference: f64) -> i32 {
    (difference * 1000.0).round().clamp(-1000.0, 1000.0) as i32
}

#[cfg(test)]
mod tests;
