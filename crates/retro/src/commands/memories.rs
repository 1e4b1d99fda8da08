//! Runs `retro memories`, which lists, shows, explains, compares and deletes memories.

use std::sync::Arc;

use retro_config::Config;
use retro_core::canonical::sha256_hex;
use retro_core::id::{MemoryId, MemoryRef};
use retro_operator::{
    MemoryEffectView, MemoryWithEffect, find_history_with_effect, find_memory_effect, lists,
    memory_with_effect, terminal_columns,
};
use retro_store::{CommitResult, MemoryFilter, Store, UnresolvedRef, resolve_memory_ref};
use retro_writer::Writer;
use tokio::sync::Notify;

use super::command_context::{CommandContext, print_found};
use crate::cli::Memories;
use crate::clock::SystemClock;
use crate::exit::Exit;
use crate::output;
use crate::policies::PolicySource;

pub(crate) async fn run_command(
    context: &CommandContext<'_>,
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
            let rows = store.list_memories(context.tenant, &filter).await?;
            output::print_data(context.output, &rows, || lists::render_memories(&rows, terminal_columns()))?;
            Ok(Exit::Done)
        }
        Memories::Show { id } => match resolve_memory(context, &*store, *id).await? {
            Ok(id) => print_found(
                context,
                find_with_effect(context, &*store, id).await?,
                "memory",
                &id,
                retro_operator::render_memory,
            ),
            Err(exit) => Ok(exit),
        },
        Memories::Why { id } => match resolve_memory(context, &*store, *id).await? {
            Ok(id) => print_changes(context, &*store, id).await,
            Err(exit) => Ok(exit),
        },
        Memories::Effect { id } => match resolve_memory(context, &*store, *id).await? {
            Ok(id) => {
                let effect = find_memory_effect(&*store, context.tenant, id).await?;
                print_found(context, effect, "memory", &id, MemoryEffectView::render_text)
            }
            Err(exit) => Ok(exit),
        },
        Memories::Delete { id, reason, request } => match resolve_memory(context, &*store, *id).await? {
            Ok(id) => delete_memory(context, config, store, id, reason, request.as_deref()).await,
            Err(exit) => Ok(exit),
        },
    }
}

/// Returns the id of the memory that `name` refers to, or the exit of the command if it matches no memory or
/// several.
pub(super) async fn resolve_memory(
    context: &CommandContext<'_>,
    store: &dyn Store,
    name: MemoryRef,
) -> anyhow::Result<Result<MemoryId, Exit>> {
    Ok(match resolve_memory_ref(store, context.tenant, name).await? {
        Ok(id) => Ok(id),
        Err(UnresolvedRef::Missing(name)) => {
            Err(print_found(context, None::<()>, "memory", &name, |()| String::new())?)
        }
        Err(ambiguous @ UnresolvedRef::Ambiguous(_)) => {
            output::print_notice(&format!("retro: {ambiguous}"));
            Err(Exit::UsageError)
        }
    })
}

/// Returns a memory with its measured effect, or `None` if it does not exist.
pub(super) async fn find_with_effect(
    context: &CommandContext<'_>,
    store: &dyn Store,
    id: MemoryId,
) -> anyhow::Result<Option<MemoryWithEffect>> {
    let Some(memory) = store.find_memory(context.tenant, id).await? else { return Ok(None) };
    Ok(Some(memory_with_effect(store, context.tenant, memory).await?))
}

pub(super) async fn print_changes(
    context: &CommandContext<'_>,
    store: &dyn Store,
    id: MemoryId,
) -> anyhow::Result<Exit> {
    let why = find_history_with_effect(store, context.tenant, id).await?;
    print_found(context, why, "memory", &id, |why| why.render_text(terminal_columns()))
}

/// Deletes a memory through the writer, like every change to a memory. A running relay sends the message.
async fn delete_memory(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    id: MemoryId,
    reason: &str,
    request: Option<&str>,
) -> anyhow::Result<Exit> {
    let policies = Arc::new(PolicySource::load(config.pipelines.as_deref())?);
    let outbox = Arc::new(Notify::new());
    let writer = Writer::new(store, policies, Arc::new(SystemClock), outbox);
    // Derived from the arguments, so repeating the command changes nothing.
    let derived = || format!("delete-{}", &sha256_hex(format!("{id} {reason}").as_bytes())[..16]);
    let request = request.map_or_else(derived, str::to_owned);
    let result = match writer.delete_memory(context.tenant, id, &request, reason).await? {
        Ok(CommitResult::Done) => "deleted",
        Ok(CommitResult::AlreadyDone) => "was already deleted by this request",
        Ok(CommitResult::NotFound) => {
            return print_found(context, None::<()>, "memory", &id, |()| String::new());
        }
        Err(problem) => anyhow::bail!("the memory cannot be deleted: {problem}"),
    };
    let answer = serde_json::json!({"memory": id, "request": request, "result": result});
    output::print_data(context.output, &answer, || {
        format!("memory {id} {result}; a tombstone blocks similar memories")
    })?;
    Ok(Exit::Done)
}
