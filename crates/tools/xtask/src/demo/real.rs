//! Emits real runs of other people's agents, converted from public data. The README next to the files names
//! the sources.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use retro_eval::instance::Instance;

/// Emits every file one window at a time, so a viewer sees one retrospective after another. Returns the
/// number of events sent.
pub(super) async fn emit_real_runs(retro: &Instance, fixtures: &Path) -> Result<u64> {
    let mut files = list_run_files(fixtures)?;
    files.sort();
    println!("1. Real runs: {} files of {}", files.len(), fixtures.display());
    println!(
        "   After every 10 runs of a workflow, a retrospective investigates 4 of them, drawn at random."
    );
    let paths: Vec<&str> = files.iter().filter_map(|path| path.to_str()).collect();
    let mut arguments = vec!["emit", "--pause-every", "10"];
    arguments.extend(&paths);
    let sent = retro.run_json(&arguments).await?;
    for (workflow, runs) in sent["workflows"].as_object().into_iter().flatten() {
        println!("   sent {runs} runs of {workflow}");
    }
    sent["sent"].as_u64().context("`retro emit` printed no `sent`")
}

fn list_run_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.to_string_lossy().ends_with(".jsonl.zst")).collect())
}
