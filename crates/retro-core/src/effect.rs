//! The effect of a memory: do runs that were handed it end well more often than runs that were not?
//!
//! Nobody drew lots over who is handed what, so this compares and does not prove: a memory is handed out for its weight, and
//! weights follow success. Two things keep the comparison fair. Only runs count that began while the memory was active, so
//! that it is not credited with what has become easier since. And where runs say their task, a task is compared with
//! itself: what is hard stays hard on both sides.
//!
//! **Paired.** With enough tasks that were tried both with and without it, the difference of success rates is taken in each
//! task, and tasks are the sample: many runs of one task are one observation, since they resemble each other. The interval is
//! that of Agresti and Min ("Simple improved confidence intervals for comparing matched proportions", Statistics in Medicine
//! 24, 2005): half an observation is added to each cell of the table of pairs, which keeps the interval from collapsing
//! where every pair agrees. We take Student's quantile in place of the normal one, since few tasks are the rule here.
//!
//! **Unpaired.** Otherwise two shares are compared by Newcombe's hybrid score interval ("Interval estimation for the difference
//! between independent proportions", Statistics in Medicine 17, 1998, method 10). Runs of one task are one observation here, too.
//!
//! Both are intervals for runs to come, not for a finite set of them: there is no finite population correction. The tests
//! below add up the exact chance of covering the truth, table by table.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::memory::{Change, Memory, Status, fold};

/// Tasks that are needed on both sides, or observations on each side, before anything is claimed. With ten the
/// intervals cover the truth in 0.84 or more of all cases, whatever it is; with eight in 0.83 (see the tests).
pub const OBSERVATIONS_MIN: u32 = 10;

/// The normal distribution's 0.95 quantile: the intervals are of 90 %.
const Z: f64 = 1.644_853_626_951_472_2;

/// A run, as far as it says something about a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// When it began.
    pub began_at: Timestamp,
    /// What it was to do, if it says so.
    pub task: Option<String>,
    /// Whether it met the memory: the memory stood in its prompt, or was opened.
    pub met: bool,
    /// Whether it did what it was for; `None` when nobody said, and then it is compared with nothing.
    pub succeeded: Option<bool>,
}

/// What a memory did to the success of its workflow's runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryEffect {
    /// Runs that met it.
    pub with: Arm,
    /// Runs that did not, while it was active.
    pub without: Arm,
    /// Tasks that were tried both with and without it.
    pub paired_tasks: u32,
    /// How many observations there are of the [`OBSERVATIONS_MIN`] that a claim takes: paired tasks, or those of the side that has
    /// fewer, whichever are more.
    pub observations: u32,
    /// The difference; `None` while there are too few runs for any claim.
    pub estimate: Option<Estimate>,
}

/// One side of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Arm {
    /// How many runs.
    pub runs: u32,
    /// How many of them did what they were for.
    pub succeeded: u32,
}

/// A difference of success rates, in thousandths of a run: 120 means that 12 more of 100 runs succeed with the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// How the two sides were compared.
    pub method: Method,
    /// Success rate with it, less the rate without.
    pub difference_milli: i32,
    /// Where the interval of 90 % begins.
    pub low_milli: i32,
    /// Where it ends.
    pub high_milli: i32,
}

/// How two sides are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Task by task.
    Paired,
    /// All runs of one side with all of the other.
    Unpaired,
}

/// What an estimate lets one say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The whole interval is above nothing.
    Helps,
    /// The whole interval is below nothing.
    Harms,
    /// Nothing is within the interval.
    Open,
}

impl Estimate {
    /// What it lets one say.
    pub fn claim(&self) -> Claim {
        match (self.low_milli, self.high_milli) {
            (1.., _) => Claim::Helps,
            (_, ..=-1) => Claim::Harms,
            _ => Claim::Open,
        }
    }
}

impl MemoryEffect {
    /// What it lets one say, in one line that claims no more than the interval does.
    pub fn told(&self) -> String {
        let Some(estimate) = self.estimate else {
            return format!("no claim: {} of {OBSERVATIONS_MIN} observations", self.observations);
        };
        let claim = match estimate.claim() {
            Claim::Helps => "runs end well more often with it",
            Claim::Harms => "runs end well less often with it",
            Claim::Open => "no difference is shown",
        };
        let [difference, low, high] =
            [estimate.difference_milli, estimate.low_milli, estimate.high_milli].map(points);
        format!("{claim}: {difference} points of success, 90 % interval {low} to {high}")
    }
}

fn points(milli: i32) -> String {
    format!("{}{}.{}", if milli < 0 { "−" } else { "+" }, milli.abs() / 10, milli.abs() % 10)
}

/// A time during which a memory was active: from a policy moment, until another or still.
pub type Span = (Timestamp, Option<Timestamp>);

/// When a memory was active, by its changes in their order. A change that does not fit moves nothing.
pub fn active_spans(history: &[Change]) -> Vec<Span> {
    let mut memory: Option<Memory> = None;
    let mut spans: Vec<Span> = Vec::new();
    for change in history {
        let is_active =
            |memory: &Option<Memory>| memory.as_ref().is_some_and(|one| one.status == Status::Active);
        let was = is_active(&memory);
        if let Ok(after) = fold(memory.clone(), change) {
            memory = after;
        }
        match (was, is_active(&memory)) {
            (false, true) => spans.push((change.at, None)),
            (true, false) => spans.last_mut().expect("it was active since some moment").1 = Some(change.at),
            _ => {}
        }
    }
    spans
}

