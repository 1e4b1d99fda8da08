//! Errors that go with failure: found in failed runs, and seldom in those that succeed. A small sample shows little, and under
//! what it can show nothing is claimed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::id::{RunId, Step};
use crate::retrospective::Investigation;

/// The newest investigated runs of a workflow, this retrospective's among them, that are held against each other.
pub const SIGHTINGS_MAX: u32 = 100;
/// The chance of a false claim that is taken, over all errors of a report together (Bonferroni).
const FALSE_CLAIM_MAX: f64 = 0.05;
/// The most that a report tells; the surest stay.
const ASSOCIATIONS_MAX: usize = 5;

/// An error as two runs have it alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ErrorSeen {
    /// The step it was seen in.
    pub step: Step,
    /// The tool that answered it.
    pub tool: String,
    /// Its signature.
    pub error: String,
}

/// An investigated run: how it ended, and which errors were found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The run.
    pub run: RunId,
    /// Whether it did what it was for.
    pub succeeded: bool,
    /// The errors of its findings.
    pub errors: BTreeSet<ErrorSeen>,
}

/// An error that goes with failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Association {
    /// The error.
    #[serde(flatten)]
    pub error: ErrorSeen,
    /// Failed runs that it was found in, of how many.
    pub failed: [u32; 2],
    /// Successful runs that it was found in, of how many.
    pub succeeded: [u32; 2],
    /// Fisher's exact p, two-sided, in millionths.
    pub p_micros: u32,
    /// How many errors were held against the outcome: the more, the surer each has to be.
    pub tested: u32,
}

impl Sighting {
    /// What an investigation saw; `None` when it has no answer.
    pub fn of(one: &Investigation, succeeded: bool) -> Option<Self> {
        let (checked, _) = one.result.as_ref()?.looked()?;
        let errors = checked.findings.iter().filter_map(ErrorSeen::of).collect();
        Some(Self { run: one.run.clone(), succeeded, errors })
    }
}

impl ErrorSeen {
    fn of(finding: &Finding) -> Option<Self> {
        let (tool, error) = (finding.cue.tool.clone()?, finding.cue.error.clone()?);
        Some(Self { step: finding.step.clone(), tool, error })
    }
}

/// The errors that go with failure, the surest first.
pub(super) fn associations(sightings: &[Sighting]) -> Vec<Association> {
    let mut found: BTreeMap<&ErrorSeen, [u32; 2]> = BTreeMap::new();
    let mut runs = [0u32; 2];
    for sighting in sightings {
        runs[usize::from(sighting.succeeded)] += 1;
        for error in &sighting.errors {
            found.entry(error).or_default()[usize::from(sighting.succeeded)] += 1;
        }
    }
    // What a single run shows recurs nowhere: it is not tested, and does not make the others harder to show.
    found.retain(|_, [failed, succeeded]| *failed + *succeeded > 1);
    let tested = u32::try_from(found.len()).unwrap_or(u32::MAX);
    let mut all: Vec<Association> = found
        .into_iter()
        .filter(|(_, [failed, succeeded])| {
            // A larger share of the failed: without dividing by a side that may be empty.
            u64::from(*failed) * u64::from(runs[1]) > u64::from(*succeeded) * u64::from(runs[0])
        })
        .filter_map(|(error, [failed, succeeded])| {
            let p = fisher([failed, runs[0]], [succeeded, runs[1]]);
            let association = Association {
                error: error.clone(),
                failed: [failed, runs[0]],
                succeeded: [succeeded, runs[1]],
                p_micros: micros(p),
                tested,
            };
            (p * f64::from(tested) <= FALSE_CLAIM_MAX).then_some(association)
        })
        .collect();
    all.sort_by(|one, other| one.p_micros.cmp(&other.p_micros).then_with(|| one.error.cmp(&other.error)));
    all.truncate(ASSOCIATIONS_MAX);
    all
}

