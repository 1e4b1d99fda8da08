//! Runs `retro dead-letters replay`, `discard`, `batches` and `cancel`. They only write to the database; the
//! relay of a running process sends the replays.

use std::sync::Arc;
use std::time::Duration;

use retro_config::Config;
use retro_core::id::{DeadLetterId, ReplayBatchId};
use retro_core::replay::ReplayPace;
use retro_core::time::Clock as _;
use retro_operator::{
    ActionResult, ActionStatus, DeadLetterSelection, Prediction, ReplayError, ReplayService, terminal_columns,
};
use retro_redact::Redactor;
use retro_store::{ObjectKind, ReplayBatchState, Store};
use tokio::sync::Notify;

use super::command_context::{CommandContext, print_found, resolve_object};
use crate::cli::{AuditArgs, Discard, Replay, SelectionArgs};
use crate::clock::SystemClock;
use crate::exit::Exit;
use crate::output;
use crate::policies::PolicySource;

/// Interval at which a batch is polled, so at most two lines per second are printed.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(super) async fn show_batches(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    id: Option<ReplayBatchId>,
    limit: u32,
) -> anyhow::Result<Exit> {
    let Some(id) = id else {
        let rows = store.list_replay_batches(context.tenant, limit).await?;
        output::print_list(context.output, &rows, |layout| retro_operator::render_batches(&rows, layout))?;
        return Ok(Exit::Done);
    };
    let found = store.find_replay_batch(context.tenant, id, limit).await?;
    let replays = build_replays(config, store)?;
    let found = found.map(|(row, items)| (row, replays.redact_items(items)));
    print_found(context, found, "batch", &id, |(row, items)| {
        retro_operator::render_batch(row, items, terminal_columns())
    })
}

pub(super) async fn cancel_batch(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    id: ReplayBatchId,
    act: &AuditArgs,
) -> anyhow::Result<Exit> {
    let result = build_replays(config, store)?.cancel_batch(context.tenant, id, &act.by, &act.reason).await?;
    print_found(context, result.map(|(_, row)| row), "batch", &id, retro_operator::render_progress)
}

