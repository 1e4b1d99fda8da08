//! Implements `make demo`: turns real runs into memories, then runs composed workflows whose agents request
//! context. Uses only the public interface: the `retro` binary and its HTTP API.

mod agent;
mod composed;
mod real;
mod summary;

use std::path::Path;

use anyhow::{Context, Result};
use retro_eval::instance::{Instance, find_release_binary};

/// Runs the demo in a fresh folder below the workspace root.
pub(crate) fn run(root: &Path, binary: Option<&Path>) -> Result<()> {
    let binary = binary.map_or_else(find_release_binary, |path| Ok(path.to_owned()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_demo(root, &binary))
}

async fn run_demo(root: &Path, binary: &Path) -> Result<()> {
    let folder = root.join(".demo");
    let retro = Instance::start(binary, &folder, &root.join("pipelines"), &[]).await?;
    println!(
        "Everything runs in {} (SQLite, a supervised nats-server, {}).\n",
        folder.display(),
        retro.http_url()
    );
    let emitted = real::emit_real_runs(&retro, &root.join("crates/tools/xtask/fixtures/demo")).await?;
    let composed = composed::run_composed_workflows(&retro, &folder).await?;
    retro.wait_until_idle().await?;
    summary::show_results(&retro, emitted + composed).await.context("showing the demo's results")?;
    retro.stop().await?;
    summary::print_next_steps(&folder);
    Ok(())
}
