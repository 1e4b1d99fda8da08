//! Runs `retro rules`, which lists and shows the rules of repositories, and carries out what people decide about them.

use std::sync::Arc;

use retro_config::Config;
use retro_core::canonical::sha256_hex;
use retro_core::id::{MemoryId, ReviewBatchId};
use retro_core::learn::{DecisionRequest, LessonWording, RuleAddition};
use retro_operator::{MemoryCommand, RuleCommands, lists, load_memory_rows, reviews, terminal_columns};
use retro_store::{CommitResult, MemoryFilter, Store};
use retro_writer::Writer;
use tokio::sync::Notify;

use super::command_context::{CommandContext, print_found, resolve};
use super::memories::{
    MemoryNoun, change_memory, find_with_effect, hash_wording, print_changes, request_id, resolve_memory,
};
use crate::cli::{AttributedArgs, AuditArgs, ListRules, Noun, Rules};
use crate::clock::SystemClock;
use crate::exit::Exit;
use crate::operator_commands::{OperatorCommands, wait_until_handed_out};
use crate::policies::PolicySource;
use crate::{embedder, output};

const RULE: MemoryNoun =
    MemoryNoun { name: "rule", retired: "retired", tombstone_note: "; a tombstone blocks similar rules" };

pub(crate) async fn run_command(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    noun: &Noun<Rules, ListRules>,
) -> anyhow::Result<Exit> {
    let Some(command) = &noun.command else { return list_rules(context, &*store, &noun.list).await };
    match command {
        Rules::List(list) => list_rules(context, &*store, list).await,
        Rules::Add { repo, path, title, content, command } => {
            let wording = LessonWording { title: Some(title.clone()), content: content.clone() };
            let target = format!("{repo} {}", path.as_deref().unwrap_or_default());
            let request = build_request("add", &target, &wording, command)?;
            let addition =
                RuleAddition::in_words(repo.clone(), path.clone(), wording, decision_request(&request));
            add_rule(context, config, store, &addition, "added").await
        }
        Rules::Promote { remark: Some(remark), title, content, path, command, .. } => {
            let wording = LessonWording { title: title.clone(), content: content.clone() };
            let target = format!("{remark} {}", path.as_deref().unwrap_or_default());
            let request = build_request("promote", &target, &wording, command)?;
            let addition =
                RuleAddition::of_remark(remark.clone(), path.clone(), wording, decision_request(&request));
            add_rule(context, config, store, &addition, "promoted").await
        }
        Rules::Change(change) => change_memory(context, config, store, &RULE, change).await,
        Rules::Show { id } | Rules::Why { id } | Rules::Promote { id: Some(id), .. } => {
            match resolve_memory(context, &*store, RULE.name, *id).await? {
                Ok(id) => run_on_rule(context, config, store, id, command).await,
                Err(exit) => Ok(exit),
            }
        }
        Rules::Remarks { repo, kind, limit } => {
            let rule_scope = repo.as_ref().map(|repo| repo.rule_scope(context.tenant).workflow);
            let found =
                reviews::list_remarks(&*store, context.tenant, rule_scope.as_ref(), *kind, *limit as usize)
                    .await?;
            output::print_list(context.output, &found, |layout| reviews::render_remarks(&found, layout))?;
            Ok(Exit::Done)
        }
        Rules::Reports { id: Some(id), .. } => {
            let id = ReviewBatchId(resolve!(context, &*store, ReviewReport, *id));
            let found = store.find_review_report(context.tenant, id).await?;
            print_found(context, found, "report", &id, |report| {
                reviews::render_report(report, terminal_columns())
            })
        }
        Rules::Reports { id: None, repo, limit } => {
            let rule_scope = repo.as_ref().map(|repo| repo.rule_scope(context.tenant).workflow);
            let rows = store.list_review_reports(context.tenant, rule_scope.as_ref(), *limit).await?;
            output::print_list(context.output, &rows, |layout| reviews::render_reports(&rows, layout))?;
            Ok(Exit::Done)
        }
        Rules::Promote { id: None, remark: None, .. } => {
            unreachable!("clap requires an id or a remark to promote")
        }
    }
}

async fn run_on_rule(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    id: MemoryId,
    command: &Rules,
) -> anyhow::Result<Exit> {
    match command {
        Rules::Promote { command: AttributedArgs { act, request }, .. } => {
            promote_rule(context, config, store, id, act, request.as_deref()).await
        }
        Rules::Why { .. } => print_changes(context, &*store, id).await,
        _ => {
            let found = find_with_effect(context, &*store, id).await?;
            print_found(context, found, RULE.name, &id, retro_operator::render_memory)
        }
    }
}

