//! Do errors of one class get one signature, and two classes two? The classes of set 02d's SQL come from the database's own
//! message templates.

use std::sync::LazyLock;

use anyhow::Result;
use regex::Regex;
use retro_investigator::heuristics::{Outcome, judge};

use super::super::Data;
use super::runs::{Answered, answered};
use super::score::{Accuracy, b_cubed};
use super::{Figure, Measure};

/// B³ of error signatures over labelled errors.
pub(super) struct Grouping;

/// One error: the groups that it was put into, and its class.
pub(super) struct Case {
    task: String,
    said: String,
    ours: String,
    baseline: String,
    class: String,
}

impl Measure for Grouping {
    const NAME: &'static str = "error classes grouped (SQL)";
    const SET: &'static str = "02d_intercode";
    type Case = Case;

    fn cases(data: &Data) -> Result<Vec<Case>> {
        let calls = answered(&data.set(Self::SET)?.join("sql_runs.jsonl"))?;
        Ok(calls.into_iter().filter_map(case).collect())
    }

    fn group(case: &Case) -> &str {
        &case.task
    }

    fn figures(cases: &[&Case]) -> Vec<Figure> {
        let scored = |group: fn(&Case) -> &str| {
            b_cubed(&cases.iter().map(|case| (group(case), case.class.as_str())).collect::<Vec<_>>())
        };
        let (ours, baseline): (Accuracy, Accuracy) =
            (scored(|case| &case.ours), scored(|case| &case.baseline));
        let of = cases.len();
        vec![
            Figure::new("B³ precision", of, ours.precision, baseline.precision),
            Figure::new("B³ recall", of, ours.recall, baseline.recall),
            Figure::new("B³ F1", of, ours.f1(), baseline.f1()).with_goal(0.99),
        ]
    }

    /// No single error is grouped wrongly by itself; those that were not seen at all are.
    fn mistake(case: &Case) -> Option<String> {
        case.ours.is_empty().then(|| format!("{} is not seen to have failed: {}", case.class, case.said))
    }
}

fn case(answered: Answered) -> Option<Case> {
    let class = answered.label_class?;
    let said = answered.call.answer.clone().unwrap_or_default();
    let ours = match judge(&answered.call) {
        Outcome::Failed(failure) => failure.error,
        Outcome::Succeeded | Outcome::Unanswered => String::new(),
    };
    Some(Case { task: answered.task, baseline: masked(&said), said, ours, class })
}

/// What most people write first: quotes and digits masked.
pub(super) fn masked(error: &str) -> String {
    static RUN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"'[^']*'|"[^"]*"|`[^`]*`|\d+"#).expect("a constant pattern"));
    RUN.replace_all(error.lines().next().unwrap_or(""), "*").into_owned()
}
