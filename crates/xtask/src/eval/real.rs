//! Real runs on their whole way: sent to a running program as their engines would have, looked back at, and what came of them.

pub(super) mod beside;
pub(super) mod memories;
mod runs;
pub(super) mod time;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::fixtures::Run;
use crate::instance::Instance;

/// Runs of one window of the default policy: so many are sent before a retrospective is waited for.
const PACE: &str = "10";

/// Sends the runs of one workflow, `pace` at a time. What is larger than a message goes by reference, as `retro emit` has it.
async fn emit(retro: &Instance, folder: &Path, workflow: &str, runs: &[Run], pace: &str) -> Result<()> {
    let file = folder.join(format!("{workflow}.jsonl"));
    let lines: Vec<String> = runs.iter().map(|run| run.event().to_string()).collect();
    fs::write(&file, lines.join("\n") + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    let path = file.to_str().context("the folder's name is not UTF-8")?;
    retro.ask(&["emit", path, "--pace", pace]).await.map(|_| ())
}
