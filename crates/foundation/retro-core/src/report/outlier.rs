//! Finds outliers: runs whose cost, tokens or duration is far higher than that of the workflow's other runs.
//! They are reported for people to inspect. Slowness alone does not create a memory.

use serde::{Deserialize, Serialize};

use crate::id::{Ordinal, RunId};
use crate::run::RunFacts;

/// Maximum number of runs of a workflow to compare: the newest ones, including the window. Older costs are a
/// poor reference for current ones.
pub const HISTORY_RUNS_MAX: u32 = 200;
/// Minimum number of runs with a measured value. With fewer runs, each quartile would depend on a single one.
const RUNS_MIN: usize = 20;
/// Minimum value of an outlier as a multiple of the median, however little the other runs vary.
const MEDIANS_MIN: u64 = 2;
/// Maximum number of outliers in a report: those with the largest multiples of the median.
const OUTLIERS_MAX: usize = 10;

/// Cost, tokens and duration of a run, as far as its event reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSpending {
    /// Ordinal of the run.
    pub ordinal: Ordinal,
    /// Id of the run.
    pub run: RunId,
    /// Cost in millionths of a US dollar; `None` if unknown.
    pub cost_usd_micros: Option<u64>,
    /// Sum of input and output tokens; `None` if both are unknown.
    pub tokens: Option<u64>,
    /// Milliseconds from the start of the run to its end; `None` if unknown.
    pub duration_ms: Option<u64>,
}

/// Measure by which runs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpendingMeasure {
    /// Cost of a run, in millionths of a US dollar.
    CostUsdMicros,
    /// Sum of the input and output tokens of a run.
    Tokens,
    /// Duration of a run, in milliseconds.
    DurationMs,
}

/// A run with a value far higher than that of the workflow's other runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outlier {
    /// Ordinal of the run.
    pub ordinal: Ordinal,
    /// Id of the run.
    pub run: RunId,
    /// Measure in which the run is an outlier.
    pub measure: SpendingMeasure,
    /// Value of the run, in the unit of the measure.
    pub value: u64,
    /// Median of the workflow's newest runs, including this one, in the unit of the measure.
    pub median: u64,
    /// Number of runs that the median was computed from.
    pub runs: u32,
}

impl RunSpending {
    /// Extracts the cost, tokens and duration from the facts of a run.
    pub fn from_facts(ordinal: Ordinal, facts: &RunFacts) -> Self {
        let usage = facts.usage.clone().unwrap_or_default();
        let tokens = [usage.input_tokens, usage.output_tokens];
        let took = facts.started_at.zip(facts.finished_at);
        Self {
            ordinal,
            run: facts.run_id.clone(),
            cost_usd_micros: usage.cost_usd.map(usd_to_micros),
            tokens: tokens.iter().any(Option::is_some).then(|| tokens.into_iter().flatten().sum()),
            duration_ms: took
                .and_then(|(start, end)| u64::try_from(end.duration_since(start).as_millis()).ok()),
        }
    }

