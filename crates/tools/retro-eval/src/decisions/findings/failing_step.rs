//! Measures whether the step at which a run went wrong is found. People labelled one step per run in set 02c,
//! and one or more in set 02b, where the labelled step numbers are about one off.

use anyhow::Result;
use retro_investigator::heuristics::{BlameSign, find_blamed_turn};

use super::measure::{Figure, Measure};
use super::runs::Run;
use super::score::share_of_true;
use crate::decisions::eval_data::{EvalData, read_rows};

/// Measures whether the failing step is found in conversations between agents.
pub(super) struct WhoAndWhen;
/// Measures whether the failing step is found in runs with calls and in conversations. Any labelled step
/// counts as correct.
pub(super) struct RootCause;

/// A failed run with the blamed step and the labelled steps, all 0-based.
pub(super) struct Case {
    task: String,
    ours: Option<usize>,
    sign: Option<BlameSign>,
    truth: Vec<usize>,
    description: String,
}

/// 0-based step that a guess without knowledge of the run hits most often: the second message.
const BASELINE: usize = 1;

impl Measure for WhoAndWhen {
    const NAME: &'static str = "failing step (conversations)";
    const SET: &'static str = "02c_who_and_when";
    type Case = Case;

    fn load_cases(data: &EvalData) -> Result<Vec<Case>> {
        let runs: Vec<Run> = read_rows(&data.set_folder(Self::SET)?.join("runs.jsonl"))?;
        Ok(runs.iter().filter_map(build_case).collect())
    }

    fn group_key(case: &Case) -> &str {
        &case.task
    }

    fn compute_figures(cases: &[&Case]) -> Vec<Figure> {
        let whole = [hit_rate(cases, "hit@1", 0).with_goal(0.30), hit_rate(cases, "± 1", 1)];
        let words = [
            BlameSign::ExecutionFailed,
            BlameSign::UncaughtException,
            BlameSign::Unsourced,
            BlameSign::FirstProgram,
            BlameSign::FirstContribution,
        ];
        whole.into_iter().chain(words.map(|sign| rate_by_sign(cases, sign))).collect()
    }

    fn describe_mistake(case: &Case) -> Option<String> {
        describe_miss(case)
    }
}

impl Measure for RootCause {
    const NAME: &'static str = "failing step (any that is named)";
    const SET: &'static str = "02b_agentrx";
    type Case = Case;

    fn load_cases(data: &EvalData) -> Result<Vec<Case>> {
        let folder = data.set_folder(Self::SET)?;
        let mut runs: Vec<Run> = read_rows(&folder.join("tau_retail_runs.jsonl"))?;
        runs.extend(read_rows::<Run>(&folder.join("magentic_runs.jsonl"))?);
        Ok(runs.iter().filter_map(build_case).collect())
    }

    fn group_key(case: &Case) -> &str {
        &case.task
    }

    fn compute_figures(cases: &[&Case]) -> Vec<Figure> {
        let whole = [hit_rate(cases, "hit@1", 0), hit_rate(cases, "± 1", 1)];
        whole
            .into_iter()
            .chain([rate_by_sign(cases, BlameSign::UnresolvedError), rate_where_blamed(cases)])
            .collect()
    }

    fn describe_mistake(case: &Case) -> Option<String> {
        describe_miss(case)
    }
}

fn build_case(run: &Run) -> Option<Case> {
    let labels = run.labels.as_ref()?;
    let named = labels.failures.iter().map(|failure| failure.step_number.saturating_sub(1));
    let truth: Vec<usize> = labels.mistake_step.into_iter().chain(named).collect();
    let (trajectory, entries) = run.to_trajectory();
    let blamed = find_blamed_turn(&trajectory);
    let ours = blamed.and_then(|blamed| entries.get(blamed.turn as usize).copied());
    let shown = format!("{}: {blamed:?} is not among {truth:?}", run.run_id);
    let sign = blamed.map(|blamed| blamed.sign);
    (!truth.is_empty()).then(|| Case { task: run.task_id.clone(), ours, sign, truth, description: shown })
}

/// Returns the hit rate in the runs in which this sign was decisive, compared with the baseline on the same
/// runs. A sign that does not beat the baseline is useless.
fn rate_by_sign(cases: &[&Case], sign: BlameSign) -> Figure {
    let of_it: Vec<&Case> = cases.iter().copied().filter(|case| case.sign == Some(sign)).collect();
    hit_rate(&of_it, &format!("hit@1 by {sign:?}"), 0)
}

/// Returns the hit rate in the runs in which a step is blamed.
fn rate_where_blamed(cases: &[&Case]) -> Figure {
    let told: Vec<&Case> = cases.iter().copied().filter(|case| case.sign.is_some()).collect();
    hit_rate(&told, "hit@1, where a step is blamed", 0)
}

fn hit_rate(cases: &[&Case], name: &str, off: usize) -> Figure {
    let near = |at: usize, case: &Case| case.truth.iter().any(|truth| truth.abs_diff(at) <= off);
    let ours = share_of_true(cases.iter().map(|case| case.ours.is_some_and(|at| near(at, case))));
    Figure::new(name, cases.len(), ours, share_of_true(cases.iter().map(|case| near(BASELINE, case))))
}

fn describe_miss(case: &Case) -> Option<String> {
    let right = case.ours.is_some_and(|at| case.truth.contains(&at));
    (!right).then(|| case.description.clone())
}
