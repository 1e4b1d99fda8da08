//! Counts the memories learned from real runs, and prints a random sample for people to judge whether the
//! memories are true, useful and specific. Can also count what the gate holds and refuses of these genuine
//! lessons.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use retro_core::memory::{Memory, MemoryStatus};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::gate_counts::{GateCounts, count_observations};
use super::runs::{FILES, group_by_workflow, read_runs_file};
use super::{WINDOW_PACE, emit_runs};
use crate::decisions::eval_data::EvalData;
use crate::instance::{Instance, find_release_binary};

/// Options of `cargo xtask eval memories`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    data: EvalData,
    /// Path of the `retro` binary [default: the release build].
    #[arg(long)]
    retro: Option<PathBuf>,
    /// Seed of the random draw.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of active memories to print.
    #[arg(long, default_value_t = 20)]
    draw: usize,
    /// Workflow whose runs are emitted; may be repeated [default: all].
    #[arg(long)]
    workflow: Vec<String>,
    /// Also counts the observations that were held, refused or passed, and prints every held and refused line.
    #[arg(long)]
    gate: bool,
}

/// What was learned from the runs.
struct LearnedMemories {
    memories: Vec<Memory>,
    /// Counted observations of all reports; `None` if they were not requested.
    gate: Option<GateCounts>,
}

/// Emits every run to a fresh instance below the workspace root, one window at a time, and prints a sample of
/// the learned memories.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let binary = options.retro.clone().map_or_else(find_release_binary, Ok)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let LearnedMemories { memories, gate } = runtime.block_on(learn_memories(root, &binary, options))?;
    print_counts(&memories);
    if let Some(gate) = gate {
        gate.print_counts();
    }
    print_memories(&draw_active(memories, options.seed, options.draw), options.seed);
    Ok(())
}

async fn learn_memories(root: &Path, binary: &Path, options: &Options) -> Result<LearnedMemories> {
    let mut rows = Vec::new();
    for file in FILES {
        rows.extend(read_runs_file(&options.data, file)?);
    }
    let folder = root.join(".demo").join("memories");
    let retro = Instance::start(binary, &folder, &root.join("pipelines"), &[]).await?;
    let wanted = |workflow: &String| options.workflow.is_empty() || options.workflow.contains(workflow);
    for (workflow, runs) in group_by_workflow(rows).into_iter().filter(|(workflow, _)| wanted(workflow)) {
        eprintln!("{workflow}: {} runs", runs.len());
        emit_runs(&retro, &folder, &workflow, &runs, WINDOW_PACE).await?;
    }
    retro.wait_until_idle().await?;
    let listed = retro.run_json(&["memories", "list", "--limit", "1000000"]).await?;
    // A run that became a dead letter would be missing from the result without notice.
    ensure_no_dead_letters(&retro.run_json(&["dead-letters", "list", "--limit", "1000"]).await?)?;
    let gate = if options.gate { Some(count_observations(&retro, &listed).await?) } else { None };
    retro.stop().await?;
    Ok(LearnedMemories { memories: serde_json::from_value(listed)?, gate })
}

fn ensure_no_dead_letters(letters: &Value) -> Result<()> {
    let letters = letters.as_array().context("`retro dead-letters list` printed no list")?;
    ensure!(letters.is_empty(), "{} runs became dead letters: {}", letters.len(), letters[0]);
    Ok(())
}

/// Prints the number of memories by workflow and status.
fn print_counts(memories: &[Memory]) {
    let mut counts: BTreeMap<&str, BTreeMap<MemoryStatus, usize>> = BTreeMap::new();
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

/// Draws `count` active memories in an order that depends only on the seed and the memories' IDs.
fn draw_active(memories: Vec<Memory>, seed: u64, count: usize) -> Vec<Memory> {
    let mut active: Vec<_> =
        memories.into_iter().filter(|memory| memory.status == MemoryStatus::Active).collect();
    active.sort_by_cached_key(|memory| <[u8; 32]>::from(Sha256::digest(format!("{seed}/{}", memory.id))));
    active.truncate(count);
    active
}

fn print_memories(memories: &[Memory], seed: u64) {
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
