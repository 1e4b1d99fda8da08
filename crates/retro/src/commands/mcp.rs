//! Serves an agent over the Model Context Protocol on stdin and stdout.

use std::sync::Arc;
use std::time::Duration;

use retro_config::Config;
use retro_gateway::Gateway;
use retro_mcp::MemoryServer;
use tokio::sync::Notify;

use super::command_context::CommandContext;
use crate::exit::Exit;
use crate::operator_commands::OperatorCommands;
use crate::policies::PolicySource;
use crate::store::Stores;
use crate::{embedder, store};

/// Serves until the client closes stdin. A database that is not there yet, or not any more, gives answers without
/// memories: the agent goes on, and gets them once the database is back.
pub(super) async fn run_command(context: &CommandContext<'_>, config: &Config) -> anyhow::Result<Exit> {
    let Stores { store, agents } = store::build_lazy_stores(config)?;
    let policies = Arc::new(PolicySource::load(config.pipelines.as_deref())?);
    let gateway = Gateway::new(agents.clone(), policies.clone());
    let gateway = gateway.with_timeout(Duration::from_millis(config.context_timeout_ms));
    let vectors = embedder::load_vector_source(config)?;
    let gateway = match &vectors {
        Some(source) => gateway.with_embedder(source.clone(), agents),
        None => gateway,
    };
    let writer = OperatorCommands::new(store, policies, vectors, Arc::new(Notify::new()));
    let server = MemoryServer::new(gateway, context.tenant.clone()).with_saver(Arc::new(writer));
    Box::pin(retro_mcp::serve_stdio(server)).await?;
    Ok(Exit::Done)
}
