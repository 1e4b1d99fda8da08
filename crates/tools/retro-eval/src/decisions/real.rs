//! Emits real runs to a fresh instance and evaluates the results of its retrospectives.

pub(super) mod comparison;
mod gate_counts;
pub(super) mod memories;
pub(super) mod runs;
pub(super) mod time;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::converted_run::ConvertedRun;
use crate::instance::Instance;

/// Number of runs to emit before waiting for the retrospective: the window size of the default policy.
const WINDOW_PACE: &str = "10";

/// Emits the runs of one workflow, `pace` at a time. `retro emit` uploads a body that is too large for a
/// message and sends a reference to it.
async fn emit_runs(
    retro: &Instance,
    folder: &Path,
    workflow: &str,
    runs: &[ConvertedRun],
    pace: &str,
) -> Result<()> {
    let file = folder.join(format!("{workflow}.jsonl"));
    let lines: Vec<String> = runs.iter().map(|run| run.to_event().to_string()).collect();
    fs::write(&file, lines.join("\n") + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    let path = file.to_str().context("the folder's name is not UTF-8")?;
    retro.run_json(&["emit", path, "--pause-every", pace]).await.map(|_| ())
}
