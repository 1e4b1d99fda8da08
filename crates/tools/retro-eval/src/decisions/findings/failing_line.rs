//! Measures whether the failing line of a long log is found. Set 03a contains CI logs, each with the line
//! selected by its maintainers' rules.

use anyhow::Result;
use retro_investigator::heuristics::failing_lines;
use serde::Deserialize;

use super::measure::{Figure, Measure};
use super::score::share_of_true;
use crate::decisions::eval_data::{EvalData, read_rows};

/// Measures how often the labelled line is the first, or among the first three, of the reported lines.
pub(super) struct FailingLine;

/// A log with its labelled line.
#[derive(Deserialize)]
struct Log {
    id: String,
    log: String,
    match_line: Option<usize>,
    #[serde(default)]
    no_match: bool,
}

/// A log with the reported lines, most likely first, and the labelled line.
pub(super) struct Case {
    id: String,
    ours: Vec<usize>,
    baseline: Vec<usize>,
    truth: usize,
    description: String,
}

impl Measure for FailingLine {
    const NAME: &'static str = "failing line (CI logs)";
    const SET: &'static str = "03a_ci_failure_line";
    type Case = Case;

    fn load_cases(data: &EvalData) -> Result<Vec<Case>> {
        let logs: Vec<Log> = read_rows(&data.set_folder(Self::SET)?.join("cases.jsonl"))?;
        Ok(logs.into_iter().filter(|log| !log.no_match).filter_map(build_case).collect())
    }

    fn group_key(case: &Case) -> &str {
        &case.id
    }

    fn compute_figures(cases: &[&Case]) -> Vec<Figure> {
        let hit = |lines: fn(&Case) -> &[usize], first: usize| {
            share_of_true(
                cases.iter().map(|case| lines(case).iter().take(first).any(|line| *line == case.truth)),
            )
        };
        let figure = |name: &str, first: usize| {
            Figure::new(name, cases.len(), hit(|case| &case.ours, first), hit(|case| &case.baseline, first))
        };
        vec![figure("hit@1", 1).with_goal(0.70), figure("hit@3", 3).with_goal(0.85)]
    }

    fn describe_mistake(case: &Case) -> Option<String> {
        (case.ours.first() != Some(&case.truth)).then(|| case.description.clone())
    }
}

fn build_case(log: Log) -> Option<Case> {
    let truth = log.match_line?;
    let lines: Vec<_> = log.log.split('\n').collect();
    let found = failing_lines(&log.log);
    let said: Vec<_> = found.iter().map(|line| format!("\n    {}: {}", line.number, line.text)).collect();
    let shown = format!("{} {truth}: {}{}", log.id, lines.get(truth).unwrap_or(&""), said.concat());
    let mentions = |line: &&str| line.to_lowercase().contains("error");
    let baseline = lines.iter().enumerate().filter(|(_, line)| mentions(line)).map(|(at, _)| at);
    Some(Case {
        baseline: baseline.take(3).collect(),
        ours: found.iter().map(|line| line.number).collect(),
        id: log.id,
        truth,
        description: shown,
    })
}
