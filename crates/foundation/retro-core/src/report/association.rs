//! Finds errors associated with failure: they occur in failed runs and rarely in successful ones. A small
//! sample is weak evidence, so only statistically significant associations are reported.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::id::{RunId, Step};
use crate::retrospective::Investigation;

/// Maximum number of investigated runs of a workflow to compare: the newest ones, including those of this
/// retrospective.
pub const INVESTIGATED_RUNS_MAX: u32 = 100;
/// Significance level: the accepted probability that a report contains any false association, over all tested
/// errors together (Bonferroni correction).
const FALSE_CLAIM_MAX: f64 = 0.05;
/// Maximum number of associations in a report: the most significant ones.
const ASSOCIATIONS_MAX: usize = 5;

/// An error, normalised so that the same error in two runs compares as equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ErrorSignature {
    /// Step in which the error occurred.
    pub step: Step,
    /// Tool that returned the error.
    pub tool: String,
    /// Error text in normalised form.
    pub error: String,
}

/// An investigated run, with its outcome and the errors found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvestigatedRun {
    /// Id of the run.
    pub run: RunId,
    /// `true` if the run succeeded.
    pub succeeded: bool,
    /// Errors in the findings of the run.
    pub errors: BTreeSet<ErrorSignature>,
}

/// An error associated with failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorAssociation {
    /// Normalised error with its step and tool.
    #[serde(flatten)]
    pub error: ErrorSignature,
    /// Number of failed runs with the error, and number of all failed runs.
    pub failed: [u32; 2],
    /// Number of successful runs with the error, and number of all successful runs.
    pub succeeded: [u32; 2],
    /// Two-sided p-value of Fisher's exact test, in millionths.
    pub p_micros: u32,
    /// Number of errors that were tested; the divisor of the significance level.
    pub tested: u32,
}

impl InvestigatedRun {
    /// Creates the entry for an investigated run. Returns `None` if the investigation gave no answer.
    pub fn from_investigation(one: &Investigation, succeeded: bool) -> Option<Self> {
        let (checked, _) = one.result.as_ref()?.checked_answer()?;
        let errors = checked.findings.iter().filter_map(ErrorSignature::from_finding).collect();
        Some(Self { run: one.run.clone(), succeeded, errors })
    }
}

impl ErrorSignature {
    fn from_finding(finding: &Finding) -> Option<Self> {
        let (tool, error) = (finding.cue.tool.clone()?, finding.cue.error.clone()?);
        Some(Self { step: finding.step.clone(), tool, error })
    }
}

/// Returns the errors associated with failure, most significant first.
pub(super) fn find_associations(sightings: &[InvestigatedRun]) -> Vec<ErrorAssociation> {
    let mut found: BTreeMap<&ErrorSignature, [u32; 2]> = BTreeMap::new();
    let mut runs = [0u32; 2];
    for sighting in sightings {
        runs[usize::from(sighting.succeeded)] += 1;
        for error in &sighting.errors {
            found.entry(error).or_default()[usize::from(sighting.succeeded)] += 1;
        }
    }
    // An error seen in a single run is not tested: each test lowers the significance level for the others.
    found.retain(|_, [failed, succeeded]| *failed + *succeeded > 1);
    let tested = u32::try_from(found.len()).unwrap_or(u32::MAX);
    let mut all: Vec<ErrorAssociation> = found
        .into_iter()
        .filter(|(_, [failed, succeeded])| {
            // Keeps errors with a larger share among failed runs. Multiplied out, because either side may
            // have no runs.
            u64::from(*failed) * u64::from(runs[1]) > u64::from(*succeeded) * u64::from(runs[0])
        })
        .filter_map(|(error, [failed, succeeded])| {
            let p = fisher_exact([failed, runs[0]], [succeeded, runs[1]]);
            let association = ErrorAssociation {
                error: error.clone(),
                failed: [failed, runs[0]],
                succeeded: [succeeded, runs[1]],
                p_micros: to_micros(p),
                tested,
            };
            (p * f64::from(tested) <= FALSE_CLAIM_MAX).then_some(association)
        })
        .collect();
    all.sort_by(|one, other| one.p_micros.cmp(&other.p_micros).then_with(|| one.error.cmp(&other.error)));
    all.truncate(ASSOCIATIONS_MAX);
    all
}

