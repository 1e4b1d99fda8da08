//! Serves an agent over the Model Context Protocol on stdin and stdout.

use std::sync::Arc;
use std::time::Duration;

use retro_config::Config;
use retro_gateway::Gateway;
use retro_mcp::MemoryServer;

use super::command_context::CommandContext;
use crate::exit::Exit;
use crate::policies::PolicySource;
use crate::{embedder, store};

/// Serves until the client closes stdin. A database that is not there yet, or not any more, gives answers without
/// memories: the agent goes on, and gets them once the database is back.
pub(super) async fn run_command(context: &CommandContext<'_>, config: &Config) -> anyhow::Result<Exit> {
    let agents = store::build_lazy_stores(config)?.agents;
    let policies = Arc::new(PolicySource::load(config.pipelines.as_deref())?);
    let gateway = Gateway::new(agents.clone(), policies);
    let gateway = gateway.with_timeout(Duration::from_millis(config.context_timeout_ms));
    let gateway = match embedder::load_vector_source(config)? {
        Some(source) => gateway.with_embedder(source, agents),
        None => gateway,
    };
    retro_mcp::serve_stdio(MemoryServer::new(gateway, context.tenant.clone())).await?;
    Ok(Exit::Done)
}
