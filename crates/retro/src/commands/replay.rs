//! What people do about dead letters: `retro dead-letters replay`, `discard`, `batches` and `cancel`. All work beside a
//! running program, whose relay sends what is replayed.

use std::sync::Arc;
use std::time::Duration;

use retro_config::Config;
use retro_core::id::{BatchId, DeadLetterId};
use retro_core::replay::Pace;
use retro_core::time::Clock as _;
use retro_operator::{Chosen, Did, Foresight, LetterTold, ReplayError, Replays, terminal_columns};
use retro_redact::Redactor;
use retro_store::{BatchState, Store};
use tokio::sync::Notify;

use super::Exit;
use super::read::{Asked, shown};
use crate::cli::{ActArgs, ChosenArgs, Discard, Replay};
use crate::clock::SystemClock;
use crate::output;
use crate::policies::PolicyBook;

/// How often a batch is looked at while somebody waits for it: a line a second at the most.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) async fn batches(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    id: Option<BatchId>,
    limit: u32,
) -> anyhow::Result<Exit> {
    let Some(id) = id else {
        let rows = store.batches(asked.tenant, limit).await?;
        output::data(asked.output, &rows, || retro_operator::batches(&rows, terminal_columns()))?;
        return Ok(Exit::Done);
    };
    let found = store.batch(asked.tenant, id, limit).await?;
    let replays = replays(config, store)?;
    let found = found.map(|(row, letters)| (row, replays.redacted(letters)));
    shown(asked, found, "batch", &id, |(row, letters)| {
        retro_operator::batch(row, letters, terminal_columns())
    })
}

pub(super) async fn cancel(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    id: BatchId,
    act: &ActArgs,
) -> anyhow::Result<Exit> {
    let told = replays(config, store)?.cancel_batch(asked.tenant, id, &act.by, &act.reason).await?;
    shown(asked, told.map(|(_, row)| row), "batch", &id, retro_operator::progress)
}

fn replays(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<Replays> {
    let policies = Arc::new(PolicyBook::load(config.pipelines.as_deref())?);
    let redact = Arc::new(|text: &str| Redactor::shared().text(text).into_owned());
    let replays = Replays::new(store, policies, Arc::new(SystemClock), Arc::new(Notify::new()), redact);
    let hosts = config.hosts().expect("an entry that is no host was refused when the configuration was read");
    Ok(replays.taking_bodies_at(hosts))
}

pub(super) async fn replay(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    args: &Replay,
) -> anyhow::Result<Exit> {
    let replays = replays(config, store.clone())?;
    if let Some(id) = alone(&args.chosen) {
        return replay_one(asked, &replays, id, args).await;
    }
    if args.version.is_some() {
        anyhow::bail!("--version is about one letter: name one");
    }
    let chosen = chosen(&args.chosen);
    if args.chosen.dry_run {
        let foreseen = replays.foresee(asked.tenant, &chosen).await?;
        output::data(asked.output, &foreseen, || foresights(&foreseen.items))?;
        return Ok(Exit::Done);
    }
    let pace = Pace { canary: args.canary, rate_milli: args.rate, failed_permille_max: args.max_failed };
    let (by, reason) = (&args.why.by, &args.why.reason);
    let started = match replays.many(asked.tenant, &chosen, pace, by, reason).await {
        Err(ReplayError::NoneFits) => {
            output::told("no dead letter fits");
            return Ok(Exit::NotFound);
        }
        started => started?,
    };
    if args.detach {
        output::data(asked.output, &started, || {
            format!(
                "batch {} over {}; `retro dead-letters batches {}` tells how far it is",
                started.batch,
                letters(started.letters),
                started.batch
            )
        })?;
        return Ok(Exit::Done);
    }
    output::told(&format!(
        "batch {} over {}; interrupted, it goes on",
        started.batch,
        letters(started.letters)
    ));
    wait(asked, &replays, &*store, started.batch).await
}

fn letters(count: u64) -> String {
    if count == 1 { "1 letter".to_owned() } else { format!("{count} letters") }
}

/// Tells how far a batch is whenever that changes, until it ended and nothing of it is under way.
async fn wait(asked: &Asked<'_>, replays: &Replays, store: &dyn Store, id: BatchId) -> anyhow::Result<Exit> {
    let mut told = String::new();
    loop {
        let Some((row, letters)) = store.batch(asked.tenant, id, u32::MAX).await? else {
            anyhow::bail!("batch {id} is not there any more");
        };
        let now = retro_operator::progress(&row);
        if now != told {
            output::told(&now);
            told = now;
        }
        if !row.state.is_open() && row.progress.under_way == 0 {
            let good = row.state == BatchState::Done && row.progress.failed == 0;
            let all = (row, replays.redacted(letters));
            output::data(asked.output, &all, || retro_operator::batch(&all.0, &all.1, terminal_columns()))?;
            return Ok(if good { Exit::Done } else { Exit::NotInOrder });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn replay_one(
    asked: &Asked<'_>,
    replays: &Replays,
    id: DeadLetterId,
    args: &Replay,
) -> anyhow::Result<Exit> {
    if args.chosen.dry_run {
        let foreseen = replays.foresee_one(asked.tenant, id, args.version).await?;
        return shown(asked, foreseen, "dead letter", &id, |one| foresights(std::slice::from_ref(one)));
    }
    let told = replays.one(asked.tenant, id, args.version, &args.why.by, &args.why.reason).await?;
    answer(asked, told, id)
}

pub(super) async fn discard(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    args: &Discard,
) -> anyhow::Result<Exit> {
    let replays = replays(config, store)?;
    let (by, reason) = (&args.why.by, &args.why.reason);
    if let (Some(id), false) = (alone(&args.chosen), args.chosen.dry_run) {
        return answer(asked, replays.discard_one(asked.tenant, id, by, reason).await?, id);
    }
    let chosen = chosen(&args.chosen);
    if args.chosen.dry_run {
        let ids = replays.chosen(asked.tenant, &chosen).await?;
        output::data(asked.output, &ids, || {
            ids.iter().map(|id| format!("would be put aside: {id}\n")).collect()
        })?;
        return Ok(Exit::Done);
    }
    let told = replays.discard(asked.tenant, &chosen, by, reason).await?;
    output::data(asked.output, &told, || told.detail.clone())?;
    Ok(Exit::Done)
}

/// The one letter that is named, when nothing else is said.
fn alone(args: &ChosenArgs) -> Option<DeadLetterId> {
    match args.ids[..] {
        [id] if !args.all => Some(id),
        _ => None,
    }
}

fn chosen(args: &ChosenArgs) -> Chosen {
    Chosen { search: args.filter.search(&args.ids, 0, SystemClock.now()), all: args.all }
}

fn foresights(items: &[Foresight]) -> String {
    if items.is_empty() {
        return "no dead letter fits\n".to_owned();
    }
    let lines: String = items.iter().map(Foresight::text).collect();
    format!("{lines}nothing was sent\n")
}

fn answer(asked: &Asked<'_>, told: Option<LetterTold>, id: DeadLetterId) -> anyhow::Result<Exit> {
    let refused = told.as_ref().is_some_and(|told| told.did == Did::Refused);
    let exit = shown(asked, told, "dead letter", &id, |told| told.detail.clone())?;
    Ok(if refused { Exit::NotInOrder } else { exit })
}
