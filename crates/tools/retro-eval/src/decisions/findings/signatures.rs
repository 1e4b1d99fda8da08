//! Measures whether two lines are recognised as the same error. The pairs in set 03c come from the tests of
//! two log tools; a script generated most of the differing pairs.

use anyhow::Result;
use retro_investigator::heuristics::error_signature;
use serde::Deserialize;

use super::grouping::mask_literals;
use super::measure::{Figure, Measure};
use super::score::share_of_true;
use crate::decisions::eval_data::{EvalData, read_rows};

/// Measures the accuracy with which equal signatures identify the same error.
pub(super) struct Signatures;

/// Lines that must all have the same signature, or lines that must all have different ones.
#[derive(Deserialize)]
struct Group {
    group: String,
    members: Vec<String>,
    same: bool,
}

/// A pair of lines with the results of investigator and baseline, and the truth.
pub(super) struct Case {
    group: String,
    pair: [String; 2],
    ours: bool,
    baseline: bool,
    truth: bool,
}

impl Measure for Signatures {
    const NAME: &'static str = "same signature (pairs)";
    const SET: &'static str = "03c_signature_equivalence";
    type Case = Case;

    fn load_cases(data: &EvalData) -> Result<Vec<Case>> {
        let groups: Vec<Group> = read_rows(&data.set_folder(Self::SET)?.join("groups.jsonl"))?;
        Ok(groups.iter().flat_map(pair_members).collect())
    }

    fn group_key(case: &Case) -> &str {
        &case.group
    }

    fn compute_figures(cases: &[&Case]) -> Vec<Figure> {
        let right =
            |said: fn(&Case) -> bool| share_of_true(cases.iter().map(|case| said(case) == case.truth));
        let accuracy =
            Figure::new("accuracy", cases.len(), right(|case| case.ours), right(|case| case.baseline));
        vec![accuracy.with_goal(0.97)]
    }

    fn describe_mistake(case: &Case) -> Option<String> {
        let wrong = if case.truth { "split" } else { "merged" };
        (case.ours != case.truth).then(|| format!("{wrong}: {:?}", case.pair))
    }
}

/// Returns every pair of lines in a group.
fn pair_members(group: &Group) -> Vec<Case> {
    let members = &group.members;
    let pairs =
        members.iter().enumerate().flat_map(|(at, one)| members[at + 1..].iter().map(move |two| (one, two)));
    pairs
        .map(|(one, two)| Case {
            group: group.group.clone(),
            pair: [one.clone(), two.clone()],
            ours: error_signature(one) == error_signature(two),
            baseline: mask_literals(one) == mask_literals(two),
            truth: group.same,
        })
        .collect()
}
