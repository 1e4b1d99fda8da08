//! `retro losses`: what was lost with the broker, and closing what was told wrongly. The broker is every tenant's, and so
//! are these commands: they need the database itself.

use retro_core::steer::Act;
use retro_core::time::Clock as _;
use retro_store::BrokerStore;
use retro_store::broker::{ClosedLoss, Loss, LossKey};
use serde::Serialize;

use super::Exit;
use super::letters::redact;
use super::read::Asked;
use crate::cli::{ActArgs, Losses};
use crate::clock::SystemClock;
use crate::output;

/// Carries out a command about losses.
pub(crate) async fn run(
    asked: &Asked<'_>,
    store: &dyn BrokerStore,
    command: &Losses,
) -> anyhow::Result<Exit> {
    match command {
        Losses::List { all } => list_losses(asked, store, *all).await,
        Losses::Close { ids, act, .. } => close_losses(asked, store, ids, act).await,
    }
}

/// A loss as it is printed.
#[derive(Debug, Serialize)]
struct LossView {
    id: String,
    #[serde(flatten)]
    loss: Loss,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<Act>,
}

impl LossView {
    fn open(loss: Loss) -> Self {
        Self { id: loss.key().to_string(), loss, closed: None }
    }

    fn closed(ClosedLoss { loss, act }: ClosedLoss) -> Self {
        Self { closed: Some(act), ..Self::open(loss) }
    }

    fn line(&self) -> String {
        let closed = self.closed.as_ref().map(|Act { by, reason, at }| {
            // Anybody's words: escaped, so that a terminal is not moved by them.
            format!("; closed by {} at {at:.0}: {}", by.escape_debug(), reason.escape_debug())
        });
        format!("{}  {}{}", self.id, self.loss, closed.unwrap_or_default())
    }
}

async fn list_losses(asked: &Asked<'_>, store: &dyn BrokerStore, all: bool) -> anyhow::Result<Exit> {
    let mut rows: Vec<LossView> = store.losses().await?.into_iter().map(LossView::open).collect();
    if all {
        rows.extend(store.closed_losses().await?.into_iter().map(LossView::closed));
        rows.sort_by_key(|row| row.loss.key());
    }
    output::data(asked.output, &rows, || rows.iter().map(LossView::line).collect::<Vec<_>>().join("\n"))?;
    Ok(Exit::Done)
}

/// Closes the losses of these ids, or every open one where there is none.
async fn close_losses(
    asked: &Asked<'_>,
    store: &dyn BrokerStore,
    ids: &[LossKey],
    act: &ActArgs,
) -> anyhow::Result<Exit> {
    let act = Act::new(&redact(&act.by), &redact(&act.reason), SystemClock.now())?;
    let chosen = match ids {
        [] => store.losses().await?.iter().map(Loss::key).collect(),
        ids => ids.to_vec(),
    };
    let closed = store.close_losses(&chosen, &act).await?;
    for id in ids.iter().filter(|id| !closed.contains(id)) {
        output::told(&format!("{id} is no open loss; `retro losses list --all` has them all"));
    }
    let ids: Vec<_> = closed.iter().map(ToString::to_string).collect();
    output::data(asked.output, &ids, || {
        ids.iter().map(|id| format!("{id} is closed")).collect::<Vec<_>>().join("\n")
    })?;
    Ok(if closed.len() == chosen.len() { Exit::Done } else { Exit::NotFound })
}
