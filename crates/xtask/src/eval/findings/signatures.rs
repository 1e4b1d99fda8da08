//! Are two lines the same error? The pairs of set 03c come from the tests of two log tools; most of those that differ were
//! paired by a script.

use anyhow::Result;
use retro_investigator::heuristics::signature;
use serde::Deserialize;

use super::super::{Data, rows};
use super::grouping::masked;
use super::score::share;
use super::{Figure, Measure};

/// Accuracy of "these two are the same".
pub(super) struct Signatures;

/// A group of lines that share a signature, or of lines that must not.
#[derive(Deserialize)]
struct Group {
    group: String,
    members: Vec<String>,
    same: bool,
}

/// A pair of lines.
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

    fn cases(data: &Data) -> Result<Vec<Case>> {
        let groups: Vec<Group> = rows(&data.set(Self::SET)?.join("groups.jsonl"))?;
        Ok(groups.iter().flat_map(pairs).collect())
    }

    fn group(case: &Case) -> &str {
        &case.group
    }

    fn figures(cases: &[&Case]) -> Vec<Figure> {
        let right = |said: fn(&Case) -> bool| share(cases.iter().map(|case| said(case) == case.truth));
        let accuracy =
            Figure::new("accuracy", cases.len(), right(|case| case.ours), right(|case| case.baseline));
        vec![accuracy.with_goal(0.97)]
    }

    fn mistake(case: &Case) -> Option<String> {
        let wrong = if case.truth { "taken apart" } else { "lumped" };
        (case.ours != case.truth).then(|| format!("{wrong}: {:?}", case.pair))
    }
}

/// Every pair of a group.
fn pairs(group: &Group) -> Vec<Case> {
    let members = &group.members;
    let pairs =
        members.iter().enumerate().flat_map(|(at, one)| members[at + 1..].iter().map(move |two| (one, two)));
    pairs
        .map(|(one, two)| Case {
            group: group.group.clone(),
            pair: [one.clone(), two.clone()],
            ours: signature(one) == signature(two),
            baseline: masked(one) == masked(two),
            truth: group.same,
        })
        .collect()
}
