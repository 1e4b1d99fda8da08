//! Estimates whether knowledge helps, from a natural experiment in set 02d: three models try the same SQL
//! tasks with and without the table schema in the prompt. A run with the schema counts as a run to which a
//! memory was handed. Each task is tried once with the schema and once without.
//!
//! The difference over all tasks is taken as the truth, which the intervals of subsamples must contain as
//! often as they claim or more often, because they hold at every look. A subsample is a tenth of all tasks. The intervals assume an unlimited population; at
//! a tenth, drawing without replacement narrows them by only about a twentieth.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use retro_core::effect::{AssignedRun, estimate_effect};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::measure::{Figure, Measure};
use super::score::share_of_true;
use crate::decisions::eval_data::{EvalData, read_rows};

/// Measures whether the sign of the estimated effect is right, and how often the interval contains the truth.
pub(super) struct KnowledgeEffect;

/// Number of subsamples per model, drawn with the seeds 0, 1, ….
const SUBSAMPLES: u32 = 200;
/// Number of all tasks divided by the size of a subsample.
const SUBSAMPLE_DIVISOR: usize = 10;
/// Minimum size of a subsample. With fewer, hardly anything is excluded.
const SUBSAMPLE_MIN: usize = 10;

#[derive(Deserialize)]
struct Run {
    task_id: String,
    agent: Agent,
    outcome: RunOutcome,
}

#[derive(Deserialize)]
struct Agent {
    model: String,
    strategy: String,
    #[serde(default)]
    schema_given: bool,
}

#[derive(Deserialize)]
struct RunOutcome {
    success: bool,
}

/// A task that one model tried with and without the schema.
pub(super) struct Case {
    model: String,
    task: String,
    without: bool,
    with: bool,
}

impl Measure for KnowledgeEffect {
    const NAME: &'static str = "effect of knowledge (SQL schema)";
    const SET: &'static str = "02d_intercode";
    type Case = Case;

    fn load_cases(data: &EvalData) -> Result<Vec<Case>> {
        let runs: Vec<Run> = read_rows(&data.set_folder(Self::SET)?.join("sql_runs.jsonl"))?;
        let mut tried: BTreeMap<(String, String, String), [Option<bool>; 2]> = BTreeMap::new();
        for Run { task_id, agent: Agent { model, strategy, schema_given }, outcome } in runs {
            let both = tried.entry((model, strategy, task_id)).or_default();
            both[usize::from(schema_given)] = Some(outcome.success);
        }
        let case = |((model, _, task), both): (_, [Option<bool>; 2])| {
            Some(Case { model, task, without: both[0]?, with: both[1]? })
        };
        Ok(tried.into_iter().filter_map(case).collect())
    }

    fn group_key(case: &Case) -> &str {
        &case.task
    }

    fn compute_figures(cases: &[&Case]) -> Vec<Figure> {
        let models: BTreeSet<&str> =
            MODELS.iter().copied().chain(cases.iter().map(|case| &*case.model)).collect();
        let of = |model: &str| cases.iter().copied().filter(|case| case.model == model).collect::<Vec<_>>();
        let signs = models.iter().map(|model| product_interval(&of(model)).is_some_and(|(low, _)| low > 0.0));
        let naive = models.iter().map(|model| naive_interval(&of(model)).0 > 0.0);
        let mut figures = vec![
            Figure::new(
                "right sign, interval above 0",
                cases.len(),
                share_of_true(signs),
                share_of_true(naive),
            )
            .with_goal(1.0),
        ];
        for model in models {
            let all = of(model);
            let (ours, naive) = (
                interval_coverage(&all, product_interval),
                interval_coverage(&all, |some| Some(naive_interval(some))),
            );
            figures.push(
                Figure::new(format!("coverage (95 %, naive 90 %), {model}"), all.len(), ours, naive)
                    .with_goal(0.95),
            );
        }
        figures
    }

    fn describe_mistake(_: &Case) -> Option<String> {
        None
    }
}

/// Models of the experiment, listed so that both halves of the data have the same figures.
const MODELS: &[&str] = &["chat-bison-001", "gpt-3.5", "text-bison-001"];

/// Returns the interval that the product estimates, as shares of runs, or `None` if it makes no estimate. The two
/// runs of a task count as assigned by the toss of a coin.
fn product_interval(cases: &[&Case]) -> Option<(f64, f64)> {
    let outcomes = cases.iter().flat_map(|case| [(true, case.without), (false, case.with)]);
    let run = |(ordinal, (withheld, succeeded))| AssignedRun {
        ordinal,
        withheld,
        permille: 500,
        succeeded: Some(succeeded),
    };
    let runs: Vec<AssignedRun> = (1..).zip(outcomes).map(run).collect();
    let interval = estimate_effect(&runs).interval?;
    Some((f64::from(interval.low_milli) / 1000.0, f64::from(interval.high_milli) / 1000.0))
}

/// Returns the 90 % interval of a naive analysis, which treats the two sides as independent proportions and
/// uses the normal approximation.
fn naive_interval(cases: &[&Case]) -> (f64, f64) {
    let n = cases.len() as f64;
    let (with, without) = (
        share_of_true(cases.iter().map(|case| case.with)),
        share_of_true(cases.iter().map(|case| case.without)),
    );
    let half = 1.645 * ((with * (1.0 - with) + without * (1.0 - without)) / n).sqrt();
    (with - without - half, with - without + half)
}

/// Returns the share of subsamples whose interval contains the difference measured over all cases.
fn interval_coverage(all: &[&Case], interval: impl Fn(&[&Case]) -> Option<(f64, f64)>) -> f64 {
    let truth =
        share_of_true(all.iter().map(|case| case.with)) - share_of_true(all.iter().map(|case| case.without));
    let size = (all.len() / SUBSAMPLE_DIVISOR).max(SUBSAMPLE_MIN);
    share_of_true((0..SUBSAMPLES).map(|seed| {
        interval(&draw_subsample(all, seed, size)).is_some_and(|(low, high)| low <= truth && truth <= high)
    }))
}

/// Draws `size` cases: those with the smallest hashes of seed, model and task.
fn draw_subsample<'c>(all: &[&'c Case], seed: u32, size: usize) -> Vec<&'c Case> {
    let mut drawn = all.to_vec();
    drawn.sort_by_cached_key(|case| Sha256::digest(format!("{seed} {} {}", case.model, case.task)));
    drawn.truncate(size);
    drawn
}
