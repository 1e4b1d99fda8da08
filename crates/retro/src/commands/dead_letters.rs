//! Runs `retro dead-letters`: lists, shows, exports and edits dead letters, and dispatches the other
//! subcommands.

mod editor;
mod refusal;

use std::io::Read as _;
use std::sync::Arc;

use anyhow::Context as _;
use retro_config::Config;
use retro_core::id::{DeadLetterId, ReplayBatchId};
use retro_core::time::Clock as _;
use retro_operator::{
    DeadLetterDetail, DeadLetterView, Edit, EditService, EditedVersion, RawDeadLetter, SharedRedactFn,
    find_dead_letter_detail, terminal_columns,
};
use retro_redact::Redactor;
use retro_store::Store;

use super::command_context::{CommandContext, print_found, resolve};
use super::replay;
use crate::cli::{
    DeadLetterFilterArgs, DeadLetters, EditDeadLetter, ExportDeadLetters, ListDeadLetters, Noun, Output,
    ShowDeadLetter,
};
use crate::clock::SystemClock;
use crate::exit::Exit;
use crate::output;
use refusal::report_refusal;

/// Runs a subcommand of `retro dead-letters`.
pub(crate) async fn run_command(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    noun: &Noun<DeadLetters, ListDeadLetters>,
) -> anyhow::Result<Exit> {
    let Some(command) = &noun.command else { return list_dead_letters(context, &*store, &noun.list).await };
    match command {
        DeadLetters::List(args) => list_dead_letters(context, &*store, args).await,
        DeadLetters::Stats { filter } => print_stats(context, &*store, filter).await,
        DeadLetters::Show(args) if args.exact.raw => show_raw(context, config, store, args).await,
        DeadLetters::Show(args) => show_dead_letter(context, &*store, args).await,
        DeadLetters::Export(args) => export_dead_letters(context, config, store, args).await,
        DeadLetters::Edit(args) => edit_dead_letter(context, config, store, args).await,
        DeadLetters::Replay(args) => replay::replay_dead_letters(context, config, store, args).await,
        DeadLetters::Discard(args) => replay::discard_dead_letters(context, config, store, args).await,
        DeadLetters::Batches { id, limit } => {
            let id = match id {
                Some(name) => Some(ReplayBatchId(resolve!(context, &*store, ReplayBatch, *name))),
                None => None,
            };
            replay::show_batches(context, config, store, id, *limit).await
        }
        DeadLetters::Cancel { id, act } => {
            let id = ReplayBatchId(resolve!(context, &*store, ReplayBatch, *id));
            replay::cancel_batch(context, config, store, id, act).await
        }
    }
}

/// Redacts the secrets in a text.
pub(crate) fn redact_text(text: &str) -> String {
    Redactor::shared().redact_text(text).into_owned()
}

/// Builds the service that reads and edits the exact bytes of dead letters.
pub(crate) fn build_editor(config: &Config, store: Arc<dyn Store>) -> EditService {
    let hosts =
        config.allowed_hosts().expect("invalid hosts were rejected when the configuration was loaded");
    let redact: SharedRedactFn = Arc::new(redact_text);
    EditService::new(store, Arc::new(SystemClock), hosts, redact)
}

async fn list_dead_letters(
    context: &CommandContext<'_>,
    store: &dyn Store,
    args: &ListDeadLetters,
) -> anyhow::Result<Exit> {
    // One more than the limit, to detect that there is another page.
    let mut search = args.filter.build_search(&[], args.limit.saturating_add(1), SystemClock.now());
    search.filter.after = match args.after {
        Some(name) => Some(DeadLetterId(resolve!(context, store, DeadLetter, name))),
        None => None,
    };
    let mut found = search.find_matches(store, context.tenant, &redact_text).await?;
    let more = found.dead_letters.len() > args.limit as usize;
    found.dead_letters.truncate(args.limit as usize);
    let rows: Vec<_> = found
        .dead_letters
        .iter()
        .map(|dead_letter| DeadLetterView::from_dead_letter(dead_letter, &redact_text))
        .collect();
    output::print_list(context.output, &rows, |layout| retro_operator::render_dead_letters(&rows, layout))?;
    if let Some(last) = rows.last().filter(|_| more) {
        output::print_notice(&format!("there are more: continue with --after {}", last.id));
    }
    if let Some(last) = found.stopped_after.filter(|_| !more) {
        output::print_notice(&format!(
            "older dead letters were not searched: narrow the search, or continue with --after {last}"
        ));
    }
    Ok(Exit::Done)
}

