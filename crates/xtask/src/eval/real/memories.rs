//! Which memories the program makes of real runs: all of them counted, and some drawn by a seed, for a person to say of each
//! whether it is true, useful and specific.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use retro_core::memory::{Memory, Status};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::super::Data;
use super::runs::{FILES, by_workflow, of_file};
use super::{PACE, emit};
use crate::demo::built;
use crate::instance::Instance;

/// How it is asked for.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    data: Data,
    /// The built program [default: `retro` of the release profile].
    #[arg(long)]
    retro: Option<PathBuf>,
    /// Draws what is shown.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many active memories are shown.
    #[arg(long, default_value_t = 20)]
    draw: usize,
    /// Only runs of these workflows.
    #[arg(long)]
    workflow: Vec<String>,
}

/// Sends everything to a fresh instance below the project's root, a window at a time, and shows what it learned.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let binary = options.retro.clone().map_or_else(built, Ok)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let memories = runtime.block_on(learned(root, &binary, options))?;
    count(&memories);
    show(&drawn(memories, options.seed, options.draw), options.seed);
    Ok(())
}

async fn learned(root: &Path, binary: &Path, options: &Options) -> Result<Vec<Memory>> {
    let mut rows = Vec::new();
    for file in FILES {
        rows.extend(of_file(&options.data, file)?);
    }
    let folder = root.join(".demo").join("memories");
    let retro = Instance::start(binary, &folder, &root.join("pipelines"), &[]).await?;
    let wanted = |workflow: &String| options.workflow.is_empty() || options.workflow.contains(workflow);
    for (workflow, runs) in by_workflow(rows).into_iter().filter(|(workflow, _)| wanted(workflow)) {
        eprintln!("{workflow}: {} runs", runs.len());
        emit(&retro, &folder, &workflow, &runs, PACE).await?;
    }
    retro.wait_until_still().await?;
    let listed = retro.ask(&["memories", "list", "--limit", "1000000"]).await?;
    say_dead(&retro.ask(&["dead-letters", "list", "--limit", "1000"]).await?)?;
    retro.stop().await?;
    Ok(serde_json::from_value(listed)?)
}

fn say_dead(letters: &Value) -> Result<()> {
    let letters = letters.as_array().context("dead letters are a list")?;
    ensure!(letters.is_empty(), "{} runs are dead letters: {}", letters.len(), letters[0]);
    Ok(())
}

/// How many of each status, by workflow.
fn count(memories: &[Memory]) {
    let mut counts: BTreeMap<&str, BTreeMap<Status, usize>> = BTreeMap::new();
    for memory in memories {
        let workflow = memory.scope.workflow().map_or("-", |workflow| workflow.as_str());
        *counts.entry(workflow).or_default().entry(memory.status).or_default() += 1;
    }
    for (workflow, of_status) in counts {
        let said: Vec<_> =
            of_status.iter().map(|(status, count)| format!("{count} {}", status.as_str())).collect();
        println!("{workflow:<26} {}", said.join(", "));
    }
}

/// So many of the active ones, in an order that the seed and their ids give.
fn drawn(memories: Vec<Memory>, seed: u64, count: usize) -> Vec<Memory> {
    let mut active: Vec<_> = memories.into_iter().filter(|memory| memory.status == Status::Active).collect();
    active.sort_by_cached_key(|memory| <[u8; 32]>::from(Sha256::digest(format!("{seed}/{}", memory.id))));
    active.truncate(count);
    active
}

fn show(memories: &[Memory], seed: u64) {
    println!("\n{} active memories, drawn by seed {seed}:", memories.len());
    for (nth, memory) in memories.iter().enumerate() {
        let workflow = memory.scope.workflow().map_or("-", |workflow| workflow.as_str());
        println!("\n{:>2}. {workflow} · {} · {} runs", nth + 1, memory.weight, memory.evidence.len());
        println!("    {}", memory.lesson.title);
        for line in memory.lesson.content.lines() {
            println!("      | {line}");
        }
        for evidence in memory.evidence.iter().take(2) {
            println!("      > {}: {:?}", evidence.run, evidence.quote.text);
        }
    }
}
