//! The real runs: other people's agents, converted from public data (see the README beside the files).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::instance::Instance;

/// Sends every file, a window at a time, so that a newcomer sees retrospectives follow each other. Returns how many
/// events were sent.
pub(super) async fn emit(retro: &Instance, fixtures: &Path) -> Result<u64> {
    let mut files = files(fixtures)?;
    files.sort();
    println!("1. Real runs: {} files of {}", files.len(), fixtures.display());
    println!("   After every 10 runs of a workflow a retrospective looks at 4 of them, drawn at random.");
    let paths: Vec<&str> = files.iter().filter_map(|path| path.to_str()).collect();
    let mut arguments = vec!["emit", "--pace", "10"];
    arguments.extend(&paths);
    let sent = retro.ask(&arguments).await?;
    for (workflow, runs) in sent["workflows"].as_object().into_iter().flatten() {
        println!("   sent {runs} runs of {workflow}");
    }
    sent["sent"].as_u64().context("`retro emit` said nothing of `sent`")
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.to_string_lossy().ends_with(".jsonl.zst")).collect())
}
