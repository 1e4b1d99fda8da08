//! Runs `retro memories`, which lists, shows, explains and compares memories, and carries out what people decide
//! about them.

use std::sync::Arc;

use retro_config::Config;
use retro_core::audience::Audience;
use retro_core::canonical::sha256_hex;
use retro_core::id::{MemoryId, MemoryRef, Step, WorkflowKey};
use retro_core::learn::{LessonWording, MemoryDecision};
use retro_core::memory::MemoryScope;
use retro_gateway::{FeedbackRecording, FeedbackRequest, store_feedback};
use retro_operator::{
    MemoryCommand, MemoryCommandError, MemoryCommandOutcome, MemoryCommands, MemoryEffectView,
    MemoryWithEffect, find_history_with_effect, find_memory_effect, lists, load_memory_rows,
    memory_with_effect, terminal_columns,
};
use retro_store::{CommitResult, MemoryFilter, Store, UnresolvedRef, resolve_memory_ref};
use tokio::sync::Notify;

use super::command_context::{CommandContext, print_found};
use super::nearest_name::print_unknown_name;
use super::search;
use crate::cli::{
    AttributedArgs, AuditArgs, FeedbackArgs, ListMemories, Memories, MemoryChanges, MemoryCommandArgs, Noun,
};
use crate::exit::Exit;
use crate::operator_commands::OperatorCommands;
use crate::policies::PolicySource;
use crate::{embedder, output};

pub(crate) async fn run_command(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    noun: &Noun<Memories, ListMemories>,
) -> anyhow::Result<Exit> {
    let Some(command) = &noun.command else { return list_memories(context, &*store, &noun.list).await };
    match command {
        Memories::List(list) => list_memories(context, &*store, list).await,
        Memories::Search(args) => search::search_memories(context, config, &store, args).await,
        Memories::Show { id } => match resolve_memory(context, &*store, MEMORY.name, *id).await? {
            Ok(id) => print_found(
                context,
                find_with_effect(context, &*store, id).await?,
                "memory",
                &id,
                retro_operator::render_memory,
            ),
            Err(exit) => Ok(exit),
        },
        Memories::Why { id } => match resolve_memory(context, &*store, MEMORY.name, *id).await? {
            Ok(id) => print_changes(context, &*store, id).await,
            Err(exit) => Ok(exit),
        },
        Memories::Effect { id } => match resolve_memory(context, &*store, MEMORY.name, *id).await? {
            Ok(id) => {
                let effect = find_memory_effect(&*store, context.tenant, id).await?;
                print_found(context, effect, "memory", &id, MemoryEffectView::render_text)
            }
            Err(exit) => Ok(exit),
        },
        Memories::Add { workflow, step, repo, title, content, command } => {
            let wording = LessonWording { title: Some(title.clone()), content: content.clone() };
            let key = WorkflowKey { tenant: context.tenant.clone(), workflow: workflow.clone() };
            let audience = repo.clone().map_or(Audience::Everyone, Audience::Repository);
            let scope = MemoryScope::Step { workflow: workflow.clone(), step: step.clone(), audience };
            add_memory(context, config, store, &key, &scope, &wording, command).await
        }
        Memories::Feedback(args) => give_feedback(context, &*store, args).await,
        Memories::Change(change) => change_memory(context, config, store, &MEMORY, change).await,
    }
}

async fn list_memories(
    context: &CommandContext<'_>,
    store: &dyn Store,
    ListMemories { workflow, step, status, held, limit }: &ListMemories,
) -> anyhow::Result<Exit> {
    let filter = MemoryFilter {
        workflow: workflow.clone(),
        step: step.clone(),
        status: *status,
        held: *held,
        limit: *limit,
        ..Default::default()
    };
    let memories = store.list_memories(context.tenant, &filter).await?;
    let rows = load_memory_rows(store, context.tenant, memories).await?;
    if rows.is_empty() {
        print_unknown_name(context, store, workflow.as_ref(), step.as_ref()).await?;
    }
    output::print_list(context.output, &rows, |layout| lists::render_memories(&rows, layout))?;
    Ok(Exit::Done)
}

/// Carries out a command that changes one memory or rule.
pub(super) async fn change_memory(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    noun: &MemoryNoun,
    change: &MemoryChanges,
) -> anyhow::Result<Exit> {
    let (args, decision) = match change {
        MemoryChanges::Edit { target, title, content } => {
            let wording = LessonWording { title: title.clone(), content: content.clone() };
            (target, MemoryDecision::Revise(wording))
        }
        MemoryChanges::Pin(args) => (args, MemoryDecision::Pin),
        MemoryChanges::Unpin(args) => (args, MemoryDecision::Unpin),
        MemoryChanges::Disable(args) => (args, MemoryDecision::Disable),
        MemoryChanges::Enable(args) => (args, MemoryDecision::Enable),
        MemoryChanges::Restore(args) => (args, MemoryDecision::Restore),
        MemoryChanges::Release(args) => return release_memory(context, config, store, noun, args).await,
        MemoryChanges::Retire(args) => return retire_memory(context, config, store, noun, args).await,
    };
    decide_memory(context, config, store, noun, args, &decision).await
}

