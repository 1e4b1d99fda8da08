//! Is a failed call seen to have failed, by its answer alone? The flags of sets 02a and 02d are the harness's own.
//!
//! Bash stands apart: its flag is the exit status, which many an answer does not show.

use std::sync::LazyLock;

use anyhow::Result;
use regex::Regex;
use retro_investigator::heuristics::{Outcome, judge};

use super::super::Data;
use super::runs::answered;
use super::score::{ratio, saying_yes};
use super::{Figure, Measure};

/// F1 of saying "failed", tool by tool.
pub(super) struct ToolErrors;

/// One call: what was said of it and what its harness says.
pub(super) struct Case {
    environment: &'static str,
    group: String,
    shown: String,
    ours: bool,
    baseline: bool,
    truth: bool,
}

/// Where each tool's runs lie.
const FILES: &[(&str, &str, &str)] = &[
    ("airline", "02a_tau_bench_airline", "runs.jsonl"),
    ("SQL", "02d_intercode", "sql_runs.jsonl"),
    ("CTF", "02d_intercode", "ctf_runs.jsonl"),
    ("Python", "02d_intercode", "python_runs.jsonl"),
    (APART, "02d_intercode", "bash_runs.jsonl"),
];
/// The tool that is not part of the mean.
const APART: &str = "bash (apart)";

impl Measure for ToolErrors {
    const NAME: &'static str = "failed calls seen";
    const SET: &'static str = "02d_intercode";
    type Case = Case;

    fn cases(data: &Data) -> Result<Vec<Case>> {
        let mut cases = Vec::new();
        for (environment, set, file) in FILES {
            let calls = answered(&data.set(set)?.join(file))?;
            cases.extend(calls.into_iter().map(|answered| {
                let said = answered.call.answer.as_deref().unwrap_or("");
                Case {
                    environment,
                    group: format!("{environment} {}", answered.task),
                    shown: format!(
                        "{environment} {}: {:?} => {said:?}",
                        answered.place, answered.call.arguments
                    ),
                    ours: matches!(judge(&answered.call), Outcome::Failed(_)),
                    baseline: ERROR.is_match(said),
                    truth: answered.label_failed,
                }
            }));
        }
        Ok(cases)
    }

    fn group(case: &Case) -> &str {
        &case.group
    }

    fn figures(cases: &[&Case]) -> Vec<Figure> {
        let figures: Vec<_> = FILES.iter().map(|(tool, ..)| f1(tool, cases)).collect();
        let (apart, meant): (Vec<_>, Vec<_>) =
            figures.into_iter().partition(|figure| figure.name.ends_with(APART));
        let mean = |of: fn(&Figure) -> f64| ratio(meant.iter().map(of).sum(), meant.len() as f64);
        let of = meant.iter().map(|figure| figure.cases).sum();
        let mean = Figure::new("macro F1", of, mean(|figure| figure.ours), mean(|figure| figure.baseline));
        meant.into_iter().chain([mean.with_goal(0.95)]).chain(apart).collect()
    }

    fn mistake(case: &Case) -> Option<String> {
        let wrong = if case.truth { "missed" } else { "false alarm" };
        (case.ours != case.truth && case.environment != APART).then(|| format!("{wrong}: {}", case.shown))
    }
}

fn f1(environment: &str, cases: &[&Case]) -> Figure {
    let of_it: Vec<_> = cases.iter().filter(|case| case.environment == environment).collect();
    let f1 = |said: fn(&Case) -> bool| saying_yes(of_it.iter().map(|case| (said(case), case.truth))).f1();
    Figure::new(format!("F1 {environment}"), of_it.len(), f1(|case| case.ours), f1(|case| case.baseline))
}

// What most people write first.
static ERROR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:error|exception|traceback|failed)\b").expect("a constant pattern")
});
