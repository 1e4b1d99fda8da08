//! `retro dead-letters`: seeing them, and making versions of them.

mod editor;

use std::io::Read as _;
use std::sync::Arc;

use anyhow::Context as _;
use retro_config::Config;
use retro_core::time::Clock as _;
use retro_operator::{
    DeadLetterView, Edit, ExactLetter, MendError, Mended, Mending, SharedRedact, acts, letter_acts,
    letter_page, terminal_columns,
};
use retro_redact::Redactor;
use retro_store::Store;

use super::read::{Asked, shown, with_acts};
use super::{Exit, replay};
use crate::cli::{DeadLetters, EditLetter, ExportLetters, LetterFilterArgs, ListLetters, Output, ShowLetter};
use crate::clock::SystemClock;
use crate::output;

/// Carries out a command about dead letters.
pub(crate) async fn run(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    command: &DeadLetters,
) -> anyhow::Result<Exit> {
    match command {
        DeadLetters::List(args) => list(asked, &*store, args).await,
        DeadLetters::Stats { filter } => stats(asked, &*store, filter).await,
        DeadLetters::Show(args) if args.exact.raw => raw(asked, config, store, args).await,
        DeadLetters::Show(args) => show(asked, &*store, args).await,
        DeadLetters::Export(args) => export(asked, config, store, args).await,
        DeadLetters::Edit(args) => edit(asked, config, store, args).await,
        DeadLetters::Replay(args) => replay::replay(asked, config, store, args).await,
        DeadLetters::Discard(args) => replay::discard(asked, config, store, args).await,
        DeadLetters::Batches { id, limit } => replay::batches(asked, config, store, *id, *limit).await,
        DeadLetters::Cancel { id, act } => replay::cancel(asked, config, store, *id, act).await,
    }
}

/// Takes the secrets out of a text.
pub(crate) fn redact(text: &str) -> String {
    Redactor::shared().text(text).into_owned()
}

/// A hand on exact bytes over a store.
pub(crate) fn mending(config: &Config, store: Arc<dyn Store>) -> Mending {
    let hosts = config.hosts().expect("an entry that is no host was refused when the configuration was read");
    let redact: SharedRedact = Arc::new(redact);
    Mending::new(store, Arc::new(SystemClock), hosts, redact)
}

async fn list(asked: &Asked<'_>, store: &dyn Store, args: &ListLetters) -> anyhow::Result<Exit> {
    let mut search = args.filter.search(&[], args.limit.saturating_add(1), SystemClock.now());
    search.filter.behind = args.behind;
    let mut found = search.find(store, asked.tenant, &redact).await?;
    let more = found.letters.len() > args.limit as usize;
    found.letters.truncate(args.limit as usize);
    let rows: Vec<_> = found.letters.iter().map(|letter| DeadLetterView::listed(letter, &redact)).collect();
    output::data(asked.output, &rows, || retro_operator::dead_letters(&rows, terminal_columns()))?;
    if let Some(last) = rows.last().filter(|_| more) {
        output::told(&format!("there are more: go on with --behind {}", last.id));
    }
    if found.cut {
        output::told("older letters were not looked at: narrow the search, or go on with --until");
    }
    Ok(Exit::Done)
}

async fn stats(asked: &Asked<'_>, store: &dyn Store, filter: &LetterFilterArgs) -> anyhow::Result<Exit> {
    let search = filter.search(&[], retro_operator::LIST_MAX, SystemClock.now());
    let stats = search.stats(store, asked.tenant, &redact).await?;
    output::data(asked.output, &stats, || stats.text(terminal_columns()))?;
    Ok(Exit::Done)
}

async fn show(asked: &Asked<'_>, store: &dyn Store, args: &ShowLetter) -> anyhow::Result<Exit> {
    let found = letter_page(store, asked.tenant, args.id, &redact).await?;
    let mut found = with_acts(store, asked, args.id.0, found).await?;
    if let Some(found) = &mut found {
        found.acts = letter_acts(std::mem::take(&mut found.acts), &redact);
    }
    shown(asked, found, "dead letter", &args.id, |one| one.of.text(&acts(&one.acts)))
}

async fn raw(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    args: &ShowLetter,
) -> anyhow::Result<Exit> {
    let (by, reason) = (&args.exact.by, args.exact.reason.as_deref().unwrap_or_default());
    let found = mending(config, store).exact(asked.tenant, args.id, Some(args.version), by, reason).await;
    let Some(exact) = refused(found)? else { return Ok(Exit::NotInOrder) };
    match (exact, asked.output) {
        (Some(exact), Output::Table) => bytes(&exact),
        (exact, _) => shown(asked, exact, "dead letter", &args.id, |_| String::new()),
    }
}

/// The bytes and nothing else.
fn bytes(exact: &ExactLetter) -> anyhow::Result<Exit> {
    if output::bytes(&exact.payload()).context("the bytes could not be written")? {
        return Ok(Exit::Done);
    }
    output::told(
        "the bytes are no plain text: redirect them into a file, or take them in Base64 with -o json",
    );
    Ok(Exit::NotInOrder)
}

async fn export(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    args: &ExportLetters,
) -> anyhow::Result<Exit> {
    let search = args.filter.search(&[], args.limit, SystemClock.now());
    let exact_for = args.exact.reason.as_deref().map(|reason| (args.exact.by.as_str(), reason));
    let mut export = mending(config, store).export(asked.tenant, search, exact_for)?;
    while let Some(page) = export.next_page().await? {
        output::json(&page)?;
    }
    Ok(Exit::Done)
}

async fn edit(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    args: &EditLetter,
) -> anyhow::Result<Exit> {
    let mending = mending(config, store);
    let (from, edit) = match (&args.file, args.set.as_slice()) {
        (Some(file), _) => (args.from, Edit::Whole(read(file)?)),
        (None, []) => match editor::edited(asked, &mending, args).await? {
            Ok((version, payload)) => (Some(version), Edit::Whole(payload)),
            Err(exit) => return Ok(exit),
        },
        (None, fields) => (args.from, Edit::Set(fields.to_vec())),
    };
    let (by, reason) = (&args.act.by, &args.act.reason);
    let mended = mending.mend(asked.tenant, args.id, from, &edit, by, reason, args.dry_run).await;
    let Some(mended) = refused(mended)? else { return Ok(Exit::NotInOrder) };
    shown(asked, mended, "dead letter", &args.id, Mended::text)
}

fn read(file: &std::path::Path) -> anyhow::Result<Vec<u8>> {
    if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("stdin cannot be read")?;
        return Ok(bytes);
    }
    std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))
}

/// What was answered; `None` when it was refused, which is told.
fn refused<T>(answer: Result<T, MendError>) -> anyhow::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(MendError::Store(error)) => Err(error.into()),
        Err(why) => {
            output::told(&format!("retro: {why}"));
            Ok(None)
        }
    }
}