/// Releases a memory or a rule that is held.
async fn release_memory(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    noun: &MemoryNoun,
    MemoryCommandArgs { id, command }: &MemoryCommandArgs,
) -> anyhow::Result<Exit> {
    let id = match resolve_memory(context, &*store, noun.name, *id).await? {
        Ok(id) => id,
        Err(exit) => return Ok(exit),
    };
    let command = build_command("release", id, &command.act, command.request.as_deref())?;
    let outcome = build_commands(config, store)?.release_memory(context.tenant, id.into(), &command).await?;
    print_outcome(context, id, &command, outcome, &result_words(noun, "released", ""))
}

/// Disables, enables, pins, unpins, restores or edits a memory or a rule.
async fn decide_memory(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    noun: &MemoryNoun,
    target: &MemoryCommandArgs,
    decision: &MemoryDecision,
) -> anyhow::Result<Exit> {
    let id = match resolve_memory(context, &*store, noun.name, target.id).await? {
        Ok(id) => id,
        Err(exit) => return Ok(exit),
    };
    let AttributedArgs { act, request } = &target.command;
    let (verb, words) = match decision {
        MemoryDecision::Disable => {
            ("disable".to_owned(), result_words(noun, "disabled", "; no agent is handed it"))
        }
        MemoryDecision::Enable => ("enable".to_owned(), result_words(noun, "enabled", "")),
        MemoryDecision::Pin => ("pin".to_owned(), result_words(noun, "pinned", "; it does not fade")),
        MemoryDecision::Unpin => ("unpin".to_owned(), result_words(noun, "unpinned", "")),
        MemoryDecision::Restore => {
            ("restore".to_owned(), result_words(noun, "restored", "; its tombstone is lifted"))
        }
        // Other words are another request.
        MemoryDecision::Revise(wording) => {
            (format!("edit-{}", hash_wording(wording)), result_words(noun, "edited", ""))
        }
    };
    let command = build_command(&verb, id, act, request.as_deref())?;
    let commands = build_commands(config, store)?;
    let outcome = commands.decide_memory(context.tenant, id.into(), decision, &command).await?;
    print_outcome(context, id, &command, outcome, &words)
}

/// Adds a memory in the operator's words, unless a memory says so already.
async fn add_memory(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    key: &WorkflowKey,
    scope: &MemoryScope,
    wording: &LessonWording,
    args: &AttributedArgs,
) -> anyhow::Result<Exit> {
    let AttributedArgs { act: AuditArgs { by, reason }, request } = args;
    let derived = || {
        let of_repo = scope.audience().filter(|audience| !audience.is_everyone());
        let of_repo =
            of_repo.map(|audience| format!(" {}", String::from(audience.clone()))).unwrap_or_default();
        let step = scope.step().map(Step::as_str).unwrap_or_default();
        let text = format!("{} {step}{of_repo} {} {by} {reason}", key.workflow, hash_wording(wording));
        format!("add-{}", &sha256_hex(text.as_bytes())[..16])
    };
    let command = MemoryCommand::new(request.clone().unwrap_or_else(derived), by, reason)?;
    let policies = Arc::new(PolicySource::load(config.pipelines.as_deref())?);
    let vectors = embedder::load_vector_source(config)?;
    let commands = OperatorCommands::new(store, policies, vectors, Arc::new(Notify::new()));
    let (id, result) = match commands.add_memory(key, scope, wording, &command).await? {
        Ok((id, CommitResult::Done)) => (id, "added"),
        Ok((id, _)) => (id, "says so already"),
        Err(problem) => anyhow::bail!("the memory cannot be added: {}", problem.problem()),
    };
    let answer = serde_json::json!({"memory": id, "request": command.request, "result": result});
    output::print_data(context.output, &answer, || format!("memory {id} {result}"))?;
    Ok(Exit::Done)
}

/// Stores what somebody says of a memory or a rule.
async fn give_feedback(
    context: &CommandContext<'_>,
    store: &dyn Store,
    args: &FeedbackArgs,
) -> anyhow::Result<Exit> {
    let FeedbackArgs { id, verdict, why, run, workflow, step, by } = args;
    let id = match resolve_memory(context, store, MEMORY.name, *id).await? {
        Ok(id) => id,
        Err(exit) => return Ok(exit),
    };
    let request = FeedbackRequest {
        memory: id.into(),
        verdict: *verdict,
        why: why.clone(),
        run: run.clone(),
        workflow: workflow.clone(),
        step: step.clone(),
        by: by.clone(),
        source: None,
    };
    let given = request.to_given(id)?;
    let Some(answer) = store_feedback(store, context.tenant, &given).await? else {
        return print_found(context, None::<()>, MEMORY.name, &id, |()| String::new());
    };
    output::print_data(context.output, &answer, || match answer.recorded {
        FeedbackRecording::Recorded => format!("recorded; {}", answer.reason),
        FeedbackRecording::AlreadyRecorded => "already recorded".to_owned(),
        FeedbackRecording::Refused | FeedbackRecording::Unknown => format!("not recorded: {}", answer.reason),
    })?;
    Ok(match answer.recorded {
        FeedbackRecording::Refused | FeedbackRecording::Unknown => Exit::ProblemFound,
        _ => Exit::Done,
    })
}

