//! Measures whether a failed call is recognised by its result alone. The flags in sets 02a and 02d come from
//! the harness. Bash is reported separately, because its flag is the exit status, which many results do not
//! show.

use std::sync::LazyLock;

use anyhow::Result;
use regex::Regex;
use retro_investigator::heuristics::{CallOutcome, judge_call};

use super::measure::{Figure, Measure};
use super::runs::load_answered_calls;
use super::score::{binary_accuracy, ratio};
use crate::decisions::eval_data::EvalData;

/// Measures the F1 of recognising failed calls, by tool.
pub(super) struct ToolErrors;

/// A call with the results of investigator and baseline, and the harness's flag.
pub(super) struct Case {
    environment: &'static str,
    group: String,
    description: String,
    ours: bool,
    baseline: bool,
    truth: bool,
    /// `true` if the harness refused to run the call. The harness flags such calls inconsistently.
    refused: bool,
}

/// Name of each tool, with the data set and file of its runs.
const FILES: &[(&str, &str, &str)] = &[
    ("airline", "02a_tau_bench_airline", "runs.jsonl"),
    ("SQL", "02d_intercode", "sql_runs.jsonl"),
    ("CTF", "02d_intercode", "ctf_runs.jsonl"),
    ("Python", "02d_intercode", "python_runs.jsonl"),
    (EXCLUDED_FROM_MEAN, "02d_intercode", "bash_runs.jsonl"),
];
/// Prefixes of the messages with which a harness refuses to run a call.
const REFUSALS: &[&str] = &[
    "Error executing action: ",
    "No SQL code was found",
    "Error executing query: Your last `execute` action did not contain",
];
/// Name of the tool that is excluded from the mean of all tools.
const EXCLUDED_FROM_MEAN: &str = "bash (apart)";

impl Measure for ToolErrors {
    const NAME: &'static str = "failed calls recognised";
    const SET: &'static str = "02d_intercode";
    type Case = Case;

    fn load_cases(data: &EvalData) -> Result<Vec<Case>> {
        let mut cases = Vec::new();
        for (environment, set, file) in FILES {
            let calls = load_answered_calls(&data.set_folder(set)?.join(file))?;
            cases.extend(calls.into_iter().map(|answered| {
                let said = answered.call.answer.as_deref().unwrap_or("");
                Case {
                    environment,
                    group: format!("{environment} {}", answered.task),
                    description: format!(
                        "{environment} {}: {:?} => {said:?}",
                        answered.place, answered.call.arguments
                    ),
                    ours: matches!(judge_call(&answered.call), CallOutcome::Failed(_)),
                    baseline: BASELINE.is_match(said),
                    truth: answered.label_failed,
                    refused: REFUSALS.iter().any(|refusal| said.starts_with(refusal)),
                }
            }));
        }
        Ok(cases)
    }

    fn group_key(case: &Case) -> &str {
        &case.group
    }

    fn compute_figures(cases: &[&Case]) -> Vec<Figure> {
        let ran: Vec<&Case> = cases.iter().copied().filter(|case| !case.refused).collect();
        let (mut figures, apart) = figures_by_tool(cases);
        let all = macro_mean("macro F1", &figures);
        let of_those_that_ran = macro_mean("macro F1 of calls that ran", &figures_by_tool(&ran).0);
        figures.extend([all.with_goal(0.95), of_those_that_ran]);
        figures.extend(apart);
        figures
    }

    fn describe_mistake(case: &Case) -> Option<String> {
        let wrong = if case.truth { "missed" } else { "false alarm" };
        (case.ours != case.truth && case.environment != EXCLUDED_FROM_MEAN)
            .then(|| format!("{wrong}: {}", case.description))
    }
}

/// Returns the figures of the tools in the mean, and separately those of the excluded tool.
fn figures_by_tool(cases: &[&Case]) -> (Vec<Figure>, Vec<Figure>) {
    let figures = FILES.iter().map(|(tool, ..)| f1_of_tool(tool, cases));
    figures.partition(|figure| !figure.name.ends_with(EXCLUDED_FROM_MEAN))
}

fn macro_mean(name: &str, figures: &[Figure]) -> Figure {
    let mean = |of: fn(&Figure) -> f64| ratio(figures.iter().map(of).sum(), figures.len() as f64);
    let cases = figures.iter().map(|figure| figure.cases).sum();
    Figure::new(name, cases, mean(|figure| figure.ours), mean(|figure| figure.baseline))
}

fn f1_of_tool(environment: &str, cases: &[&Case]) -> Figure {
    let of_it: Vec<_> = cases.iter().filter(|case| case.environment == environment).collect();
    let f1 =
        |said: fn(&Case) -> bool| binary_accuracy(of_it.iter().map(|case| (said(case), case.truth))).f1();
    Figure::new(format!("F1 {environment}"), of_it.len(), f1(|case| case.ours), f1(|case| case.baseline))
}

// The usual first attempt, used as a baseline.
static BASELINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:error|exception|traceback|failed)\b").expect("a constant pattern")
});
