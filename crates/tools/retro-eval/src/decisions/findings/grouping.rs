//! Measures whether errors of the same class get the same signature and errors of different classes get
//! different ones. The classes of the SQL runs in set 02d come from the database's own message templates.

use std::sync::LazyLock;

use anyhow::Result;
use regex::Regex;
use retro_investigator::heuristics::{CallOutcome, judge_call};

use super::measure::{Figure, Measure};
use super::runs::{AnsweredCall, load_answered_calls};
use super::score::{Accuracy, b_cubed};
use crate::decisions::eval_data::EvalData;

/// Measures B³ of the grouping by error signature, compared with the labelled classes.
pub(super) struct Grouping;

/// An error with its signatures by the investigator and by the baseline, and its labelled class.
pub(super) struct Case {
    task: String,
    answer: String,
    ours: String,
    baseline: String,
    class: String,
}

impl Measure for Grouping {
    const NAME: &'static str = "error classes grouped (SQL)";
    const SET: &'static str = "02d_intercode";
    type Case = Case;

    fn load_cases(data: &EvalData) -> Result<Vec<Case>> {
        let calls = load_answered_calls(&data.set_folder(Self::SET)?.join("sql_runs.jsonl"))?;
        Ok(calls.into_iter().filter_map(build_case).collect())
    }

    fn group_key(case: &Case) -> &str {
        &case.task
    }

    fn compute_figures(cases: &[&Case]) -> Vec<Figure> {
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

    /// Describes an error that was not detected. A wrong grouping is not described, because it cannot be
    /// attributed to a single error.
    fn describe_mistake(case: &Case) -> Option<String> {
        case.ours
            .is_empty()
            .then(|| format!("{} is not recognised as a failure: {}", case.class, case.answer))
    }
}

fn build_case(answered: AnsweredCall) -> Option<Case> {
    let class = answered.label_class?;
    let said = answered.call.answer.clone().unwrap_or_default();
    let ours = match judge_call(&answered.call) {
        CallOutcome::Failed(failure) => failure.error,
        CallOutcome::Succeeded | CallOutcome::Unanswered => String::new(),
    };
    Some(Case { task: answered.task, baseline: mask_literals(&said), answer: said, ours, class })
}

/// Masks quoted strings and digits in the first line. This is the usual first attempt at a signature, so it
/// serves as the baseline.
pub(super) fn mask_literals(error: &str) -> String {
    static LITERALS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"'[^']*'|"[^"]*"|`[^`]*`|\d+"#).expect("a constant pattern"));
    LITERALS.replace_all(error.lines().next().unwrap_or(""), "*").into_owned()
}