async fn list_rules(
    context: &CommandContext<'_>,
    store: &dyn Store,
    ListRules { repo, status, held, limit }: &ListRules,
) -> anyhow::Result<Exit> {
    let workflow = repo.as_ref().map(|repo| repo.rule_scope(context.tenant).workflow);
    let filter = MemoryFilter {
        workflow,
        status: *status,
        rules_only: true,
        held: *held,
        limit: *limit,
        ..Default::default()
    };
    let memories = store.list_memories(context.tenant, &filter).await?;
    let rows = load_memory_rows(store, context.tenant, memories).await?;
    output::print_list(context.output, &rows, |layout| lists::render_rules(&rows, layout))?;
    Ok(Exit::Done)
}

/// Builds the writer, through which all changes to memories are made.
fn build_writer(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<Writer> {
    let policies = Arc::new(PolicySource::load(config.pipelines.as_deref())?);
    let outbox = Arc::new(Notify::new());
    let writer = Writer::new(store, policies, Arc::new(SystemClock), outbox);
    Ok(writer.with_vector_source(embedder::load_vector_source(config)?))
}

async fn promote_rule(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    id: MemoryId,
    act: &AuditArgs,
    request: Option<&str>,
) -> anyhow::Result<Exit> {
    let request = request_id("promote", id, act, request);
    let AuditArgs { by, reason } = act;
    let result = match build_writer(config, store.clone())?
        .promote_rule(context.tenant, id, &request, by, reason)
        .await?
    {
        Ok(CommitResult::Done) => "promoted",
        Ok(CommitResult::AlreadyDone) => "was already promoted by this request",
        Ok(CommitResult::NotFound) => {
            return print_found(context, None::<()>, "rule", &id, |()| String::new());
        }
        Err(problem) => anyhow::bail!("the rule cannot be promoted: {problem}"),
    };
    wait_until_handed_out(&*store).await;
    let answer = serde_json::json!({"memory": id, "request": request, "result": result});
    output::print_data(context.output, &answer, || format!("rule {id} {result}"))?;
    Ok(Exit::Done)
}

/// Adds a rule in the operator's words or from a remark, unless a rule says so already.
async fn add_rule(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    addition: &RuleAddition,
    done: &str,
) -> anyhow::Result<Exit> {
    let policies = Arc::new(PolicySource::load(config.pipelines.as_deref())?);
    let vectors = embedder::load_vector_source(config)?;
    let commands = OperatorCommands::new(store, policies, vectors, Arc::new(Notify::new()));
    let Some(added) = commands.add_rule(context.tenant, addition).await? else {
        let remark = addition.remark.as_ref().map(ToString::to_string).unwrap_or_default();
        return print_found(context, None::<()>, "remark", &remark, |()| String::new());
    };
    let added = match added {
        Ok(added) => added,
        Err(problem) => anyhow::bail!("the rule cannot be {done}: {problem}"),
    };
    let (id, held) = (added.rule.id, &added.rule.quarantine);
    let result = if added.done.changes.is_empty() { "says so already" } else { done };
    let request = &addition.request;
    let mut answer = serde_json::json!({"memory": id, "request": request, "result": result});
    if let Some(why) = held {
        answer["held"] = why.as_str().into();
    }
    let note = held.as_ref().map(|why| format!("; no agent is handed it until it is released: {why}"));
    output::print_data(context.output, &answer, || {
        format!("rule {id} {result}{}", note.unwrap_or_default())
    })?;
    Ok(Exit::Done)
}

/// Checks who asks and why, and names the request: as given, or derived from the arguments, so that repeating the
/// command changes nothing.
fn build_request(
    what: &str,
    target: &str,
    wording: &LessonWording,
    AttributedArgs { act: AuditArgs { by, reason }, request }: &AttributedArgs,
) -> anyhow::Result<MemoryCommand> {
    let derived = || {
        let text = format!("{target} {} {by} {reason}", hash_wording(wording));
        format!("{what}-{}", &sha256_hex(text.as_bytes())[..16])
    };
    Ok(MemoryCommand::new(request.clone().unwrap_or_else(derived), by, reason)?)
}

fn decision_request(MemoryCommand { request, by, reason }: &MemoryCommand) -> DecisionRequest<'_> {
    DecisionRequest { id: request, by, reason }
}
