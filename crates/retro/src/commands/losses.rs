//! Runs `retro losses`, which lists and closes losses. All tenants share the broker, so these commands need
//! direct access to the database.

use retro_core::attribution::Attribution;
use retro_core::time::Clock as _;
use retro_store::BrokerStore;
use retro_store::broker::{ClosedLoss, Loss, LossKey};
use serde::Serialize;

use super::command_context::CommandContext;
use super::dead_letters::redact_text;
use crate::cli::{AuditArgs, Losses};
use crate::clock::SystemClock;
use crate::exit::Exit;
use crate::output;

/// Runs a subcommand of `retro losses`.
pub(crate) async fn run_command(
    context: &CommandContext<'_>,
    store: &dyn BrokerStore,
    command: &Losses,
) -> anyhow::Result<Exit> {
    match command {
        Losses::List { all } => list_losses(context, store, *all).await,
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
        let closed = self.closed.as_ref().map(|Attribution { by, reason, at }| {
            // Typed by a person: escaped, so it cannot control the terminal.
            format!("; closed by {} at {at:.0}: {}", by.escape_debug(), reason.escape_debug())
        });
        format!("{}  {}{}", self.id, self.loss, closed.unwrap_or_default())
    }
}

async fn list_losses(
    context: &CommandContext<'_>,
    store: &dyn BrokerStore,
    all: bool,
) -> anyhow::Result<Exit> {
    let mut rows: Vec<LossView> = store.list_losses().await?.into_iter().map(LossView::from_open).collect();
    if all {
        rows.extend(store.list_closed_losses().await?.into_iter().map(LossView::from_closed));
        rows.sort_by_key(|row| row.loss.key());
    }
    output::print_data(context.output, &rows, || {
        rows.iter().map(LossView::format_line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Done)
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
