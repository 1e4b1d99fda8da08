//! Runs `retro rules`, which lists, shows, promotes and retires the rules learned from reviews.

use std::sync::Arc;

use retro_config::Config;
use retro_core::id::MemoryId;
use retro_operator::{lists, reviews, terminal_columns};
use retro_store::{CommitResult, MemoryFilter, Store};
use retro_writer::Writer;
use tokio::sync::Notify;

use super::command_context::{CommandContext, print_found};
use super::memories::{
    ResultWords, find_with_effect, print_changes, request_id, resolve_memory, retire_memory,
};
use crate::cli::{AuditArgs, Rules};
use crate::clock::SystemClock;
use crate::exit::Exit;
use crate::policies::PolicySource;
use crate::{embedder, output};

const RETIRED_RULE: ResultWords =
    ResultWords { noun: "rule", done: "retired", note: "; a tombstone blocks similar rules" };

pub(crate) async fn run_command(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    command: &Rules,
) -> anyhow::Result<Exit> {
    let id = match command {
        Rules::List { .. } | Rules::Reports { .. } => None,
        Rules::Show { id } | Rules::Why { id } | Rules::Promote { id, .. } | Rules::Retire { id, .. } => {
            match resolve_memory(context, &*store, *id).await? {
                Ok(id) => Some(id),
                Err(exit) => return Ok(exit),
            }
        }
    };
    match (command, id) {
        (Rules::Show { .. }, Some(id)) => print_found(
            context,
            find_with_effect(context, &*store, id).await?,
            "rule",
            &id,
            retro_operator::render_memory,
        ),
        (Rules::Why { .. }, Some(id)) => print_changes(context, &*store, id).await,
        (Rules::Promote { act, request, .. }, Some(id)) => {
            promote_rule(context, config, store, id, act, request.as_deref()).await
        }
        (Rules::Retire { act, request, .. }, Some(id)) => {
            retire_memory(context, config, store, id, act, request.as_deref(), &RETIRED_RULE).await
        }
        _ => print_list(context, &*store, command).await,
    }
}

async fn print_list(
    context: &CommandContext<'_>,
    store: &dyn Store,
    command: &Rules,
) -> anyhow::Result<Exit> {
    match command {
        Rules::Reports { id: Some(id), .. } => {
            let found = store.find_review_report(context.tenant, *id).await?;
            print_found(context, found, "report", id, |report| {
                reviews::render_report(report, terminal_columns())
            })
        }
        Rules::Reports { repo, limit, .. } => {
            let rule_scope = repo.as_ref().map(|repo| repo.rule_scope(context.tenant).workflow);
            let rows = store.list_review_reports(context.tenant, rule_scope.as_ref(), *limit).await?;
            output::print_data(context.output, &rows, || reviews::render_reports(&rows, terminal_columns()))?;
            Ok(Exit::Done)
        }
        Rules::List { repo, status, held, limit } => {
            let workflow = repo.as_ref().map(|repo| repo.rule_scope(context.tenant).workflow);
            let filter = MemoryFilter {
                workflow,
                status: *status,
                rules_only: true,
                held: *held,
                limit: *limit,
                ..Default::default()
            };
            let rows = store.list_memories(context.tenant, &filter).await?;
            output::print_data(context.output, &rows, || lists::render_rules(&rows, terminal_columns()))?;
            Ok(Exit::Done)
        }
        other => unreachable!("{other:?} names a rule and was handled above"),
    }
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
    let result =
        match build_writer(config, store)?.promote_rule(context.tenant, id, &request, by, reason).await? {
            Ok(CommitResult::Done) => "promoted",
            Ok(CommitResult::AlreadyDone) => "was already promoted by this request",
            Ok(CommitResult::NotFound) => {
                return print_found(context, None::<()>, "rule", &id, |()| String::new());
            }
            Err(problem) => anyhow::bail!("the rule cannot be promoted: {problem}"),
        };
    let answer = serde_json::json!({"memory": id, "request": request, "result": result});
    output::print_data(context.output, &answer, || format!("rule {id} {result}"))?;
    Ok(Exit::Done)
}
