//! `retro rules`: what reviews have taught, and what people do about it.

use std::sync::Arc;

use retro_config::Config;
use retro_core::canonical::sha256_hex;
use retro_core::id::MemoryId;
use retro_operator::{lists, reviews, terminal_columns};
use retro_store::{MemoryFilter, Step, Store};
use retro_writer::Writer;
use tokio::sync::Notify;

use super::Exit;
use super::memories::{in_full, meant, why};
use super::read::{Asked, shown};
use crate::cli::{ActArgs, Rules};
use crate::clock::SystemClock;
use crate::policies::PolicyBook;
use crate::{embedder, output};

pub(crate) async fn run(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    command: &Rules,
) -> anyhow::Result<Exit> {
    let id = match command {
        Rules::List { .. } | Rules::Reports { .. } => None,
        Rules::Show { id } | Rules::Why { id } | Rules::Promote { id, .. } | Rules::Retire { id, .. } => {
            match meant(asked, &*store, *id).await? {
                Ok(id) => Some(id),
                Err(exit) => return Ok(exit),
            }
        }
    };
    match (command, id) {
        (Rules::Show { .. }, Some(id)) => {
            shown(asked, in_full(asked, &*store, id).await?, "rule", &id, retro_operator::memory)
        }
        (Rules::Why { .. }, Some(id)) => why(asked, &*store, id).await,
        (Rules::Promote { act, request, .. }, Some(id)) => {
            promote(asked, config, store, id, act, request.as_deref()).await
        }
        (Rules::Retire { act, request, .. }, Some(id)) => {
            retire(asked, config, store, id, act, request.as_deref()).await
        }
        _ => listed(asked, &*store, command).await,
    }
}

async fn listed(asked: &Asked<'_>, store: &dyn Store, command: &Rules) -> anyhow::Result<Exit> {
    match command {
        Rules::Reports { id: Some(id), .. } => {
            let found = store.review_report(asked.tenant, *id).await?;
            shown(asked, found, "report", id, |report| reviews::report(report, terminal_columns()))
        }
        Rules::Reports { repo, limit, .. } => {
            let keeper = repo.as_ref().map(|repo| repo.keeper(asked.tenant).workflow);
            let rows = store.review_reports(asked.tenant, keeper.as_ref(), *limit).await?;
            output::data(asked.output, &rows, || reviews::list(&rows, terminal_columns()))?;
            Ok(Exit::Done)
        }
        Rules::List { repo, status, limit } => {
            let workflow = repo.as_ref().map(|repo| repo.keeper(asked.tenant).workflow);
            let filter =
                MemoryFilter { workflow, status: *status, rules: true, limit: *limit, ..Default::default() };
            let rows = store.memories(asked.tenant, &filter).await?;
            output::data(asked.output, &rows, || lists::rules(&rows, terminal_columns()))?;
            Ok(Exit::Done)
        }
        other => unreachable!("{other:?} names a rule, and was answered before"),
    }
}

/// Through the writer, like everything that changes memory.
fn writer(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<Writer> {
    let policies = Arc::new(PolicyBook::load(config.pipelines.as_deref())?);
    let outbox = Arc::new(Notify::new());
    let writer = Writer::new(store, policies, Arc::new(SystemClock), outbox);
    Ok(writer.comparing_by(embedder::source(config)?))
}

async fn promote(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    id: MemoryId,
    act: &ActArgs,
    request: Option<&str>,
) -> anyhow::Result<Exit> {
    let request = named("promote", id, act, request);
    let ActArgs { by, reason } = act;
    let did = match writer(config, store)?.promote(asked.tenant, id, &request, by, reason).await? {
        Ok(Step::Done) => "promoted",
        Ok(Step::AlreadyDone) => "had been promoted by this request before",
        Ok(Step::Unknown) => return shown(asked, None::<()>, "rule", &id, |()| String::new()),
        Err(problem) => anyhow::bail!("the rule cannot be promoted: {problem}"),
    };
    let answer = serde_json::json!({"memory": id, "request": request, "did": did});
    output::data(asked.output, &answer, || format!("rule {id} {did}"))?;
    Ok(Exit::Done)
}

async fn retire(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    id: MemoryId,
    act: &ActArgs,
    request: Option<&str>,
) -> anyhow::Result<Exit> {
    let request = named("retire", id, act, request);
    let reason = format!("retired by {}: {}", act.by, act.reason);
    let did = match writer(config, store)?.delete(asked.tenant, id, &request, &reason).await? {
        Ok(Step::Done) => "retired",
        Ok(Step::AlreadyDone) => "had been retired by this request before",
        Ok(Step::Unknown) => return shown(asked, None::<()>, "rule", &id, |()| String::new()),
        Err(problem) => anyhow::bail!("the rule cannot be retired: {problem}"),
    };
    let answer = serde_json::json!({"memory": id, "request": request, "did": did});
    output::data(asked.output, &answer, || {
        format!("rule {id} {did}; a tombstone keeps anything similar away")
    })?;
    Ok(Exit::Done)
}

fn named(what: &str, id: MemoryId, act: &ActArgs, request: Option<&str>) -> String {
    let ActArgs { by, reason } = act;
    let derived = || format!("{what}-{}", &sha256_hex(format!("{id} {by} {reason}").as_bytes())[..16]);
    request.map_or_else(derived, str::to_owned)
}
