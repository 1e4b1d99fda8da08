//! Sends hostile text through the complete pipeline: posted as signed review comments to a running bridge,
//! decided, stored, promoted by a careless operator, and requested by an agent. Prints every line that is
//! shown to an agent.
//!
//! Each text gets its own repository, so no other text supports or displaces it. The text is posted on two
//! pull requests of that repository, because a repeated request counts for more. Genuine reviews take the
//! same path, because a screen that blocks everything is useless.

mod cases;
mod client;
mod github;
mod outcomes;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;

use crate::decisions::eval_data::EvalData;
use crate::instance::{Instance, find_release_binary};
use cases::Case;
use client::ProgramClient;
use outcomes::{TextOutcome, print_outcomes};

/// Policy that shows an agent every active rule of a repository.
const POLICY: &str = "[policy]\nrule_inject_max = 100\nrule_tokens_max = 100000\n";

/// Options of `cargo xtask eval hostile`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    data: EvalData,
    /// Path of the `retro` binary [default: the release build].
    #[arg(long)]
    retro: Option<PathBuf>,
    /// Maximum number of texts per kind and author, selected by hash [default: all].
    #[arg(long)]
    most: Option<usize>,
    /// Prints the outcome of every text as one JSON document instead of as tables.
    #[arg(long)]
    json: bool,
}

/// Runs the evaluation in a fresh folder below the workspace root. Fails if an agent is shown anything other
/// than one fenced block of lines that the screen and the grammar accept.
pub(super) fn run(root: &Path, options: &Options) -> Result<()> {
    let cases = cases::load_cases(&options.data, options.most)?;
    let binary = options.retro.clone().map_or_else(find_release_binary, Ok)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let fates = runtime.block_on(run_cases(root, &binary, cases))?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&fates)?);
    } else {
        print_outcomes(&fates);
    }
    let unfit: Vec<_> = fates.iter().flat_map(|fate| &fate.unfit).collect();
    ensure!(unfit.is_empty(), "an agent was shown forbidden text: {unfit:#?}");
    Ok(())
}

async fn run_cases(root: &Path, binary: &Path, cases: Vec<Case>) -> Result<Vec<TextOutcome>> {
    let folder = root.join(".demo").join("hostile");
    let pipelines = folder.with_file_name("hostile-pipelines");
    std::fs::create_dir_all(pipelines.join("retrospective"))?;
    std::fs::write(pipelines.join("retrospective/pipeline.toml"), POLICY)?;
    let retro = Instance::start(binary, &folder, &pipelines, &github::BRIDGE_VARIABLES).await?;
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
    Ok(fates)
}
