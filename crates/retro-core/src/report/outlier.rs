//! Runs that took far more than their workflow's own runs do: for a person to look at. A run that is only slow makes no memory.

use serde::{Deserialize, Serialize};

use crate::id::{Ordinal, RunId};
use crate::run::RunFacts;

/// The newest runs of a workflow, its window among them, that a run is held against: what a workflow cost long ago says
/// little of what it costs now.
pub const HISTORY_RUNS_MAX: u32 = 200;
/// So many runs must tell a measure before any of them stands out in it: under it, quartiles are single runs.
const RUNS_MIN: usize = 20;
/// What is below twice the median is no news, however alike the others are.
const MEDIANS_MIN: u64 = 2;
/// The most that a report tells; the largest stay.
const OUTLIERS_MAX: usize = 10;

/// What a run took, as far as its event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// Its ordinal.
    pub ordinal: Ordinal,
    /// Its id.
    pub run: RunId,
    /// Millionths of a US dollar.
    pub cost_usd_micros: Option<u64>,
    /// Tokens in and out together.
    pub tokens: Option<u64>,
    /// From its start to its end, milliseconds.
    pub took_ms: Option<u64>,
}

/// What is measured of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// What it cost, in millionths of a US dollar.
    CostUsdMicros,
    /// Its tokens, in and out together.
    Tokens,
    /// How long it took, in milliseconds.
    TookMs,
}

/// A run that took far more than its workflow's runs do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outlier {
    /// Its ordinal.
    pub ordinal: Ordinal,
    /// Its id.
    pub run: RunId,
    /// In which measure.
    pub measure: Measure,
    /// What it took.
    pub value: u64,
    /// The median over the workflow's newest runs, itself among them.
    pub median: u64,
    /// How many runs told this measure.
    pub runs: u32,
}

impl Spent {
    /// What the facts of a run say.
    pub fn of(ordinal: Ordinal, facts: &RunFacts) -> Self {
        let usage = facts.usage.clone().unwrap_or_default();
        let tokens = [usage.input_tokens, usage.output_tokens];
        let took = facts.started_at.zip(facts.finished_at);
        Self {
            ordinal,
            run: facts.run_id.clone(),
            cost_usd_micros: usage.cost_usd.map(micros),
            tokens: tokens.iter().any(Option::is_some).then(|| tokens.into_iter().flatten().sum()),
            took_ms: took.and_then(|(start, end)| u64::try_from(end.duration_since(start).as_millis()).ok()),
        }
    }

    const fn measured(&self, measure: Measure) -> Option<u64> {
        match measure {
            Measure::CostUsdMicros => self.cost_usd_micros,
            Measure::Tokens => self.tokens,
            Measure::TookMs => self.took_ms,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as-casts of floats saturate; costs are not negative"
)]
fn micros(cost_usd: f64) -> u64 {
    (cost_usd * 1_000_000.0).round() as u64
}

/// The runs from ordinal `first` on that stand out among all of these, the most extraordinary first: beyond the outer fence
/// of Tukey ("Exploratory data analysis", 1977: three times the distance of the quartiles above the upper one), drawn over
/// logarithms, since costs and times spread by factors.
pub(super) fn outliers(all: &[Spent], first: Ordinal) -> Vec<Outlier> {
    let measures = [Measure::CostUsdMicros, Measure::Tokens, Measure::TookMs];
    let mut found: Vec<Outlier> =
        measures.into_iter().flat_map(|measure| beyond(all, first, measure)).collect();
    // By how many medians, without rounding: a / b > c / d as a × d > c × b.
    found.sort_by(|one, other| {
        let size = |one: &Outlier, other: &Outlier| u128::from(one.value) * u128::from(other.median);
        size(other, one).cmp(&size(one, other)).then(one.ordinal.cmp(&other.ordinal))
    });
    found.truncate(OUTLIERS_MAX);
    found
}

fn beyond(all: &[Spent], first: Ordinal, measure: Measure) -> Vec<Outlier> {
    let mut values: Vec<u64> =
        all.iter().filter_map(|one| one.measured(measure)).filter(|value| *value > 0).collect();
    if values.len() < RUNS_MIN {
        return Vec::new();
    }
    values.sort_unstable();
    let quartile = |nth: usize| values[(values.len() - 1) * nth / 4];
    let (low, median, high) = (quartile(1), quartile(2), quartile(3));
    let fence = high as f64 * (high as f64 / low as f64).powi(3);
    let stands_out = |value: u64| value as f64 > fence && value >= median.saturating_mul(MEDIANS_MIN);
    let runs = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let outlier = |one: &Spent| {
        let value = one.measured(measure).filter(|value| stands_out(*value))?;
        Some(Outlier { ordinal: one.ordinal, run: one.run.clone(), measure, value, median, runs })
    };
    all.iter().filter(|one| one.ordinal >= first).filter_map(outlier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs that took so many milliseconds, ordinals from 1.
    fn took(all: &[u64]) -> Vec<Spent> {
        let run = |(ordinal, took_ms): (u64, &u64)| Spent {
            ordinal,
            run: RunId::new(format!("r{ordinal}")).unwrap(),
            cost_usd_micros: None,
            tokens: None,
            took_ms: Some(*took_ms),
        };
        (1..).zip(all).map(run).collect()
    }

    fn told(all: &[u64], first: Ordinal) -> Vec<(Ordinal, u64, u64)> {
        outliers(&took(all), first).into_iter().map(|one| (one.ordinal, one.value, one.median)).collect()
    }

    #[test]
    fn a_run_far_beyond_its_workflow_s_own_stands_out() {
        let usual: Vec<u64> = (0..30).map(|nth| 900 + nth * 10).collect();
        let all = [usual.clone(), vec![4300, 9000, 1900]].concat();
        assert_eq!(told(&all, 1), [(32, 9000, 1060), (31, 4300, 1060)], "twice the median is no news");
        assert_eq!(told(&all, 32), [(32, 9000, 1060)], "who stood out before was told before");
        assert_eq!(told(&usual, 1), []);
    }

    #[test]
    fn what_spreads_by_factors_needs_more_to_stand_out() {
        let wide: Vec<u64> = (0..24).map(|nth| 100 << (nth % 6)).collect();
        assert_eq!(told(&[wide.clone(), vec![6400]].concat(), 25), []);
        assert_eq!(told(&[wide, vec![6_400_000]].concat(), 25).len(), 1);
    }

    #[test]
    fn a_short_history_and_one_without_measures_tell_nothing() {
        let few = [vec![100; 18], vec![100_000]].concat();
        assert_eq!(told(&few, 1), []);
        assert_eq!(told(&[vec![100; 19], vec![100_000]].concat(), 1).len(), 1);
        assert_eq!(told(&[0; 50], 1), []);
    }

    #[test]
    fn facts_tell_what_a_run_took() {
        let facts = serde_json::json!({
            "run_id": "r", "outcome": "success", "started_at": "2026-11-20T10:00:00Z", "finished_at": "2026-11-20T10:01:00.5Z",
            "usage": {"input_tokens": 1200, "cost_usd": 0.42},
        });
        let spent = Spent::of(7, &serde_json::from_value(facts).unwrap());
        assert_eq!(
            (spent.cost_usd_micros, spent.tokens, spent.took_ms),
            (Some(420_000), Some(1200), Some(60_500))
        );
        let facts = serde_json::json!({"run_id": "r", "outcome": "success"});
        let spent = Spent::of(7, &serde_json::from_value(facts).unwrap());
        assert_eq!((spent.cost_usd_micros, spent.tokens, spent.took_ms), (None, None, None));
    }
}