async fn print_stats(
    context: &CommandContext<'_>,
    store: &dyn Store,
    filter: &DeadLetterFilterArgs,
) -> anyhow::Result<Exit> {
    let search = filter.build_search(&[], retro_operator::LIST_MAX, SystemClock.now());
    let stats = search.compute_stats(store, context.tenant, &redact_text).await?;
    print_found(context, Some(stats), "cause of", &"dead letters", |stats| {
        stats.render_text(terminal_columns())
    })
}

async fn show_dead_letter(
    context: &CommandContext<'_>,
    store: &dyn Store,
    args: &ShowDeadLetter,
) -> anyhow::Result<Exit> {
    let id = DeadLetterId(resolve!(context, store, DeadLetter, args.id));
    let found = find_dead_letter_detail(store, context.tenant, id, &redact_text).await?;
    print_found(context, found, "dead letter", &id, DeadLetterDetail::render_text)
}

async fn show_raw(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    args: &ShowDeadLetter,
) -> anyhow::Result<Exit> {
    let id = DeadLetterId(resolve!(context, &*store, DeadLetter, args.id));
    let (by, reason) = (&args.exact.by, args.exact.reason.as_deref().unwrap_or_default());
    let found =
        build_editor(config, store).read_raw(context.tenant, id, Some(args.version), by, reason).await;
    let Some(exact) = report_refusal(found)? else { return Ok(Exit::ProblemFound) };
    match (exact, context.output) {
        (Some(exact), Output::Table) => print_payload(&exact),
        (exact, _) => print_found(context, exact, "dead letter", &id, |_| String::new()),
    }
}

/// Prints the exact payload and nothing else. On a terminal, refuses bytes that are not printable.
fn print_payload(exact: &RawDeadLetter) -> anyhow::Result<Exit> {
    if output::print_bytes(&exact.decode_payload()).context("the bytes could not be written")? {
        return Ok(Exit::Done);
    }
    output::print_notice(
        "the bytes are not plain text: redirect them to a file, or get them in Base64 with -o json",
    );
    Ok(Exit::ProblemFound)
}

async fn export_dead_letters(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    args: &ExportDeadLetters,
) -> anyhow::Result<Exit> {
    let search = args.filter.build_search(&[], args.limit, SystemClock.now());
    let exact_for = args.exact.reason.as_deref().map(|reason| (args.exact.by.as_str(), reason));
    let mut export = build_editor(config, store).start_export(context.tenant, search, exact_for)?;
    while let Some(page) = export.next_page().await? {
        output::print_json(&page)?;
    }
    Ok(Exit::Done)
}

async fn edit_dead_letter(
    context: &CommandContext<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    args: &EditDeadLetter,
) -> anyhow::Result<Exit> {
    let id = DeadLetterId(resolve!(context, &*store, DeadLetter, args.id));
    let service = build_editor(config, store);
    let (from, edit) = match (&args.file, args.set.as_slice()) {
        (Some(file), _) => (args.from, Edit::ReplacePayload(read_payload(file)?)),
        (None, []) => match editor::edit_payload(context, &service, id, args).await? {
            Ok((version, payload)) => (Some(version), Edit::ReplacePayload(payload)),
            Err(exit) => return Ok(exit),
        },
        (None, fields) => (args.from, Edit::SetFields(fields.to_vec())),
    };
    let (by, reason) = (&args.act.by, &args.act.reason);
    let edited = service.edit(context.tenant, id, from, &edit, by, reason, args.dry_run).await;
    let Some(edited) = report_refusal(edited)? else { return Ok(Exit::ProblemFound) };
    print_found(context, edited, "dead letter", &id, EditedVersion::render_text)
}

fn read_payload(file: &std::path::Path) -> anyhow::Result<Vec<u8>> {
    if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("stdin cannot be read")?;
        return Ok(bytes);
    }
    std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))
}
