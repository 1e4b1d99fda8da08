//! `retro memories`: list, show, why, effect, delete.

use std::sync::Arc;

use retro_config::Config;
use retro_core::canonical::sha256_hex;
use retro_core::id::{MemoryId, MemoryRef};
use retro_core::memory::Memory;
use retro_operator::{
    Effect, WithEffect, lists, memory_effect, memory_with_effect, terminal_columns, why_with_effect,
};
use retro_store::{MemoryFilter, Step, Store, Unnamed, resolve};
use retro_writer::Writer;
use tokio::sync::Notify;

use super::Exit;
use super::read::{Asked, shown};
use crate::cli::Memories;
use crate::clock::SystemClock;
use crate::output;
use crate::policies::PolicyBook;

pub(crate) async fn run(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    command: &Memories,
) -> anyhow::Result<Exit> {
    match command {
        Memories::List { workflow, step, status, limit } => {
            let filter = MemoryFilter {
                workflow: workflow.clone(),
                step: step.clone(),
                status: *status,
                limit: *limit,
                ..Default::default()
            };
            let rows = store.memories(asked.tenant, &filter).await?;
            output::data(asked.output, &rows, || lists::memories(&rows, terminal_columns()))?;
            Ok(Exit::Done)
        }
        Memories::Show { id } => match meant(asked, &*store, *id).await? {
            Ok(id) => shown(asked, in_full(asked, &*store, id).await?, "memory", &id, retro_operator::memory),
            Err(exit) => Ok(exit),
        },
        Memories::Why { id } => match meant(asked, &*store, *id).await? {
            Ok(id) => why(asked, &*store, id).await,
            Err(exit) => Ok(exit),
        },
        Memories::Effect { id } => match meant(asked, &*store, *id).await? {
            Ok(id) => {
                let effect = memory_effect(&*store, asked.tenant, id).await?;
                shown(asked, effect, "memory", &id, Effect::text)
            }
            Err(exit) => Ok(exit),
        },
        Memories::Delete { id, reason, request } => match meant(asked, &*store, *id).await? {
            Ok(id) => delete(asked, config, store, id, reason, request.as_deref()).await,
            Err(exit) => Ok(exit),
        },
    }
}

/// The memory that was named, or how the command ends without one.
pub(super) async fn meant(
    asked: &Asked<'_>,
    store: &dyn Store,
    name: MemoryRef,
) -> anyhow::Result<Result<MemoryId, Exit>> {
    Ok(match resolve(store, asked.tenant, name).await? {
        Ok(id) => Ok(id),
        Err(Unnamed::Missing(name)) => Err(shown(asked, None::<()>, "memory", &name, |()| String::new())?),
        Err(ambiguous @ Unnamed::Ambiguous(_)) => {
            output::told(&format!("retro: {ambiguous}"));
            Err(Exit::WrongUsage)
        }
    })
}

/// A memory, and what it does.
pub(super) async fn in_full(
    asked: &Asked<'_>,
    store: &dyn Store,
    id: MemoryId,
) -> anyhow::Result<Option<WithEffect<Memory>>> {
    let Some(memory) = store.memory(asked.tenant, id).await? else { return Ok(None) };
    Ok(Some(memory_with_effect(store, asked.tenant, memory).await?))
}

pub(super) async fn why(asked: &Asked<'_>, store: &dyn Store, id: MemoryId) -> anyhow::Result<Exit> {
    let why = why_with_effect(store, asked.tenant, id).await?;
    shown(asked, why, "memory", &id, |why| why.text(terminal_columns()))
}

/// Deletes through the writer, like everything that changes memory. Works beside a running `retro up`, which sends
/// the announcement.
async fn delete(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    id: MemoryId,
    reason: &str,
    request: Option<&str>,
) -> anyhow::Result<Exit> {
    let policies = Arc::new(PolicyBook::load(config.pipelines.as_deref())?);
    let outbox = Arc::new(Notify::new());
    let writer = Writer::new(store, policies, Arc::new(SystemClock), outbox);
    let derived = || format!("delete-{}", &sha256_hex(format!("{id} {reason}").as_bytes())[..16]);
    let request = request.map_or_else(derived, str::to_owned);
    let did = match writer.delete(asked.tenant, id, &request, reason).await? {
        Ok(Step::Done) => "deleted",
        Ok(Step::AlreadyDone) => "had been deleted by this request before",
        Ok(Step::Unknown) => return shown(asked, None::<()>, "memory", &id, |()| String::new()),
        Err(problem) => anyhow::bail!("the memory cannot be deleted: {problem}"),
    };
    let answer = serde_json::json!({"memory": id, "request": request, "did": did});
    output::data(asked.output, &answer, || {
        format!("memory {id} {did}; a tombstone keeps anything similar away")
    })?;
    Ok(Exit::Done)
}
