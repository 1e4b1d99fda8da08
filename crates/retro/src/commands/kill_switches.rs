//! Runs `retro kill-switches`.

use std::sync::Arc;

use retro_operator::{KillSwitchService, KillSwitchState, render_kill_switches};
use retro_store::Store;

use super::command_context::CommandContext;
use super::dead_letters::redact_text;
use crate::cli::{KillSwitches, ListKillSwitches, Noun, SetKillSwitch};
use crate::clock::SystemClock;
use crate::exit::Exit;
use crate::output;

/// Maximum number of switches that are listed.
const LISTED_MAX: u32 = 10_000;

/// Runs a subcommand of `retro kill-switches`.
pub(crate) async fn run_command(
    context: &CommandContext<'_>,
    store: Arc<dyn Store>,
    noun: &Noun<KillSwitches, ListKillSwitches>,
) -> anyhow::Result<Exit> {
    match &noun.command {
        None => list_switches(context, &*store, &noun.list).await,
        Some(KillSwitches::List(list)) => list_switches(context, &*store, list).await,
        Some(KillSwitches::Engage(set)) => set_state(context, store, set, KillSwitchState::Engaged).await,
        Some(KillSwitches::Disengage(set)) => {
            set_state(context, store, set, KillSwitchState::Disengaged).await
        }
    }
}

async fn list_switches(
    context: &CommandContext<'_>,
    store: &dyn Store,
    list: &ListKillSwitches,
) -> anyhow::Result<Exit> {
    let mut switches = store.list_kill_switches(context.tenant, LISTED_MAX).await?;
    switches.retain(|switch| list.all || switch.disengaged.is_none());
    output::print_list(context.output, &switches, |layout| render_kill_switches(&switches, layout))?;
    Ok(Exit::Done)
}

async fn set_state(
    context: &CommandContext<'_>,
    store: Arc<dyn Store>,
    set: &SetKillSwitch,
    state: KillSwitchState,
) -> anyhow::Result<Exit> {
    let service = KillSwitchService::new(store, Arc::new(SystemClock));
    let (by, reason) = (redact_text(&set.act.by), redact_text(&set.act.reason));
    let answer = service.set_state(&set.scope.scope(context.tenant), state, &by, &reason).await?;
    output::print_data(context.output, &answer, || answer.detail.clone())?;
    Ok(Exit::Done)
}
