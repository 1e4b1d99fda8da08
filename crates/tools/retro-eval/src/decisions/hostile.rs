//! Sends hostile text through the complete pipeline, and prints every line that is shown to an agent.
//!
//! **Reviews.** Each text is posted as signed review comments to a running bridge, decided, stored, promoted
//! by a careless operator, and requested by an agent. Each text gets its own repository, so no other text
//! supports or displaces it. The text is posted on two pull requests of that repository, because a repeated
//! request counts for more. Genuine reviews take the same path, because a screen that blocks everything is
//! useless.
//!
//! **Runs.** Each text is put into every place of a run where an attacker can write: the error of a tool, its
//! answer, a file, a remark, the name of a tool, an argument. Attacks of files are added as they are. Ten runs
//! of a workflow of its own are sent, its retrospective closes, and everything that an agent then gets is
//! compared with the hostile text. Genuine runs take the same path in `cargo xtask eval memories --gate`.

mod attacks;
mod cases;
mod client;
mod frame;
mod github;
mod judge;
mod obeying;
mod outcomes;
mod places;
mod run_cases;
mod run_client;
mod run_outcomes;
mod run_tables;
mod scripted_run;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::decisions::eval_data::EvalData;
use crate::instance::{Instance, find_release_binary};
use cases::Case;
use client::ProgramClient;
use obeying::{ObeyRecord, ObeyingModel, print_reviews, print_runs};
use outcomes::{TextOutcome, print_outcomes};
use run_cases::{RunCase, load_run_cases};
use run_client::{RUN_VARIABLES, RunClient};
use run_outcomes::RunOutcome;
use run_tables::print_run_outcomes;

/// Policy that shows an agent every active rule of a repository.
const POLICY: &str = "[rules]\nrule_inject_max = 100\nrule_tokens_max = 100000\n";
/// Maximum number of cases of runs that are carried out concurrently.
const CASES_CONCURRENT_MAX: usize = 16;
/// Number of finished cases after which the progress is printed.
const PROGRESS_CASES: usize = 500;

/// Options of `cargo xtask eval hostile`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    data: EvalData,
    /// Path of the `retro` binary [default: the release build].
    #[arg(long)]
    retro: Option<PathBuf>,
    /// Maximum number of texts per kind (and author of a review), selected by hash [default: all].
    #[arg(long)]
    most: Option<usize>,
    /// Part of the evaluation to carry out [default: both].
    #[arg(long, value_enum)]
    only: Option<HostilePart>,
    /// Files with attacks, one JSON object per line, whose runs are sent as well.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    attacks: Vec<PathBuf>,
    /// Lets a language model read the runs and the reviews, too: a script that obeys every instruction it reads. Prints by class
    /// of attack what it was shown, what it obeyed, and what came of it.
    #[arg(long)]
    obeying_model: bool,
    /// Prints the outcome of every text and case as one JSON document instead of as tables.
    #[arg(long)]
    json: bool,
}

/// Part of the evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HostilePart {
    /// Texts posted as review comments.
    Reviews,
    /// Texts and attacks in runs.
    Runs,
}