/// Returns a part of a request's id that differs for other words.
pub(super) fn hash_wording(wording: &LessonWording) -> String {
    let text = serde_json::json!([wording.title, wording.content]).to_string();
    sha256_hex(text.as_bytes())[..8].to_owned()
}

const fn result_words(noun: &MemoryNoun, done: &'static str, note: &'static str) -> ResultWords {
    ResultWords { noun: noun.name, done, note }
}

/// Words in which the commands about memories, or those about rules, speak of one.
pub(super) struct MemoryNoun {
    /// Name of it: `memory` or `rule`.
    pub(super) name: &'static str,
    /// Result of its retirement.
    pub(super) retired: &'static str,
    /// What follows from its retirement.
    pub(super) tombstone_note: &'static str,
}

/// The result is called a deletion, since scripts that call the command by its older name read it.
const MEMORY: MemoryNoun = MemoryNoun {
    name: "memory",
    retired: "deleted",
    tombstone_note: "; a tombstone blocks similar memories",
};

/// Words in which a command reports its result.
struct ResultWords {
    /// What the command is about: memory or rule.
    noun: &'static str,
    /// What happened to it, such as `deleted`.
    done: &'static str,
    /// What follows from it; empty if nothing does.
    note: &'static str,
}

/// Returns the id of the memory that `name` refers to, or the exit of the command if it matches no memory or
/// several.
pub(super) async fn resolve_memory(
    context: &CommandContext<'_>,
    store: &dyn Store,
    noun: &str,
    name: MemoryRef,
) -> anyhow::Result<Result<MemoryId, Exit>> {
    Ok(match resolve_memory_ref(store, context.tenant, name).await? {
        Ok(id) => Ok(id),
        Err(UnresolvedRef::Missing(name)) => {
            Err(print_found(context, None::<()>, noun, &name, |()| String::new())?)
        }
        Err(ambiguous @ UnresolvedRef::Ambiguous(..)) => {
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

/// Retires a memory or a rule through the writer, like every change to a memory. A running relay sends the
/// message.
async fn retire_memory(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    noun: &MemoryNoun,
    MemoryCommandArgs { id, command }: &MemoryCommandArgs,
) -> anyhow::Result<Exit> {
    let id = match resolve_memory(context, &*store, noun.name, *id).await? {
        Ok(id) => id,
        Err(exit) => return Ok(exit),
    };
    let command = build_command("retire", id, &command.act, command.request.as_deref())?;
    let outcome = build_commands(config, store)?.retire_memory(context.tenant, id.into(), &command).await?;
    print_outcome(context, id, &command, outcome, &result_words(noun, noun.retired, noun.tombstone_note))
}

fn build_commands(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<OperatorCommands> {
    let policies = Arc::new(PolicySource::load(config.pipelines.as_deref())?);
    // No lessons are compared, so no source of vectors is needed.
    Ok(OperatorCommands::new(store, policies, None, Arc::new(Notify::new())))
}

fn build_command(
    what: &str,
    id: MemoryId,
    act: &AuditArgs,
    request: Option<&str>,
) -> anyhow::Result<MemoryCommand> {
    let AuditArgs { by, reason } = act;
    Ok(MemoryCommand::new(request_id(what, id, act, request), by, reason)?)
}

/// Returns the id of a request: as given, or derived from the arguments, so that repeating the command changes
/// nothing.
pub(super) fn request_id(what: &str, id: MemoryId, act: &AuditArgs, request: Option<&str>) -> String {
    let AuditArgs { by, reason } = act;
    let derived = || format!("{what}-{}", &sha256_hex(format!("{id} {by} {reason}").as_bytes())[..16]);
    request.map_or_else(derived, str::to_owned)
}

fn print_outcome(
    context: &CommandContext<'_>,
    id: MemoryId,
    command: &MemoryCommand,
    outcome: MemoryCommandOutcome,
    words: &ResultWords,
) -> anyhow::Result<Exit> {
    let ResultWords { noun, done, note } = words;
    let result = match outcome {
        Ok((_, CommitResult::Done)) => (*done).to_owned(),
        Ok((_, CommitResult::AlreadyDone)) => format!("was already {done} by this request"),
        Ok((_, CommitResult::NotFound)) | Err(MemoryCommandError::Unresolved(_)) => {
            return print_found(context, None::<()>, noun, &id, |()| String::new());
        }
        Err(problem) => anyhow::bail!("the {noun} cannot be {done}: {}", problem.problem()),
    };
    let answer = serde_json::json!({"memory": id, "request": command.request, "result": result});
    output::print_data(context.output, &answer, || format!("{noun} {id} {result}{note}"))?;
    Ok(Exit::Done)
}