/// Returns the two-sided p-value of Fisher's exact test: the probability, if the error is independent of the
/// outcome, of all tables that are no more likely than this one. Each argument contains the number of runs
/// with the error and the number of all runs, for one outcome.
fn fisher_exact([one, ones]: [u32; 2], [other, others]: [u32; 2]) -> f64 {
    let with = one + other;
    let weight = |k: u32| binomial_coefficient(ones, k) * binomial_coefficient(others, with - k);
    let possible = with.saturating_sub(others)..=with.min(ones);
    let seen = weight(one);
    // Rounding may make tables of equal probability differ in the last digit, which would leave some out.
    let no_likelier = |weight: &f64| *weight <= seen * (1.0 + 1e-9);
    let all: f64 = possible.clone().map(weight).sum();
    possible.map(weight).filter(no_likelier).sum::<f64>() / all
}

/// Returns the binomial coefficient. For arguments of up to a few hundred, the result is far below
/// `f64::MAX`.
fn binomial_coefficient(n: u32, k: u32) -> f64 {
    (0..k).fold(1.0, |all, nth| all * f64::from(n - nth) / f64::from(nth + 1))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a chance")]
fn to_micros(chance: f64) -> u32 {
    (chance * 1_000_000.0).round().clamp(0.0, 1_000_000.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(name: &str) -> ErrorSignature {
        ErrorSignature { step: Step::main(), tool: "sh".to_owned(), error: name.to_owned() }
    }

    /// Returns `many` runs with this outcome and these errors.
    fn runs(many: u32, succeeded: bool, errors: &[&str]) -> Vec<InvestigatedRun> {
        let one = |nth| InvestigatedRun {
            run: RunId::new(format!("{succeeded} {nth} {errors:?}")).unwrap(),
            succeeded,
            errors: errors.iter().map(|name| error(name)).collect(),
        };
        (0..many).map(one).collect()
    }

    #[test]
    fn fishers_exact_test_agrees_with_published_tables() {
        // The lady tasting tea (Fisher 1935): all eight cups right, and six of them.
        assert_eq!(to_micros(fisher_exact([4, 4], [0, 4])), 28_571);
        assert_eq!(to_micros(fisher_exact([3, 4], [1, 4])), 485_714);
        // Five of five against none of five: 2 of 252 tables.
        assert_eq!(to_micros(fisher_exact([5, 5], [0, 5])), 7_937);
        assert_eq!(to_micros(fisher_exact([3, 3], [0, 0])), 1_000_000, "nothing to compare with");
    }

    #[test]
    fn an_error_of_the_failed_runs_is_reported() {
        let all = [runs(5, false, &["no table"]), runs(1, false, &[]), runs(6, true, &[])].concat();
        let associations = find_associations(&all);
        assert_eq!(associations.len(), 1);
        assert_eq!(
            (associations[0].failed, associations[0].succeeded, associations[0].tested),
            ([5, 6], [0, 6], 1)
        );
        assert_eq!(associations[0].p_micros, 15_152);
        assert_eq!(
            find_associations(&[all, runs(3, true, &["no table"])].concat()),
            [],
            "successful runs have it too"
        );
    }

    #[test]
    fn a_small_sample_claims_nothing() {
        let four = [runs(2, false, &["no table"]), runs(2, true, &[])].concat();
        assert_eq!(find_associations(&four), [], "p = 1/3 at best");
        assert_eq!(
            find_associations(&runs(9, false, &["no table"])),
            [],
            "all failed: nothing to compare with"
        );
        assert_eq!(find_associations(&[]), []);
    }

    #[test]
    fn an_error_of_the_successful_runs_is_no_cause() {
        assert_eq!(find_associations(&[runs(6, true, &["retried"]), runs(6, false, &[])].concat()), []);
    }

    #[test]
    fn more_tested_errors_require_smaller_p_values() {
        let one = [runs(5, false, &["a"]), runs(1, false, &[]), runs(6, true, &[])].concat();
        assert_eq!(find_associations(&one).len(), 1);
        let names: Vec<String> = (0..10).map(|nth| format!("noise {nth}")).collect();
        let noise: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut many = one;
        for nth in [0, 11] {
            many[nth].errors.extend(noise.iter().map(|name| error(name)));
        }
        assert_eq!(find_associations(&many), [], "0.015 of eleven is no news");
    }
}
