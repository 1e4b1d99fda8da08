//! Builds a gateway in the process of a command.

use std::sync::Arc;
use std::time::Duration;

use retro_config::Config;
use retro_gateway::Gateway;
use retro_store::Store;

use crate::embedder;
use crate::policies::PolicySource;

/// Builds a gateway that answers like a running one, with the configured embedder if it has a task to compare.
pub(super) fn build_gateway(
    config: &Config,
    store: &Arc<dyn Store>,
    has_task: bool,
) -> anyhow::Result<Gateway> {
    let policies = Arc::new(PolicySource::load(config.pipelines.as_deref())?);
    let gateway = Gateway::new(store.clone(), policies);
    let gateway = gateway.with_timeout(Duration::from_millis(config.context_timeout_ms));
    let source = if has_task { embedder::load_vector_source(config)? } else { None };
    Ok(match source {
        Some(source) => gateway.with_embedder(source, store.clone()),
        None => gateway,
    })
}
