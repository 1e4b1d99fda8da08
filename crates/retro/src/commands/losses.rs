//! Runs `retro losses`, which lists and closes losses. All tenants share the broker, so these commands need
//! direct access to the database.

use retro_core::attribution::Attribution;
use retro_core::time::Clock as _;
use retro_operator::{Layout, lists::render_losses as render_loss_table};
use retro_store::BrokerStore;
use retro_store::broker::{ClosedLoss, Loss, LossKey};
use serde::Serialize;

use super::command_context::{CommandContext, print_found};
use super::dead_letters::redact_text;
use crate::cli::{AuditArgs, ListLosses, Losses, Noun};
use crate::clock::SystemClock;
use crate::exit::Exit;
use crate::output;

/// Runs a subcommand of `retro losses`.
pub(crate) async fn run_command(
    context: &CommandContext<'_>,
    store: &dyn BrokerStore,
    noun: &Noun<Losses, ListLosses>,
) -> anyhow::Result<Exit> {
    let Some(command) = &noun.command else { return list_losses(context, store, noun.list.all).await };
    match command {
        Losses::List(list) => list_losses(context, store, list.all).await,
        Losses::Show { id } => show_loss(context, store, id).await,
        Losses::Close { ids, act, .. } => close_losses(context, store, ids, act).await,
    }
}

/// A loss, prepared for output.
#[derive(Debug, Serialize)]
struct LossView {
    id: String,
    #[serde(flatten)]
    loss: Loss,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<Attribution>,
}

impl LossView {
    fn from_open(loss: Loss) -> Self {
        Self { id: loss.key().to_string(), loss, closed: None }
    }

    fn from_closed(ClosedLoss { loss, act }: ClosedLoss) -> Self {
        Self { closed: Some(act), ..Self::from_open(loss) }
    }

    fn format_line(&self) -> String {
        let closed = self.describe_closing().map(|closed| format!("; {closed}"));
        format!("{}  {}{}", self.id, self.loss, closed.unwrap_or_default())
    }

    fn table_row(&self) -> [String; 3] {
        [self.id.clone(), self.loss.to_string(), self.describe_closing().unwrap_or_else(|| "open".to_owned())]
    }

    fn describe_closing(&self) -> Option<String> {
        self.closed.as_ref().map(|Attribution { by, reason, at, .. }| {
            // Typed by a person: escaped, so it cannot control the terminal.
            format!("closed by {} at {at:.0}: {}", by.escape_debug(), reason.escape_debug())
        })
    }
}

async fn list_losses(
    context: &CommandContext<'_>,
    store: &dyn BrokerStore,
    all: bool,
) -> anyhow::Result<Exit> {
    let rows = load_losses(store, all).await?;
    output::print_list(context.output, &rows, |layout| match layout {
        Layout::Terminal(_) => rows.iter().map(LossView::format_line).collect::<Vec<_>>().join("\n"),
        Layout::Markdown => render_loss_table(rows.iter().map(LossView::table_row).collect()),
    })?;
    Ok(Exit::Done)
}

/// Loads the open losses, and the closed ones too if `all` is set, sorted by id.
async fn load_losses(store: &dyn BrokerStore, all: bool) -> anyhow::Result<Vec<LossView>> {
    let mut rows: Vec<LossView> = store.list_losses().await?.into_iter().map(LossView::from_open).collect();
    if all {
        rows.extend(store.list_closed_losses().await?.into_iter().map(LossView::from_closed));
        rows.sort_by_key(|row| row.loss.key());
    }
    Ok(rows)
}

async fn show_loss(
    context: &CommandContext<'_>,
    store: &dyn BrokerStore,
    id: &LossKey,
) -> anyhow::Result<Exit> {
    let found = load_losses(store, true).await?.into_iter().find(|row| row.loss.key() == *id);
    print_found(context, found, "loss", id, LossView::format_line)
}

/// Closes the losses with these ids, or all open losses if `ids` is empty.
async fn close_losses(
    context: &CommandContext<'_>,
    store: &dyn BrokerStore,
    ids: &[LossKey],
    act: &AuditArgs,
) -> anyhow::Result<Exit> {
    let act = Attribution::new(&redact_text(&act.by), &redact_text(&act.reason), SystemClock.now())?;
    // If there are no ids, clap has required `--all`.
    let chosen = match ids {
        [] => store.list_losses().await?.iter().map(Loss::key).collect(),
        ids => ids.to_vec(),
    };
    let closed = store.close_losses(&chosen, &act).await?;
    for id in ids.iter().filter(|id| !closed.contains(id)) {
        output::print_notice(&format!(
            "{id} is not an open loss; `retro losses list --all` lists all losses"
        ));
    }
    let ids: Vec<_> = closed.iter().map(ToString::to_string).collect();
    output::print_data(context.output, &ids, || {
        ids.iter().map(|id| format!("{id} is closed")).collect::<Vec<_>>().join("\n")
    })?;
    Ok(if closed.len() == chosen.len() { Exit::Done } else { Exit::NotFound })
}
