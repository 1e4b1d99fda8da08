//! Estimates the effect of a memory on the success of runs, from runs that chance decided about.
//!
//! Some eligible memories are withheld from a run by chance ([`is_withheld`](crate::recall::is_withheld)). Runs
//! that a memory was withheld from and runs that were handed it differ in nothing else, so the difference
//! between their success rates is its effect. Runs count as assigned, whether or not they read the memory.
//!
//! **Properties needed.** An operator looks whenever they like, and the policy may change the probability in
//! between. The chance that the interval *ever* excludes the true effect, over all looks, must be at most 5 %.
//! Success rates may drift, and the runs of one task resemble each other.
//!
//! **Design.** A run with outcome *y* (1 or 0) that the memory was to be withheld from with probability *p*
//! contributes *d = (y − m) / (1 − p)* if it was handed the memory, and *d = −(y − m) / p* if not. Whatever *m*
//! is, as long as it is fixed before the outcome, the expectation of *d* over the decision is the effect on that
//! run; nothing is assumed about runs but that chance decided. *m* is near the rates so far, which keeps *d*
//! small. If the effect is *τ*, betting a share *λ* of a capital of 1 on *d* exceeding *τ*, run after run, is a
//! fair game: the capital *Π (1 + λ (d − τ))* is a non-negative martingale, which exceeds 40 at any time with a
//! probability of at most 1/40 (Ville's inequality). So the interval consists of the effects against which
//! neither the bets above nor those below have ever made 40 of 1 by now: 2 × 2.5 %. The capital is divided among
//! several shares, because the best one depends on the unknown effect. This is the hedged-capital confidence
//! sequence of Waudby-Smith and Ramdas ("Estimating means of bounded random variables by betting", Journal of
//! the Royal Statistical Society B 86, 2024), over inverse-probability weighted outcomes as in Waudby-Smith, Wu,
//! Ramdas, Karampatziakis and Mineiro ("Anytime-valid off-policy inference for contextual bandits", ACM/IMS
//! Journal of Data Science 1, 2024). It holds for any number of runs, not only for many.
//!
//! **Limits.** The interval holds for the effect on the average run if that does not change; if it changes, a
//! claim still holds for some of the runs. The guarantee covers runs whose facts are stored: retention deletes
//! the oldest ones.

mod comparison;

use serde::{Deserialize, Serialize};

pub use comparison::{
    ActivePeriod, ComparisonMethod, OBSERVATIONS_MIN, RunComparison, Trial, active_periods, compare_runs,
};

use crate::id::Ordinal;

/// Capital that refutes an effect, in multiples of the stake: 40 on each side give an error of 1/20 in all.
const REFUTING_CAPITAL: f64 = 40.0;

/// Shares of the largest safe bet among which the capital is divided. The largest finds large effects in few
/// runs, the smallest finds small effects in thousands.
const BET_SHARES: [f64; 5] = [0.9, 0.5, 0.25, 0.1, 0.05];

/// Run about which chance decided whether it was handed the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssignedRun {
    /// Ordinal of the run.
    pub ordinal: Ordinal,
    /// `true` if the memory was withheld from the run.
    pub withheld: bool,
    /// Probability, per mille, with which the memory was to be withheld.
    pub permille: u16,
    /// `true` if the run succeeded; `None` if unknown, in which case the run is ignored.
    pub succeeded: Option<bool>,
}

/// Effect of a memory on the success of its workflow's runs, by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MemoryEffect {
    /// Runs that were handed the memory, and that it might have been withheld from.
    pub handed: Arm,
    /// Runs that chance withheld the memory from.
    pub withheld: Arm,
    /// Interval for the effect; null until there are runs of both kinds.
    #[cfg_attr(feature = "schema", schema(required = true))]
    pub interval: Option<EffectInterval>,
}

/// Number of runs, and how many of them succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Arm {
    /// Number of runs with a known outcome.
    pub runs: u32,
    /// Number of runs that succeeded.
    pub succeeded: u32,
}

/// 95 % interval for the effect, in thousandths: 120 means that 12 more of every 100 runs succeed with the
/// memory. It holds however often one looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EffectInterval {
    /// Lower bound, in thousandths.
    pub low_milli: i32,
    /// Upper bound, in thousandths.
    pub high_milli: i32,
}

/// Conclusion drawn from an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Runs succeed more often with the memory: the whole interval is above zero.
    Helps,
    /// Runs succeed less often with the memory: the whole interval is below zero.
    Harms,
    /// No effect is shown, because the interval contains zero.
    Inconclusive,
}

