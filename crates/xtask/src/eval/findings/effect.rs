//! Does knowledge help? A natural experiment of set 02d: the same SQL tasks, tried by three models with and without the table
//! schema in their prompt. To have been given the schema is to have been presented with a memory; a task is tried once on
//! each side.
//!
//! The difference over all tasks is taken for the truth, and subsamples are drawn from them: as often as they say, their
//! intervals are to hold it. The intervals are for tasks to come and know no end of them, so a subsample is a small part
//! of all: of a tenth, drawing without putting back narrows nothing by more than a twentieth.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use jiff::Timestamp;
use retro_core::effect::{OBSERVATIONS_MIN, Trial, effect};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::super::{Data, rows};
use super::score::share;
use super::{Figure, Measure};

/// The sign of the effect, and how often its interval holds the truth.
pub(super) struct Knowledge;

/// Subsamples that are drawn for each model, by the seeds 0, 1, ….
const SUBSAMPLES: u32 = 200;
/// A subsample is one of so many parts of all tasks.
const PARTS: usize = 10;

#[derive(Deserialize)]
struct Run {
    task_id: String,
    agent: Agent,
    outcome: Ended,
}

#[derive(Deserialize)]
struct Agent {
    model: String,
    strategy: String,
    #[serde(default)]
    schema_given: bool,
}

#[derive(Deserialize)]
struct Ended {
    success: bool,
}

/// A task that a model tried both ways.
pub(super) struct Case {
    model: String,
    task: String,
    without: bool,
    with: bool,
}

impl Measure for Knowledge {
    const NAME: &'static str = "effect of knowledge (SQL schema)";
    const SET: &'static str = "02d_intercode";
    type Case = Case;

    fn cases(data: &Data) -> Result<Vec<Case>> {
        let runs: Vec<Run> = rows(&data.set(Self::SET)?.join("sql_runs.jsonl"))?;
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

    fn group(case: &Case) -> &str {
        &case.task
    }

    fn figures(cases: &[&Case]) -> Vec<Figure> {
        let models: BTreeSet<&str> =
            MODELS.iter().copied().chain(cases.iter().map(|case| &*case.model)).collect();
        let of = |model: &str| cases.iter().copied().filter(|case| case.model == model).collect::<Vec<_>>();
        let signs = models.iter().map(|model| said(&of(model)).is_some_and(|(low, _)| low > 0.0));
        let naive = models.iter().map(|model| unpaired(&of(model)).0 > 0.0);
        let mut figures = vec![
            Figure::new("right sign, interval above 0", cases.len(), share(signs), share(naive))
                .with_goal(1.0),
        ];
        for model in models {
            let all = of(model);
            let (ours, naive) = (coverage(&all, said), coverage(&all, |some| Some(unpaired(some))));
            figures
                .push(Figure::new(format!("90 % holds, {model}"), all.len(), ours, naive).within(0.85, 0.95));
        }
        figures
    }

    fn mistake(_: &Case) -> Option<String> {
        None
    }
}

/// The models of the experiment: named, so that each part of the cases has the same figures.
const MODELS: &[&str] = &["chat-bison-001", "gpt-3.5", "text-bison-001"];

/// The product's interval, in runs.
fn said(cases: &[&Case]) -> Option<(f64, f64)> {
    let trial = |case: &Case, met, succeeded| Trial {
        began_at: Timestamp::UNIX_EPOCH,
        task: Some(case.task.clone()),
        met,
        succeeded: Some(succeeded),
    };
    let trials: Vec<Trial> = cases
        .iter()
        .flat_map(|case| [trial(case, false, case.without), trial(case, true, case.with)])
        .collect();
    let estimate = effect(&trials, &[(Timestamp::MIN, None)]).estimate?;
    Some((f64::from(estimate.low_milli) / 1000.0, f64::from(estimate.high_milli) / 1000.0))
}

/// What most people compute first: two shares as if nothing tied them, and the normal distribution.
fn unpaired(cases: &[&Case]) -> (f64, f64) {
    let n = cases.len() as f64;
    let (with, without) =
        (share(cases.iter().map(|case| case.with)), share(cases.iter().map(|case| case.without)));
    let half = 1.645 * ((with * (1.0 - with) + without * (1.0 - without)) / n).sqrt();
    (with - without - half, with - without + half)
}

/// How many subsamples' intervals hold the difference over all cases.
fn coverage(all: &[&Case], interval: impl Fn(&[&Case]) -> Option<(f64, f64)>) -> f64 {
    let truth = share(all.iter().map(|case| case.with)) - share(all.iter().map(|case| case.without));
    let size = (all.len() / PARTS).max(OBSERVATIONS_MIN as usize);
    share((0..SUBSAMPLES).map(|seed| {
        interval(&drawn(all, seed, size)).is_some_and(|(low, high)| low <= truth && truth <= high)
    }))
}

/// So many cases, drawn by the order of their hashes with the seed.
fn drawn<'c>(all: &[&'c Case], seed: u32, size: usize) -> Vec<&'c Case> {
    let mut drawn = all.to_vec();
    drawn.sort_by_cached_key(|case| Sha256::digest(format!("{seed} {} {}", case.model, case.task)));
    drawn.truncate(size);
    drawn
}
