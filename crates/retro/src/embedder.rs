//! Loads the configured embedder for the roles that compare lessons.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::anyhow;
use retro_bus::Role;
use retro_config::Config;
use retro_store::EmbeddingSource;

use crate::outgoing::build_outgoing_http;

/// Returns the configured embedding source, or `None` for the built-in embedder. May read model weights, but
/// sends no request.
pub(crate) fn load_vector_source(config: &Config) -> anyhow::Result<Option<Arc<dyn EmbeddingSource>>> {
    let configured = config.embedder().map_err(|(key, why)| anyhow!("{key} {why}"))?;
    Ok(retro_embed::build_source(configured, &build_outgoing_http(config)?)?)
}

/// Fails if this program was built without the configured kind of embedder. Reads no weights.
pub(crate) fn check_support(config: &Config) -> anyhow::Result<()> {
    let configured = config.embedder().map_err(|(key, why)| anyhow!("{key} {why}"))?;
    Ok(retro_embed::check_support(&configured)?)
}

/// Returns the configured embedding source if any of these roles needs one, otherwise `None`. The writer and
/// the gateway compare memories, and the reviewer compares the requests made in reviews.
pub(crate) fn load_for_roles(
    config: &Config,
    roles: &BTreeSet<Role>,
) -> anyhow::Result<Option<Arc<dyn EmbeddingSource>>> {
    let compares = [Role::Writer, Role::Gateway, Role::Reviewer].iter().any(|role| roles.contains(role));
    if compares { load_vector_source(config) } else { Ok(None) }
}

/// Requests one embedding and describes the embedder. Fails if the source returns none.
pub(crate) async fn check_embedder(config: &Config) -> anyhow::Result<String> {
    let Some(source) = load_vector_source(config)? else {
        return Ok("the built-in embedder".to_owned());
    };
    let embedded = source.embed(&["Retry once, then ask".to_owned()]).await;
    let vectors = embedded.map_err(|problem| {
        anyhow!(
            "{problem}; until it returns vectors, texts are compared by the built-in embedder, and a running process \
             retries at least every 5 minutes"
        )
    })?;
    let components = vectors.first().map_or(0, Vec::len);
    Ok(format!("{}: {components} components, scale {}", source.name(), format_scale(source.scale())))
}

fn format_scale(scale: retro_core::similarity::SimilarityScale) -> String {
    format!("{}, {}, {}", scale.contradiction, scale.tombstone, scale.merge)
}