impl EffectInterval {
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
    /// Returns the conclusion as one line for people. It claims an effect only if the interval excludes zero.
    pub fn summary_line(&self) -> String {
        let runs =
            format!("handed to {} and by chance withheld from {} runs", self.handed.runs, self.withheld.runs);
        let Some(interval) = self.interval else { return format!("not known yet: {runs}") };
        let claim = match interval.claim() {
            Claim::Helps => "runs end well more often with it",
            Claim::Harms => "runs end well less often with it",
            Claim::Inconclusive => "no effect is shown",
        };
        let [low, high] = [interval.low_milli, interval.high_milli].map(format_points);
        format!("{claim}: 95 % interval {low} to {high} points of success; {runs}")
    }
}

fn format_points(milli: i32) -> String {
    format!("{}{}.{}", if milli < 0 { "−" } else { "+" }, milli.abs() / 10, milli.abs() % 10)
}

/// Estimates the effect of a memory from the runs that chance decided about, in any order.
pub fn estimate_effect(runs: &[AssignedRun]) -> MemoryEffect {
    let mut runs = runs.to_vec();
    // Runs are counted in the order of their ordinals, so later looks only append.
    runs.sort_by_key(|run| run.ordinal);
    let mut effect = MemoryEffect::default();
    let mut bets = Vec::with_capacity(runs.len());
    for run in runs {
        let Some(succeeded) = run.succeeded else { continue };
        // Nothing was left to chance.
        if !(1..1000).contains(&run.permille) {
            continue;
        }
        bets.push(place_bet(&effect, &run, succeeded));
        let arm = if run.withheld { &mut effect.withheld } else { &mut effect.handed };
        arm.record_run(succeeded);
    }
    if effect.handed.runs > 0 && effect.withheld.runs > 0 {
        effect.interval = Some(find_interval(&bets));
    }
    effect
}

impl Arm {
    fn record_run(&mut self, succeeded: bool) {
        self.runs += 1;
        self.succeeded += u32::from(succeeded);
    }

    fn success_rate(self) -> Option<f64> {
        (self.runs > 0).then(|| f64::from(self.succeeded) / f64::from(self.runs))
    }

    /// Returns the success rate as if one more run had succeeded and one more had failed.
    fn shrunk_rate(self) -> f64 {
        f64::from(self.succeeded + 1) / f64::from(self.runs + 2)
    }
}

/// Contribution of one run to the effect, and the largest share of the capital that may be bet on it.
#[derive(Debug, Clone, Copy)]
struct Bet {
    difference: f64,
    share_max: f64,
}

/// Returns the bet on a run. Its share and its centre depend only on the runs before it.
fn place_bet(before: &MemoryEffect, run: &AssignedRun, succeeded: bool) -> Bet {
    let p = f64::from(run.permille) / 1000.0;
    // Gives the difference its smallest variance if the rates are these.
    let centre = p * before.handed.shrunk_rate() + (1.0 - p) * before.withheld.shrunk_rate();
    let outcome = f64::from(u8::from(succeeded)) - centre;
    let difference = if run.withheld { -outcome / p } else { outcome / (1.0 - p) };
    // A difference is within ±`bound` and an effect within ±1, so no bet can lose more than the capital.
    let bound = centre.max(1.0 - centre) / p.min(1.0 - p);
    Bet { difference, share_max: 1.0 / (bound + 1.0) }
}

/// Returns the interval of the effects, in whole thousandths, that no bets refute.
fn find_interval(bets: &[Bet]) -> EffectInterval {
    // The higher the effect, the less is won by betting above it.
    let high_milli = -find_lowest(|milli| refutes(bets, -1.0, -milli));
    EffectInterval { low_milli: find_lowest(|milli| refutes(bets, 1.0, milli)), high_milli }
}

/// Returns the lowest number of thousandths that is not refuted, if all lower ones are refuted.
fn find_lowest(is_refuted: impl Fn(i32) -> bool) -> i32 {
    let (mut low, mut high) = (-1000_i32, 1000_i32);
    while low < high {
        let middle = (low + high).div_euclid(2);
        (low, high) = if is_refuted(middle) { (middle + 1, high) } else { (low, middle) };
    }
    low
}

/// Returns `true` if betting on differences above the effect (`side` 1) or below it (`side` −1) has won enough.
fn refutes(bets: &[Bet], side: f64, effect_milli: i32) -> bool {
    let effect = f64::from(effect_milli) / 1000.0;
    // Logarithms, because a capital may exceed every float.
    let log_capital = |share: f64| -> f64 {
        let gain = |bet: &Bet| side * share * bet.share_max * (bet.difference - effect);
        bets.iter().map(|bet| gain(bet).ln_1p()).sum()
    };
    let capitals = BET_SHARES.map(log_capital);
    let largest = capitals.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = capitals.iter().map(|capital| (capital - largest).exp()).sum();
    largest + (sum / BET_SHARES.len() as f64).ln() >= REFUTING_CAPITAL.ln()
}

#[cfg(test)]
mod tests;
