//! Implements `make demo`: turns real runs into memories, then runs composed workflows whose agents request
//! context. Uses only the public interface: the `retro` binary and its HTTP API.

mod agent;
mod composed;
mod real;
mod summary;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::instance::Instance;

/// Tenant of the demo's runs.
const TENANT: &str = "default";

/// Runs the demo in a fresh folder below the workspace root.
pub(crate) fn run(root: &Path, binary: Option<&Path>) -> Result<()> {
    let binary = binary.map_or_else(find_release_binary, |path| Ok(path.to_owned()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_demo(root, &binary))
}

/// Returns the path of the release build in cargo's target folder. Fails if there is no such build.
pub(crate) fn find_release_binary() -> Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    let path = metadata.target_directory.join("release/retro").into_std_path_buf();
    ensure!(path.exists(), "{} is missing: run `make demo`, which builds it", path.display());
    Ok(path)
}

async fn run_demo(root: &Path, binary: &Path) -> Result<()> {
    let folder = root.join(".demo");
    let retro = Instance::start(binary, &folder, &root.join("pipelines"), &[]).await?;
    println!(
        "Everything runs in {} (SQLite, a supervised nats-server, {}).\n",
        folder.display(),
        retro.http_url()
    );
    let emitted = real::emit_real_runs(&retro, &root.join("crates/xtask/fixtures/demo")).await?;
    let composed = composed::run_composed_workflows(&retro, &folder).await?;
    retro.wait_until_idle().await?;
    summary::show_results(&retro, emitted + composed).await.context("showing the demo's results")?;
    retro.stop().await?;
    summary::print_next_steps(&folder);
    Ok(())
}