/// Runs the evaluation in fresh folders below the workspace root. Fails if an agent is shown anything other
/// than blocks of well-formed lines, a rule that the screen or the grammar refuses, or a fragment of a hostile
/// text that is not quoted; and if a case could not be carried out.
pub(super) fn run(root: &Path, options: &Options) -> Result<()> {
    let binary = options.retro.clone().map_or_else(find_release_binary, Ok)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (mut reviews, mut runs) = (None, None);
    if options.only != Some(HostilePart::Runs) {
        let cases = cases::load_cases(&options.data, options.most)?;
        reviews = Some(runtime.block_on(post_reviews(root, &binary, cases, options.obeying_model))?);
    }
    if options.only != Some(HostilePart::Reviews) {
        let cases = load_run_cases(&options.data, options.most, &options.attacks)?;
        runs = Some(runtime.block_on(send_runs(root, &binary, cases, options.obeying_model))?);
    }
    let (reviews, obeyed_reviews) = reviews.unzip();
    let (runs, obeyed_runs) = runs.unzip();
    let (obeyed_reviews, obeyed_runs) = (obeyed_reviews.flatten(), obeyed_runs.flatten());
    if options.json {
        let document = serde_json::json!({
            "reviews": &reviews, "runs": &runs, "obeyed_reviews": &obeyed_reviews, "obeyed_runs": &obeyed_runs,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        if let Some(outcomes) = &reviews {
            print_outcomes(outcomes);
            obeyed_reviews.iter().for_each(|records| print_reviews(outcomes, records));
        }
        if let Some(outcomes) = &runs {
            print_run_outcomes(outcomes);
            obeyed_runs.iter().for_each(|records| print_runs(outcomes, records));
        }
    }
    let unfit: Vec<_> = reviews.iter().flatten().flat_map(|fate| &fate.unfit).collect();
    ensure!(unfit.is_empty(), "an agent was shown forbidden text: {unfit:#?}");
    let failed = runs.iter().flatten().filter(|outcome| outcome.result.is_failure()).count();
    ensure!(failed == 0, "in {failed} cases, runs led an agent to what their attacker wants");
    let unfinished = runs.iter().flatten().filter(|outcome| outcome.problem.is_some()).count();
    ensure!(unfinished == 0, "{unfinished} cases could not be carried out");
    Ok(())
}

/// What a model was shown and did, by workflow or repository; `None` if none took part.
type Obeyed = Option<BTreeMap<String, ObeyRecord>>;

/// Returns the name of the workflow of a case.
fn name_workflow(nth: usize) -> String {
    format!("hostile-{nth:05}")
}

/// Sends the runs of all cases to a fresh instance with the default policy, and judges what agents get.
async fn send_runs(
    root: &Path,
    binary: &Path,
    cases: Vec<RunCase>,
    obeying: bool,
) -> Result<(Vec<RunOutcome>, Obeyed)> {
    let folder = root.join(".demo").join("hostile-runs");
    let model = match obeying {
        true => Some(ObeyingModel::start_for_runs(&cases, name_workflow).await?),
        false => None,
    };
    let mut variables = RUN_VARIABLES.to_vec();
    variables.extend(model.iter().flat_map(ObeyingModel::variables));
    let retro = Instance::start(binary, &folder, &root.join("pipelines"), &variables).await?;
    let way = Arc::new(RunClient::connect_to(&retro)?);
    let all = cases.len();
    eprintln!("sending the runs of {all} cases, one workflow each, to {}", retro.http_url());
    let places = Arc::new(Semaphore::new(CASES_CONCURRENT_MAX));
    let mut under_way = JoinSet::new();
    for (nth, case) in cases.into_iter().enumerate() {
        let (way, places) = (way.clone(), places.clone());
        under_way.spawn(async move {
            let _place = places.acquire_owned().await.expect("the semaphore is never closed");
            (nth, carry_out_case(&way, nth, &case).await)
        });
    }
    let mut outcomes = Vec::with_capacity(all);
    while let Some(outcome) = under_way.join_next().await {
        outcomes.push(outcome.context("the task of a case panicked")?);
        if outcomes.len().is_multiple_of(PROGRESS_CASES) {
            eprintln!("{} of {all} cases are done", outcomes.len());
        }
    }
    retro.stop().await?;
    // Cases finish in any order; sorting makes the output deterministic.
    outcomes.sort_by_key(|(nth, _)| *nth);
    let outcomes = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
    Ok((outcomes, model.map(|model| model.records())))
}

/// Carries out one case. An error concerns only this case, so that the others are still judged.
async fn carry_out_case(way: &RunClient, nth: usize, case: &RunCase) -> RunOutcome {
    let workflow = name_workflow(nth);
    let collected = match case.to_events(&workflow) {
        Ok(events) => way.collect_texts(&workflow, &events).await,
        Err(error) => Err(error),
    };
    match collected {
        Ok(collected) => RunOutcome::from_collected(case, &workflow, &collected),
        Err(error) => RunOutcome::from_problem(case, &workflow, format!("{error:#}")),
    }
}

async fn post_reviews(
    root: &Path,
    binary: &Path,
    cases: Vec<Case>,
    obeying: bool,
) -> Result<(Vec<TextOutcome>, Obeyed)> {
    let folder = root.join(".demo").join("hostile");
    let pipelines = folder.with_file_name("hostile-pipelines");
    std::fs::create_dir_all(pipelines.join("retrospective"))?;
    std::fs::write(pipelines.join("retrospective/pipeline.toml"), POLICY)?;
    let model = match obeying {
        true => Some(ObeyingModel::start_for_reviews(&cases).await?),
        false => None,
    };
    let mut variables = github::BRIDGE_VARIABLES.to_vec();
    variables.extend(model.iter().flat_map(ObeyingModel::variables));
    let retro = Instance::start(binary, &folder, &pipelines, &variables).await?;
    let way = ProgramClient::connect_to(&retro)?;
    eprintln!("posting {} signed comments, each on two pull requests, to {}", cases.len(), way.bridge_url());
    for number in 1..=github::PULL_REQUESTS {
        way.post_comments(&cases, number).await?;
        eprintln!("pull request {number}: all comments posted");
        // The first comment must be decided before the second one is posted, or the second is not a repeated
        // request.
        way.wait_until_decided(&cases, number).await?;
        eprintln!("pull request {number}: all comments decided");
    }
    let mut fates = way.collect_outcomes(cases).await?;
    way.request_shown_rules(&mut fates, |fate| &mut fate.shown).await?;
    let promoted = way.promote_held_rules(&fates).await?;
    eprintln!("a person promoted {promoted} held rules");
    way.request_shown_rules(&mut fates, |fate| &mut fate.shown_when_promoted).await?;
    retro.stop().await?;
    Ok((fates, model.map(|model| model.records())))
}
