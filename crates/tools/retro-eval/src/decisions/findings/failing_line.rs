//! Measures whether the failing line of a long log is found. Set 03a contains CI logs, each with the line
//! selected by its maintainers' rules.
//!
//! Each log has a failure of its own class. The figure *leave one out* says what would be found if the log had not been
//! known: a sign that only its labelled line shows, and that of no other log, is taken out for it.

use anyhow::Result;
use retro_investigator::heuristics::{failing_lines, failing_lines_without_sign, sign_of_line};
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
    /// The same if what only this log shows were not known.
    left_out: Vec<usize>,
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
        let logs: Vec<Log> = logs.into_iter().filter(|log| !log.no_match).collect();
        let signs: Vec<Option<usize>> = logs.iter().map(|log| sign_of_line(labelled_line(log)?)).collect();
        let is_alone = |sign: usize| signs.iter().filter(|other| **other == Some(sign)).count() == 1;
        let own = signs.iter().map(|sign| sign.filter(|sign| is_alone(*sign)));
        Ok(logs.iter().zip(own).filter_map(|(log, own)| build_case(log, own)).collect())
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
        let left_out = Figure::new(
            "hit@1, leave one out",
            cases.len(),
            hit(|case| &case.left_out, 1),
            hit(|case| &case.baseline, 1),
        );
        vec![figure("hit@1", 1).with_goal(0.70), figure("hit@3", 3).with_goal(0.85), left_out.with_goal(0.60)]
    }

    fn describe_mistake(case: &Case) -> Option<String> {
        (case.ours.first() != Some(&case.truth)).then(|| case.description.clone())
    }
}

fn labelled_line(log: &Log) -> Option<&str> {
    log.log.split('\n').nth(log.match_line?)
}

/// Builds the case of a log. `own` is the sign that only this log shows.
fn build_case(log: &Log, own: Option<usize>) -> Option<Case> {
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
        left_out: own.map_or_else(
            || found.iter().map(|line| line.number).collect(),
            |own| failing_lines_without_sign(&log.log, own).iter().map(|line| line.number).collect(),
        ),
        id: log.id.clone(),
        truth,
        description: shown,
    })
}