/// Compares the runs that met a memory with those that did not, as far as they began while it was active. A run that met it
/// counts whenever it began: clocks differ, and nobody is handed what is not active.
pub fn effect(trials: &[Trial], active: &[Span]) -> MemoryEffect {
    let within = |trial: &&Trial| {
        let during =
            |(from, until): &Span| *from <= trial.began_at && until.is_none_or(|end| trial.began_at < end);
        trial.met || active.iter().any(during)
    };
    let (mut with, mut without) = (Arm::default(), Arm::default());
    let mut tasks: BTreeMap<Option<&str>, [Arm; 2]> = BTreeMap::new();
    for trial in trials.iter().filter(within) {
        // A run of unknown outcome would pull its side toward success or failure, whichever it was counted as.
        let Some(succeeded) = trial.succeeded else { continue };
        let side = if trial.met { &mut with } else { &mut without };
        side.add(succeeded);
        let task = tasks.entry(trial.task.as_deref()).or_default();
        task[usize::from(trial.met)].add(succeeded);
    }
    let differences: Vec<f64> = tasks.iter().filter_map(difference).collect();
    let paired_tasks = u32::try_from(differences.len()).unwrap_or(u32::MAX);
    let sides = [side(&tasks, 0), side(&tasks, 1)];
    let observations = sides.map(|side| side.observations).into_iter().min().unwrap_or(0).max(paired_tasks);
    let estimate = if paired_tasks >= OBSERVATIONS_MIN { paired(&differences) } else { unpaired(sides) };
    MemoryEffect { with, without, paired_tasks, observations, estimate }
}

impl Arm {
    fn add(&mut self, succeeded: bool) {
        self.runs += 1;
        self.succeeded += u32::from(succeeded);
    }

    fn rate(self) -> Option<f64> {
        (self.runs > 0).then(|| f64::from(self.succeeded) / f64::from(self.runs))
    }
}

/// The difference within a task that was tried both ways; runs without a task are nobody's pair.
fn difference((task, [without, with]): (&Option<&str>, &[Arm; 2])) -> Option<f64> {
    task.as_ref().and(Some(with.rate()? - without.rate()?))
}

/// From the difference in each of several tasks.
fn paired(differences: &[f64]) -> Option<Estimate> {
    let tasks = f64::from(u32::try_from(differences.len()).ok()?);
    let sum: f64 = differences.iter().sum();
    let squares: f64 = differences.iter().map(|one| one * one).sum();
    // Half an observation in each of four cells: two pairs that agree in nothing but their number.
    let all = tasks + 2.0;
    let centre = sum / all;
    let variance = (squares + 1.0) / all - centre * centre;
    let half = student(tasks - 1.0) * (variance / all).sqrt();
    Some(Estimate::of(Method::Paired, sum / tasks, centre - half, centre + half))
}

/// One side of an unpaired comparison: a task is one observation, and so is a run that names none.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    observations: u32,
    successes: f64,
}

fn side(tasks: &BTreeMap<Option<&str>, [Arm; 2]>, at: usize) -> Side {
    let mut all = Side::default();
    for (task, arms) in tasks {
        let arm = arms[at];
        let (count, successes) = match (task, arm.rate()) {
            (_, None) => continue,
            (Some(_), Some(rate)) => (1, rate),
            (None, Some(_)) => (arm.runs, f64::from(arm.succeeded)),
        };
        all.observations = all.observations.saturating_add(count);
        all.successes += successes;
    }
    all
}

/// From the share of successes on each side.
fn unpaired(sides: [Side; 2]) -> Option<Estimate> {
    if sides.iter().any(|side| side.observations < OBSERVATIONS_MIN) {
        return None;
    }
    let [(p0, n0), (p1, n1)] = sides.map(|side| {
        let observations = f64::from(side.observations);
        (side.successes / observations, observations)
    });
    let ((low0, high0), (low1, high1)) = (wilson(p0, n0), wilson(p1, n1));
    let (low, high) = ((p1 - low1).hypot(high0 - p0), (high1 - p1).hypot(p0 - low0));
    Some(Estimate::of(Method::Unpaired, p1 - p0, p1 - p0 - low, p1 - p0 + high))
}

/// Wilson's score interval of 90 % for a share of `n` observations.
fn wilson(share: f64, n: f64) -> (f64, f64) {
    let z2 = Z * Z;
    let centre = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt() / (1.0 + z2 / n);
    (centre - half, centre + half)
}

/// Student's 0.95 quantile by Fisher's expansion in the degrees of freedom (Abramowitz and Stegun 26.7.5, two terms); within
/// 0.002 of it from nine degrees on.
fn student(freedom: f64) -> f64 {
    let (z3, z5) = (Z.powi(3), Z.powi(5));
    Z + (z3 + Z) / (4.0 * freedom) + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * freedom * freedom)
}

impl Estimate {
    fn of(method: Method, difference: f64, low: f64, high: f64) -> Self {
        Self { method, difference_milli: milli(difference), low_milli: milli(low), high_milli: milli(high) }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to ±1000")]
fn milli(difference: f64) -> i32 {
    (difference * 1000.0).round().clamp(-1000.0, 1000.0) as i32
}

#[cfg(test)]
mod tests;