fn build_replays(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<ReplayService> {
    let policies = Arc::new(PolicySource::load(config.pipelines.as_deref())?);
    let redact = Arc::new(|text: &str| Redactor::shared().redact_text(text).into_owned());
    let replays = ReplayService::new(store, policies, Arc::new(SystemClock), Arc::new(Notify::new()), redact);
    let hosts =
        config.allowed_hosts().expect("invalid hosts were rejected when the configuration was loaded");
    Ok(replays.with_dataref_hosts(hosts))
}

pub(super) async fn replay_dead_letters(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    args: &Replay,
) -> anyhow::Result<Exit> {
    let replays = build_replays(config, store.clone())?;
    let ids = match resolve_ids(context, &*store, &args.chosen).await? {
        Ok(ids) => ids,
        Err(exit) => return Ok(exit),
    };
    if let Some(id) = single_id(&ids, &args.chosen) {
        return replay_one(context, &replays, id, args).await;
    }
    if args.version.is_some() {
        anyhow::bail!("--version needs exactly one dead letter");
    }
    let chosen = build_selection(&ids, &args.chosen);
    if args.chosen.dry_run {
        let prediction = replays.dry_run(context.tenant, &chosen).await?;
        output::print_data(context.output, &prediction, || format_dry_run(&prediction.items))?;
        return Ok(Exit::Done);
    }
    let pace =
        ReplayPace { canary: args.canary, rate_milli: args.rate, failed_permille_max: args.max_failed };
    let (by, reason) = (&args.why.by, &args.why.reason);
    let started = match replays.start_batch(context.tenant, &chosen, pace, by, reason).await {
        Err(ReplayError::NoMatch) => {
            output::print_notice("no dead letter matches");
            return Ok(Exit::NotFound);
        }
        started => started?,
    };
    if args.detach {
        output::print_data(context.output, &started, || {
            format!(
                "batch {} of {}; `retro dead-letters batches {}` shows its progress",
                started.batch,
                format_count(started.dead_letters),
                started.batch
            )
        })?;
        return Ok(Exit::Done);
    }
    output::print_notice(&format!(
        "batch {} of {}; it continues if this command is interrupted",
        started.batch,
        format_count(started.dead_letters)
    ));
    wait_for_batch(context, &replays, &*store, started.batch).await
}

fn format_count(count: u64) -> String {
    if count == 1 { "1 dead letter".to_owned() } else { format!("{count} dead letters") }
}

/// Prints the progress of a batch whenever it changes, until the batch has ended and none of its replays is
/// in progress.
async fn wait_for_batch(
    context: &CommandContext<'_>,
    replays: &ReplayService,
    store: &dyn Store,
    id: ReplayBatchId,
) -> anyhow::Result<Exit> {
    let mut printed = String::new();
    loop {
        let Some((row, items)) = store.find_replay_batch(context.tenant, id, u32::MAX).await? else {
            anyhow::bail!("batch {id} no longer exists");
        };
        let now = retro_operator::render_progress(&row);
        if now != printed {
            output::print_notice(&now);
            printed = now;
        }
        // A batch may end while its last replays are still in progress; their outcomes decide the exit code.
        if !row.state.is_open() && row.progress.under_way == 0 {
            let good = row.state == ReplayBatchState::Done && row.progress.failed == 0;
            let all = (row, replays.redact_items(items));
            output::print_data(context.output, &all, || {
                retro_operator::render_batch(&all.0, &all.1, terminal_columns())
            })?;
            return Ok(if good { Exit::Done } else { Exit::ProblemFound });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn replay_one(
    context: &CommandContext<'_>,
    replays: &ReplayService,
    id: DeadLetterId,
    args: &Replay,
) -> anyhow::Result<Exit> {
    if args.chosen.dry_run {
        let prediction = replays.dry_run_one(context.tenant, id, args.version).await?;
        return print_found(context, prediction, "dead letter", &id, |one| {
            format_dry_run(std::slice::from_ref(one))
        });
    }
    let result = replays.replay_one(context.tenant, id, args.version, &args.why.by, &args.why.reason).await?;
    print_outcome(context, result, id)
}

pub(super) async fn discard_dead_letters(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    args: &Discard,
) -> anyhow::Result<Exit> {
    let ids = match resolve_ids(context, &*store, &args.chosen).await? {
        Ok(ids) => ids,
        Err(exit) => return Ok(exit),
    };
    let replays = build_replays(config, store)?;
    let (by, reason) = (&args.why.by, &args.why.reason);
    if let (Some(id), false) = (single_id(&ids, &args.chosen), args.chosen.dry_run) {
        return print_outcome(context, replays.discard_one(context.tenant, id, by, reason).await?, id);
    }
    let chosen = build_selection(&ids, &args.chosen);
    if args.chosen.dry_run {
        let ids = replays.list_selected_ids(context.tenant, &chosen).await?;
        output::print_data(context.output, &ids, || {
            ids.iter().map(|id| format!("would be discarded: {id}\n")).collect()
        })?;
        return Ok(Exit::Done);
    }
    let result = replays.discard_many(context.tenant, &chosen, by, reason).await?;
    output::print_data(context.output, &result, || result.detail.clone())?;
    Ok(Exit::Done)
}

/// Returns the id if exactly one id and no `--all` is given.
fn single_id(ids: &[DeadLetterId], args: &SelectionArgs) -> Option<DeadLetterId> {
    match *ids {
        [id] if !args.all => Some(id),
        _ => None,
    }
}

/// Returns the ids of the named dead letters, or the exit of the command if one of them is missing or ambiguous.
async fn resolve_ids(
    context: &CommandContext<'_>,
    store: &dyn Store,
    args: &SelectionArgs,
) -> anyhow::Result<Result<Vec<DeadLetterId>, Exit>> {
    let mut ids = Vec::with_capacity(args.ids.len());
    for name in &args.ids {
        match resolve_object(context, store, ObjectKind::DeadLetter, *name).await? {
            Ok(id) => ids.push(DeadLetterId(id)),
            Err(exit) => return Ok(Err(exit)),
        }
    }
    Ok(Ok(ids))
}

fn build_selection(ids: &[DeadLetterId], args: &SelectionArgs) -> DeadLetterSelection {
    DeadLetterSelection { search: args.filter.build_search(ids, 0, SystemClock.now()), all: args.all }
}

fn format_dry_run(items: &[Prediction]) -> String {
    if items.is_empty() {
        return "no dead letter matches\n".to_owned();
    }
    let lines: String = items.iter().map(Prediction::render_text).collect();
    format!("{lines}nothing was sent\n")
}

fn print_outcome(
    context: &CommandContext<'_>,
    result: Option<ActionResult>,
    id: DeadLetterId,
) -> anyhow::Result<Exit> {
    let refused = result.as_ref().is_some_and(|result| result.status == ActionStatus::Refused);
    let exit = print_found(context, result, "dead letter", &id, |result| result.detail.clone())?;
    Ok(if refused { Exit::ProblemFound } else { exit })
}
