//! `make demo`: the main job on real runs, then a composed workflow whose agents ask for context, before a
//! newcomer's eyes. Everything goes through the public interface: the `retro` binary and its HTTP side.

mod acts;
mod agent;
mod real;
mod shown;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::instance::Instance;

/// The tenant that everything of the demo belongs to.
const TENANT: &str = "default";

/// Runs the demo in a fresh folder below the project's root; ends by itself.
pub(crate) fn run(root: &Path, binary: Option<&Path>) -> Result<()> {
    let binary = binary.map_or_else(built, |path| Ok(path.to_owned()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(tell(root, &binary))
}

/// The release build, wherever cargo was told to put it.
pub(crate) fn built() -> Result<PathBuf> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    let path = metadata.target_directory.join("release/retro").into_std_path_buf();
    ensure!(path.exists(), "{} is missing: run `make demo`, which builds it", path.display());
    Ok(path)
}

async fn tell(root: &Path, binary: &Path) -> Result<()> {
    let folder = root.join(".demo");
    let retro = Instance::start(binary, &folder, &root.join("pipelines"), &[]).await?;
    println!(
        "Everything runs in {} (SQLite, a supervised nats-server, {}).\n",
        folder.display(),
        retro.http_url()
    );
    let emitted = real::emit(&retro, &root.join("crates/xtask/fixtures/demo")).await?;
    let composed = acts::play(&retro, &folder).await?;
    retro.wait_until_still().await?;
    shown::everything(&retro, emitted + composed).await.context("the demo ran, and could not be shown")?;
    retro.stop().await?;
    shown::what_next(&folder);
    Ok(())
}
