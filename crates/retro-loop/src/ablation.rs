//! Ablations: what the design's parts are said to protect, each tried by taking it away, by the policy file alone.

use serde::Serialize;
use serde_json::Value;

use crate::score::{Interval, Summary, Told, by_seed, summary};
use crate::table::{percent, signed};

/// A part of the design taken away.
pub(crate) struct Ablation {
    pub(crate) name: &'static str,
    /// The policy's key with its value.
    policy: &'static str,
    /// What the part is said to protect.
    protects: &'static str,
    /// That in a figure, the more the worse.
    worse: fn(&Summary) -> f64,
}

/// All of them, in the order of the design.
pub(crate) const ALL: &[Ablation] = &[
    Ablation {
        name: "the tentative stage",
        policy: "confirm_runs = 1",
        protects: "active memories are true: share that is false",
        worse: |summary| 1.0 - summary.precision.unwrap_or(1.0),
    },
    Ablation {
        name: "the random sample",
        policy: "sample_order = \"most_recent\"",
        protects: "causes are known: share not known after ten retrospectives",
        worse: |summary| 1.0 - summary.recall.unwrap_or(1.0),
    },
    Ablation {
        name: "tombstones",
        policy: "tombstone_s = 1",
        protects: "what harmed stays away: times a workflow it came back",
        worse: |summary| summary.comebacks,
    },
    Ablation {
        name: "harm weighing more",
        policy: "harmed_delta = -100",
        protects: "what harms goes soon: retrospectives until below 0.1",
        worse: |summary| summary.harmful.mean,
    },
    Ablation {
        name: "newcomers' places",
        policy: "inject_newcomers = 0",
        protects: "what is new is seen: retrospectives until handed out",
        worse: |summary| summary.waiting.mean,
    },
];

/// How one came out.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    without: &'static str,
    policy: &'static str,
    protects: &'static str,
    with: f64,
    taken_away: f64,
    /// Taken away minus with, paired by seed.
    difference: Option<Interval>,
    verdict: &'static str,
    summary: Summary,
}

impl Ablation {
    /// The whole policy file.
    pub(crate) fn policy_file(&self) -> String {
        format!("[policy]\n{}\n", self.policy)
    }

    /// Holds it against the base, seed by seed.
    pub(crate) fn judged(&self, base: &[Told<'_>], taken_away: &[Told<'_>]) -> Row {
        let of_seeds = |told: &[Told<'_>]| {
            by_seed(told).into_values().map(|told| (self.worse)(&summary(&told))).collect::<Vec<_>>()
        };
        let pairs: Vec<f64> = of_seeds(taken_away)
            .into_iter()
            .zip(of_seeds(base))
            .map(|(without, with)| without - with)
            .collect();
        let difference = Interval::over(&pairs);
        let (with, without) = (summary(base), summary(taken_away));
        Row {
            without: self.name,
            policy: self.policy,
            protects: self.protects,
            with: (self.worse)(&with),
            taken_away: (self.worse)(&without),
            difference,
            verdict: verdict(difference),
            summary: without,
        }
    }
}

fn verdict(difference: Option<Interval>) -> &'static str {
    match difference {
        Some(one) if one.above_zero() => "worse, as said",
        Some(one) if one.below_zero() => "BETTER without it",
        _ => "no difference that shows",
    }
}

/// What every ablation does to what it is said to protect, and to everything else.
pub(crate) fn table(base: &Summary, rows: &[Row]) -> String {
    let mut text =
        String::from("What each part is said to protect, with it and without it (the more the worse)\n");
    for row in rows {
        let difference =
            row.difference.map_or_else(String::new, |one| format!("{} ± {:.3}", signed(one.mean), one.half));
        text.push_str(&format!(
            "  {:<20} {:<62} {:>7.3} {:>7.3}  {difference:<17} {}\n",
            row.without, row.protects, row.with, row.taken_away, row.verdict
        ));
    }
    text.push_str("\nWhat else it does\n");
    text.push_str(&format!(
        "  {:<20} {:>9} {:>6} {:>7} {:>7} {:>7} {:>8} {:>9} {:>8} {:>8} {:>9} {:>7}\n",
        "without",
        "precision",
        "recall",
        "success",
        "gain",
        "harmed",
        "harmful",
        "comebacks",
        "waiting",
        "never",
        "late fail",
        "tokens"
    ));
    text.push_str(&others("nothing (base)", base));
    rows.iter().for_each(|row| text.push_str(&others(row.without, &row.summary)));
    text
}

fn others(name: &str, summary: &Summary) -> String {
    format!(
        "  {name:<20} {:>9} {:>6} {:>7} {:>7} {:>7} {:>8.2} {:>9.2} {:>8.2} {:>8} {:>9} {:>7.1}\n",
        percent(summary.precision),
        percent(summary.recall),
        percent(Some(summary.success)),
        signed(summary.success - summary.success_without),
        percent(Some(summary.harmed)),
        summary.harmful.mean,
        summary.comebacks,
        summary.waiting.mean,
        summary.waiting.unended,
        percent(summary.late_failed),
        summary.tokens_a_run,
    )
}

/// The same as JSON.
pub(crate) fn json(base: &Summary, rows: &[Row]) -> Value {
    serde_json::json!({"base": base, "without": rows})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_worth_something_only_when_every_likely_difference_says_so() {
        assert_eq!(verdict(Interval::over(&[0.2, 0.3, 0.25])), "worse, as said");
        assert_eq!(verdict(Interval::over(&[-0.2, -0.3, -0.25])), "BETTER without it");
        assert_eq!(verdict(Interval::over(&[-0.2, 0.3, 0.0])), "no difference that shows");
        assert_eq!(verdict(None), "no difference that shows");
    }
}
