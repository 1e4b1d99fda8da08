//! The embedder of the configuration, for whoever writes memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::anyhow;
use retro_bus::Role;
use retro_config::Config;
use retro_store::VectorSource;

/// The source of vectors that is configured; `None`: the built-in embedder. Reads weights, asks nobody.
pub(crate) fn source(config: &Config) -> anyhow::Result<Option<Arc<dyn VectorSource>>> {
    let configured = config.embedder().map_err(|(key, why)| anyhow!("{key} {why}"))?;
    Ok(retro_embed::source(configured)?)
}

/// The same for a process of these roles: only those by which memory is written, and requests of reviews are compared, have a
/// use for it.
pub(crate) fn of_roles(
    config: &Config,
    roles: &BTreeSet<Role>,
) -> anyhow::Result<Option<Arc<dyn VectorSource>>> {
    let compares = [Role::Writer, Role::Gateway, Role::Reviewer].iter().any(|role| roles.contains(role));
    if compares { source(config) } else { Ok(None) }
}

/// Whether it gives vectors now, by asking for one.
pub(crate) async fn looked_at(config: &Config) -> anyhow::Result<String> {
    let Some(source) = source(config)? else {
        return Ok("the built-in one".to_owned());
    };
    let made = source.embed(&["Retry once, then ask".to_owned()]).await;
    let vectors = made.map_err(|problem| {
        anyhow!(
            "{problem}; until it gives vectors texts are compared by the built-in one, and a process that runs \
             looks at least every 5 minutes whether it does"
        )
    })?;
    let components = vectors.first().map_or(0, Vec::len);
    Ok(format!("{}: {components} components, scale {}", source.name(), told(source.scale())))
}

fn told(scale: retro_core::similar::Scale) -> String {
    format!("{}, {}, {}", scale.contradiction, scale.tombstone, scale.merge)
}
