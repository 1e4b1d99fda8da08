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
    /// The harness refused to run it. Its flag says of such calls sometimes this and sometimes that.
    refused: bool,
}

/// Where each tool's runs lie.
const FILES: &[(&str, &str, &str)] = &[
    ("airline", "02a_tau_bench_airline", "runs.jsonl"),
    ("SQL", "02d_intercode", "sql_runs.jsonl"),
    ("CTF", "02d_intercode", "ctf_runs.jsonl"),
    ("Python", "02d_intercode", "python_runs.jsonl"),
    (APART, "02d_intercode", "bash_runs.jsonl"),
];
/// How the harnesses' answers to calls that they refuse to run begin.
const REFUSALS: &[&str] = &[
    "Error executing action: ",
    "No SQL code was found",
    "Error executing query: Your last `execute` action did not contain",
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
                    refused: REFUSALS.iter().any(|refusal| said.starts_with(refusal)),
                }
            }));
        }
        Ok(cases)
    }

    fn group(case: &Case) -> &str {
        &case.group
    }

    fn figures(cases: &[&Case]) -> Vec<Figure> {
        let ran: Vec<&Case> = cases.iter().copied().filter(|case| !case.refused).collect();
        let (mut figures, apart) = tool_by_tool(cases);
        let all = mean("macro F1", &figures);
        let of_those_that_ran = mean("macro F1 of calls that ran", &tool_by_tool(&ran).0);
        figures.extend([all.with_goal(0.95), of_those_that_ran]);
        figures.extend(apart);
        figures
    }

    fn mistake(case: &Case) -> Option<String> {
        let wrong = if case.truth { "missed" } else { "false alarm" };
        (case.ours != case.truth && case.environment != APART).then(|| format!("{wrong}: {}", case.shown))
    }
}

/// The figures of the tools that are part of the mean, and of the one that is not.
fn tool_by_tool(cases: &[&Case]) -> (Vec<Figure>, Vec<Figure>) {
    let figures = FILES.iter().map(|(tool, ..)| f1(tool, cases));
    figures.partition(|figure| !figure.name.ends_with(APART))
}

fn mean(name: &str, figures: &[Figure]) -> Figure {
    let mean = |of: fn(&Figure) -> f64| ratio(figures.iter().map(of).sum(), figures.len() as f64);
    let cases = figures.iter().map(|figure| figure.cases).sum();
    Figure::new(name, cases, mean(|figure| figure.ours), mean(|figure| figure.baseline))
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