/// Fisher's exact test, two-sided: the chance of a table that is no likelier than this one, when what is found has nothing to
/// do with the side it is found on. Each side is how many have it, of how many.
fn fisher([one, ones]: [u32; 2], [other, others]: [u32; 2]) -> f64 {
    let with = one + other;
    let weight = |k: u32| choose(ones, k) * choose(others, with - k);
    let possible = with.saturating_sub(others)..=with.min(ones);
    let seen = weight(one);
    // Equal tables may differ in their last digit.
    let no_likelier = |weight: &f64| *weight <= seen * (1.0 + 1e-9);
    let all: f64 = possible.clone().map(weight).sum();
    possible.map(weight).filter(no_likelier).sum::<f64>() / all
}

/// The binomial coefficient; up to some hundred, far from where a float ends.
fn choose(n: u32, k: u32) -> f64 {
    (0..k).fold(1.0, |all, nth| all * f64::from(n - nth) / f64::from(nth + 1))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a chance")]
fn micros(chance: f64) -> u32 {
    (chance * 1_000_000.0).round().clamp(0.0, 1_000_000.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(name: &str) -> ErrorSeen {
        ErrorSeen { step: Step::main(), tool: "sh".to_owned(), error: name.to_owned() }
    }

    /// So many runs of an outcome that show these errors.
    fn runs(many: u32, succeeded: bool, errors: &[&str]) -> Vec<Sighting> {
        let one = |nth| Sighting {
            run: RunId::new(format!("{succeeded} {nth} {errors:?}")).unwrap(),
            succeeded,
            errors: errors.iter().map(|name| error(name)).collect(),
        };
        (0..many).map(one).collect()
    }

    #[test]
    fn fisher_s_exact_test_agrees_with_published_tables() {
        // The lady who tastes tea (Fisher 1935): all eight cups right, and six of them.
        assert_eq!(micros(fisher([4, 4], [0, 4])), 28_571);
        assert_eq!(micros(fisher([3, 4], [1, 4])), 485_714);
        // Five of five against none of five: 2 of 252 tables.
        assert_eq!(micros(fisher([5, 5], [0, 5])), 7_937);
        assert_eq!(micros(fisher([3, 3], [0, 0])), 1_000_000, "nothing to compare with");
    }

    #[test]
    fn an_error_of_the_failed_runs_is_told() {
        let all = [runs(5, false, &["no table"]), runs(1, false, &[]), runs(6, true, &[])].concat();
        let told = associations(&all);
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].failed, told[0].succeeded, told[0].tested), ([5, 6], [0, 6], 1));
        assert_eq!(told[0].p_micros, 15_152);
        assert_eq!(
            associations(&[all, runs(3, true, &["no table"])].concat()),
            [],
            "successful runs have it too"
        );
    }

    #[test]
    fn a_small_sample_claims_nothing() {
        let four = [runs(2, false, &["no table"]), runs(2, true, &[])].concat();
        assert_eq!(associations(&four), [], "p = 1/3 at best");
        assert_eq!(associations(&runs(9, false, &["no table"])), [], "all failed: nothing to compare with");
        assert_eq!(associations(&[]), []);
    }

    #[test]
    fn an_error_of_the_successful_runs_is_no_cause() {
        assert_eq!(associations(&[runs(6, true, &["retried"]), runs(6, false, &[])].concat()), []);
    }

    #[test]
    fn the_more_errors_are_tried_the_surer_each_has_to_be() {
        let one = [runs(5, false, &["a"]), runs(1, false, &[]), runs(6, true, &[])].concat();
        assert_eq!(associations(&one).len(), 1);
        let names: Vec<String> = (0..10).map(|nth| format!("noise {nth}")).collect();
        let noise: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut many = one;
        for nth in [0, 11] {
            many[nth].errors.extend(noise.iter().map(|name| error(name)));
        }
        assert_eq!(associations(&many), [], "0.015 of eleven is no news");
    }
}