    const fn measured_value(&self, measure: SpendingMeasure) -> Option<u64> {
        match measure {
            SpendingMeasure::CostUsdMicros => self.cost_usd_micros,
            SpendingMeasure::Tokens => self.tokens,
            SpendingMeasure::DurationMs => self.duration_ms,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as-casts of floats saturate; costs are not negative"
)]
fn usd_to_micros(cost_usd: f64) -> u64 {
    (cost_usd * 1_000_000.0).round() as u64
}

/// Finds the outliers among the runs from ordinal `first` on, most extreme first. An outlier lies beyond
/// Tukey's outer fence, three interquartile ranges above the upper quartile ("Exploratory Data Analysis",
/// 1977). The fence is computed on logarithms, because costs and durations vary by factors.
pub(super) fn find_outliers(all: &[RunSpending], first: Ordinal) -> Vec<Outlier> {
    let measures = [SpendingMeasure::CostUsdMicros, SpendingMeasure::Tokens, SpendingMeasure::DurationMs];
    let mut found: Vec<Outlier> =
        measures.into_iter().flat_map(|measure| outliers_in_measure(all, first, measure)).collect();
    // Compares multiples of the median without rounding: a / b > c / d as a × d > c × b.
    found.sort_by(|one, other| {
        let size = |one: &Outlier, other: &Outlier| u128::from(one.value) * u128::from(other.median);
        size(other, one).cmp(&size(one, other)).then(one.ordinal.cmp(&other.ordinal))
    });
    found.truncate(OUTLIERS_MAX);
    found
}

fn outliers_in_measure(all: &[RunSpending], first: Ordinal, measure: SpendingMeasure) -> Vec<Outlier> {
    // Zeros are left out, because the fence divides by the lower quartile.
    let mut values: Vec<u64> =
        all.iter().filter_map(|one| one.measured_value(measure)).filter(|value| *value > 0).collect();
    if values.len() < RUNS_MIN {
        return Vec::new();
    }
    values.sort_unstable();
    let quartile = |nth: usize| values[(values.len() - 1) * nth / 4];
    let (low, median, high) = (quartile(1), quartile(2), quartile(3));
    // On logarithms, Q3 + 3 (Q3 - Q1) becomes Q3 × (Q3 / Q1)^3.
    let fence = high as f64 * (high as f64 / low as f64).powi(3);
    let stands_out = |value: u64| value as f64 > fence && value >= median.saturating_mul(MEDIANS_MIN);
    let runs = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let outlier = |one: &RunSpending| {
        let value = one.measured_value(measure).filter(|value| stands_out(*value))?;
        Some(Outlier { ordinal: one.ordinal, run: one.run.clone(), measure, value, median, runs })
    };
    all.iter().filter(|one| one.ordinal >= first).filter_map(outlier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns runs with these durations in milliseconds, ordinals from 1.
    fn took(all: &[u64]) -> Vec<RunSpending> {
        let run = |(ordinal, duration_ms): (u64, &u64)| RunSpending {
            ordinal,
            run: RunId::new(format!("r{ordinal}")).unwrap(),
            cost_usd_micros: None,
            tokens: None,
            duration_ms: Some(*duration_ms),
        };
        (1..).zip(all).map(run).collect()
    }

    fn outliers_of(all: &[u64], first: Ordinal) -> Vec<(Ordinal, u64, u64)> {
        find_outliers(&took(all), first).into_iter().map(|one| (one.ordinal, one.value, one.median)).collect()
    }

    #[test]
    fn a_run_far_beyond_the_others_is_an_outlier() {
        let usual: Vec<u64> = (0..30).map(|nth| 900 + nth * 10).collect();
        let all = [usual.clone(), vec![4300, 9000, 1900]].concat();
        assert_eq!(outliers_of(&all, 1), [(32, 9000, 1060), (31, 4300, 1060)], "twice the median is no news");
        assert_eq!(outliers_of(&all, 32), [(32, 9000, 1060)], "who stood out before was told before");
        assert_eq!(outliers_of(&usual, 1), []);
    }

    #[test]
    fn widely_spread_values_need_a_larger_outlier() {
        let wide: Vec<u64> = (0..24).map(|nth| 100 << (nth % 6)).collect();
        assert_eq!(outliers_of(&[wide.clone(), vec![6400]].concat(), 25), []);
        assert_eq!(outliers_of(&[wide, vec![6_400_000]].concat(), 25).len(), 1);
    }

    #[test]
    fn a_short_or_unmeasured_history_has_no_outliers() {
        let few = [vec![100; 18], vec![100_000]].concat();
        assert_eq!(outliers_of(&few, 1), []);
        assert_eq!(outliers_of(&[vec![100; 19], vec![100_000]].concat(), 1).len(), 1);
        assert_eq!(outliers_of(&[0; 50], 1), []);
    }

    #[test]
    fn spending_is_taken_from_the_facts() {
        let facts = serde_json::json!({
            "run_id": "r", "outcome": "success", "started_at": "2026-11-20T10:00:00Z", "finished_at": "2026-11-20T10:01:00.5Z",
            "usage": {"input_tokens": 1200, "cost_usd": 0.42},
        });
        let spent = RunSpending::from_facts(7, &serde_json::from_value(facts).unwrap());
        assert_eq!(
            (spent.cost_usd_micros, spent.tokens, spent.duration_ms),
            (Some(420_000), Some(1200), Some(60_500))
        );
        let facts = serde_json::json!({"run_id": "r", "outcome": "success"});
        let spent = RunSpending::from_facts(7, &serde_json::from_value(facts).unwrap());
        assert_eq!((spent.cost_usd_micros, spent.tokens, spent.duration_ms), (None, None, None));
    }
}
