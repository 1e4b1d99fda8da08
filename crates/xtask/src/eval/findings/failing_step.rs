//! At which step did a failed run go wrong? People said so for set 02c (one step) and for set 02b (one or more, by a count of
//! their own that is about one off).

use anyhow::Result;
use retro_investigator::heuristics::{Sign, blame};

use super::super::{Data, rows};
use super::runs::Run;
use super::score::share;
use super::{Figure, Measure};

/// The failing step of conversations between agents.
pub(super) struct WhoAndWhen;
/// The failing step of calls and conversations; right is any step that an annotator names.
pub(super) struct RootCause;

/// One failed run: the step that is blamed, counted from 0, and those that people blame.
pub(super) struct Case {
    task: String,
    ours: Option<usize>,
    sign: Option<Sign>,
    truth: Vec<usize>,
    shown: String,
}

/// What is right most often: the second message.
const BASELINE: usize = 1;

impl Measure for WhoAndWhen {
    const NAME: &'static str = "failing step (conversations)";
    const SET: &'static str = "02c_who_and_when";
    type Case = Case;

    fn cases(data: &Data) -> Result<Vec<Case>> {
        let runs: Vec<Run> = rows(&data.set(Self::SET)?.join("runs.jsonl"))?;
        Ok(runs.iter().filter_map(case).collect())
    }

    fn group(case: &Case) -> &str {
        &case.task
    }

    fn figures(cases: &[&Case]) -> Vec<Figure> {
        let whole = [hits(cases, "hit@1", 0).with_goal(0.30), hits(cases, "± 1", 1)];
        let words = [Sign::Refuted, Sign::Crashed, Sign::Unsourced, Sign::Programmed, Sign::Began];
        whole.into_iter().chain(words.map(|sign| by_sign(cases, sign))).collect()
    }

    fn mistake(case: &Case) -> Option<String> {
        mistake(case)
    }
}

impl Measure for RootCause {
    const NAME: &'static str = "failing step (any that is named)";
    const SET: &'static str = "02b_agentrx";
    type Case = Case;

    fn cases(data: &Data) -> Result<Vec<Case>> {
        let folder = data.set(Self::SET)?;
        let mut runs: Vec<Run> = rows(&folder.join("tau_retail_runs.jsonl"))?;
        runs.extend(rows::<Run>(&folder.join("magentic_runs.jsonl"))?);
        Ok(runs.iter().filter_map(case).collect())
    }

    fn group(case: &Case) -> &str {
        &case.task
    }

    fn figures(cases: &[&Case]) -> Vec<Figure> {
        let whole = [hits(cases, "hit@1", 0), hits(cases, "± 1", 1)];
        whole.into_iter().chain([by_sign(cases, Sign::NothingGotPast), when_told(cases)]).collect()
    }

    fn mistake(case: &Case) -> Option<String> {
        mistake(case)
    }
}

fn case(run: &Run) -> Option<Case> {
    let labels = run.labels.as_ref()?;
    let named = labels.failures.iter().map(|failure| failure.step_number.saturating_sub(1));
    let truth: Vec<usize> = labels.mistake_step.into_iter().chain(named).collect();
    let (trajectory, entries) = run.trajectory();
    let blamed = blame(&trajectory);
    let ours = blamed.and_then(|blamed| entries.get(blamed.turn as usize).copied());
    let shown = format!("{}: {blamed:?} is not among {truth:?}", run.run_id);
    let sign = blamed.map(|blamed| blamed.sign);
    (!truth.is_empty()).then(|| Case { task: run.task_id.clone(), ours, sign, truth, shown })
}

/// How often one sign is right, beside the baseline on the same runs: a sign that is no better earns nothing.
fn by_sign(cases: &[&Case], sign: Sign) -> Figure {
    let of_it: Vec<&Case> = cases.iter().copied().filter(|case| case.sign == Some(sign)).collect();
    hits(&of_it, &format!("hit@1 by {sign:?}"), 0)
}

/// How often it is right where anything is said at all.
fn when_told(cases: &[&Case]) -> Figure {
    let told: Vec<&Case> = cases.iter().copied().filter(|case| case.sign.is_some()).collect();
    hits(&told, "hit@1, where one is told", 0)
}

fn hits(cases: &[&Case], name: &str, off: usize) -> Figure {
    let near = |at: usize, case: &Case| case.truth.iter().any(|truth| truth.abs_diff(at) <= off);
    let ours = share(cases.iter().map(|case| case.ours.is_some_and(|at| near(at, case))));
    Figure::new(name, cases.len(), ours, share(cases.iter().map(|case| near(BASELINE, case))))
}

fn mistake(case: &Case) -> Option<String> {
    let right = case.ours.is_some_and(|at| case.truth.contains(&at));
    (!right).then(|| case.shown.clone())
}
