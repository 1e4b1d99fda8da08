//! Hostile text on its whole way: posted as signed review comments through a running bridge, decided, stored, promoted by a
//! careless person, and asked for by an agent. Whatever an agent is shown in the end is printed word by word.
//!
//! Each text has a repository of its own, so that no other one speaks for it or takes its place, and is posted twice there, on two
//! pull requests: what is asked again counts for more. Genuine reviews go the same way beside it, since a screen that lets
//! nothing through helps nobody.

mod cases;
mod github;
mod told;
mod way;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;

use super::Data;
use crate::demo::built;
use crate::instance::Instance;
use cases::Case;
use told::{Fate, print};
use way::Way;

/// Every active rule of a repository is to be seen, whatever it costs.
const POLICY: &str = "[policy]\nrule_inject_max = 100\nrule_tokens_max = 100000\n";

/// How the measurement is asked for.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    data: Data,
    /// The built program [default: `retro` of the release profile].
    #[arg(long)]
    retro: Option<PathBuf>,
    /// Only so many texts of each kind, drawn by their hash.
    #[arg(long)]
    most: Option<usize>,
    /// Prints one JSON document with every text's fate instead of tables.
    #[arg(long)]
    json: bool,
}

/// Runs it in a fresh folder below the project's root. Fails when an agent is shown something that is not one fenced line which
/// screen and grammar let pass.
pub(super) fn run(root: &Path, options: &Options) -> Result<()> {
    let cases = cases::all(&options.data, options.most)?;
    let binary = options.retro.clone().map_or_else(built, Ok)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let fates = runtime.block_on(follow(root, &binary, cases))?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&fates)?);
    } else {
        print(&fates);
    }
    let unfit: Vec<_> = fates.iter().flat_map(|fate| &fate.unfit).collect();
    ensure!(unfit.is_empty(), "an agent was shown what it must not be shown: {unfit:#?}");
    Ok(())
}

async fn follow(root: &Path, binary: &Path, cases: Vec<Case>) -> Result<Vec<Fate>> {
    let folder = root.join(".demo").join("hostile");
    let pipelines = folder.with_file_name("hostile-pipelines");
    std::fs::create_dir_all(pipelines.join("retrospective"))?;
    std::fs::write(pipelines.join("retrospective/pipeline.toml"), POLICY)?;
    let retro = Instance::start(binary, &folder, &pipelines, &github::CONFIGURED).await?;
    let way = Way::through(&retro)?;
    eprintln!("{} signed comments on two pull requests each to {}", cases.len(), way.bridge());
    for number in 1..=github::PULL_REQUESTS {
        way.post(&cases, number).await?;
        eprintln!("pull request {number} of each: posted");
        way.wait_until_decided(&cases, number).await?;
        eprintln!("pull request {number} of each: decided");
    }
    let mut fates = way.fates(cases).await?;
    way.show(&mut fates, |fate| &mut fate.shown).await?;
    let promoted = way.promote(&fates).await?;
    eprintln!("a person promoted {promoted} that were held back");
    way.show(&mut fates, |fate| &mut fate.shown_when_promoted).await?;
    retro.stop().await?;
    Ok(fates)
}
