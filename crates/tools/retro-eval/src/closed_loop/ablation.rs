//! Defines the ablations. Each one removes one part of the design by a line in the policy file, and measures
//! the figure that the part should protect.

use serde::Serialize;
use serde_json::Value;

use crate::closed_loop::score::{Interval, Summary, WorldResult, compute_summary, group_by_seed};
use crate::closed_loop::table::{format_percent, format_signed};

/// Part of the design that can be removed for comparison.
pub(crate) struct Ablation {
    pub(crate) name: &'static str,
    /// Table of the policy file, and the line in it that removes the part.
    section: &'static str,
    policy: &'static str,
    /// Property that the part should protect, and the figure that measures it.
    protects: &'static str,
    /// Returns the figure from a summary. A higher figure is worse.
    cost: fn(&Summary) -> f64,
}

/// All ablations, in the order of the parts in the design.
pub(crate) const ABLATIONS: &[Ablation] = &[
    Ablation {
        name: "the tentative stage",
        section: "learning",
        policy: "confirm_runs = 1",
        protects: "truth of active memories: share that is false",
        cost: |summary| 1.0 - summary.precision.unwrap_or(1.0),
    },
    Ablation {
        name: "the random sample",
        section: "selection",
        policy: "sample_order = \"most_recent\"",
        protects: "known causes: share unknown after ten retrospectives",
        cost: |summary| 1.0 - summary.recall.unwrap_or(1.0),
    },
    Ablation {
        name: "tombstones",
        section: "learning",
        policy: "tombstone_s = 1",
        protects: "no return of harmful lessons: times per workflow",
        cost: |summary| summary.comebacks,
    },
    Ablation {
        name: "weight of harm",
        section: "learning",
        policy: "harmed_delta = -100",
        protects: "quick removal of harm: retrospectives until below 0.1",
        cost: |summary| summary.harmful.mean,
    },
    Ablation {
        name: "newcomers' places",
        section: "context",
        policy: "inject_newcomers = 0",
        protects: "visibility of new memories: retrospectives until handed out",
        cost: |summary| summary.waiting.mean,
    },
    Ablation {
        name: "withholding",
        section: "context",
        policy: "withhold_permille = 0",
        protects: "a known effect, at a cost: share of runs that fail",
        cost: |summary| 1.0 - summary.success,
    },
    Ablation {
        name: "fading",
        section: "learning",
        policy: "unneeded_delta = 0",
        protects: "a list without fixed causes: retrospectives until gone",
        cost: |summary| summary.fading.mean,
    },
];

/// Result of one ablation, compared with the base.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AblationRow {
    without: &'static str,
    policy: &'static str,
    protects: &'static str,
    with: f64,
    ablated: f64,
    /// Figure without the part minus the figure with it, paired by seed; `None` for fewer than two seeds.
    difference: Option<Interval>,
    conclusion: &'static str,
    summary: Summary,
}

impl Ablation {
    /// Returns the text of a policy file that removes the part.
    pub(crate) fn policy_file(&self) -> String {
        format!("[{}]\n{}\n", self.section, self.policy)
    }

    /// Compares the results without the part with those of the base, seed by seed.
    pub(crate) fn compare_to_base(
        &self,
        base: &[WorldResult<'_>],
        ablated: &[WorldResult<'_>],
    ) -> AblationRow {
        let of_seeds = |results: &[WorldResult<'_>]| {
            group_by_seed(results)
                .into_values()
                .map(|results| (self.cost)(&compute_summary(&results)))
                .collect::<Vec<_>>()
        };
        // Both sides are ordered by seed, so each pair has the same seed.
        let pairs: Vec<f64> =
            of_seeds(ablated).into_iter().zip(of_seeds(base)).map(|(without, with)| without - with).collect();
        let difference = Interval::from_samples(&pairs);
        let (with, without) = (compute_summary(base), compute_summary(ablated));
        AblationRow {
            without: self.name,
            policy: self.policy,
            protects: self.protects,
            with: (self.cost)(&with),
            ablated: (self.cost)(&without),
            difference,
            conclusion: describe_difference(difference),
            summary: without,
        }
    }
}

fn describe_difference(difference: Option<Interval>) -> &'static str {
    match difference {
        Some(one) if one.is_above_zero() => "worse, as expected",
        Some(one) if one.is_below_zero() => "BETTER without it",
        _ => "no significant difference",
    }
}

/// Renders the effect of each ablation on the figure that its part should protect, and on all other figures.
pub(crate) fn render_table(base: &Summary, rows: &[AblationRow]) -> String {
    let mut text = String::from("What each part should protect, with it and without it (higher is worse)\n");
    for row in rows {
        let difference = row
            .difference
            .map_or_else(String::new, |one| format!("{} ± {:.3}", format_signed(one.mean), one.half));
        text.push_str(&format!(
            "  {:<20} {:<62} {:>7.3} {:>7.3}  {difference:<17} {}\n",
            row.without, row.protects, row.with, row.ablated, row.conclusion
        ));
    }
    text.push_str("\nOther effects\n");
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
    text.push_str(&render_other_figures("nothing (base)", base));
    rows.iter().for_each(|row| text.push_str(&render_other_figures(row.without, &row.summary)));
    text
}

fn render_other_figures(name: &str, summary: &Summary) -> String {
    format!(
        "  {name:<20} {:>9} {:>6} {:>7} {:>7} {:>7} {:>8.2} {:>9.2} {:>8.2} {:>8} {:>9} {:>7.1}\n",
        format_percent(summary.precision),
        format_percent(summary.recall),
        format_percent(Some(summary.success)),
        format_signed(summary.success - summary.success_without),
        format_percent(Some(summary.harmed)),
        summary.harmful.mean,
        summary.comebacks,
        summary.waiting.mean,
        summary.waiting.unended,
        format_percent(summary.late_failed),
        summary.tokens_per_run,
    )
}

/// Returns the results of the base and of all ablations as JSON.
pub(crate) fn to_json(base: &Summary, rows: &[AblationRow]) -> Value {
    serde_json::json!({"base": base, "without": rows})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_matters_only_when_the_entire_interval_is_on_one_side_of_zero() {
        assert_eq!(describe_difference(Interval::from_samples(&[0.2, 0.3, 0.25])), "worse, as expected");
        assert_eq!(describe_difference(Interval::from_samples(&[-0.2, -0.3, -0.25])), "BETTER without it");
        assert_eq!(
            describe_difference(Interval::from_samples(&[-0.2, 0.3, 0.0])),
            "no significant difference"
        );
        assert_eq!(describe_difference(None), "no significant difference");
    }
}
