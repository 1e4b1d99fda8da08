//! Runs `retro pipeline versions`, and finds stored versions for the other commands.

use anyhow::{Context as _, bail};
use retro_config::{Config, Pipeline};
use retro_core::id::Tenant;
use retro_core::pipeline::{PipelineContents, PipelineHash, PipelineName};
use retro_operator::PipelineVersions;
use retro_store::Store;

use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::{output, store};

/// Maximum number of versions that are listed.
pub(super) const LISTED_MAX: u32 = 200;

/// Minimum number of digits that name a version: fewer are a typing error rather than a name.
const DIGITS_MIN: usize = 4;

/// Lists the stored versions with their quality.
pub(super) async fn print_versions(context: &CommandContext<'_>, config: &Config) -> anyhow::Result<Exit> {
    let stored = store::open_store(config).await?;
    // A folder with a mistake has no version; the log of the process that reads it says so.
    let pipeline = Pipeline::read_folder(config.pipelines.as_deref()).ok();
    let current =
        |name: PipelineName| pipeline.as_ref().map(|one| one.version_of(name).hashes().pipeline.clone());
    let versions = PipelineVersions::load(&*stored, context.tenant, LISTED_MAX, current).await?;
    output::print_list(context.output, &versions, |layout| versions.render(layout))?;
    Ok(Exit::Done)
}

/// A stored version of a pipeline.
pub(super) struct StoredVersion {
    pub(super) pipeline: PipelineName,
    pub(super) hash: PipelineHash,
    pub(super) contents: PipelineContents,
}

/// Loads the only stored version whose hash begins with the digits. Fails if they are fewer than
/// [`DIGITS_MIN`], or if there are none or several.
pub(super) async fn load_version(
    stored: &dyn Store,
    tenant: &Tenant,
    digits: &str,
) -> anyhow::Result<StoredVersion> {
    if digits.len() < DIGITS_MIN {
        bail!("`{digits}` names no version; give at least {DIGITS_MIN} digits of its hash");
    }
    let hashes = stored.find_pipelines(tenant, digits).await?;
    let (pipeline, hash) = match &hashes[..] {
        [found] => found.clone(),
        [] => bail!(
            "no stored version has a hash that begins with {digits}; `retro pipeline versions` lists them"
        ),
        [(_, one), (_, other), ..] => {
            bail!("{digits} is the beginning of several hashes, such as {one} and {other}; give more digits")
        }
    };
    let contents = stored.load_pipeline(tenant, pipeline, &hash).await?;
    Ok(StoredVersion { pipeline, hash, contents: contents.context("versions are never deleted")? })
}
