//! Runs `retro retrospectives cancel`, which writes to the database even if no process is running.

use std::sync::Arc;

use retro_core::id::RetrospectiveId;
use retro_operator::{ActionStatus, CancelAnswer, CancelService};
use retro_store::Store;

use super::command_context::{CommandContext, print_found};
use crate::cli::AuditArgs;
use crate::clock::SystemClock;
use crate::exit::Exit;

pub(super) async fn cancel_retrospective(
    context: &CommandContext<'_>,
    store: Arc<dyn Store>,
    id: RetrospectiveId,
    act: &AuditArgs,
) -> anyhow::Result<Exit> {
    let result = CancelService::new(store, Arc::new(SystemClock))
        .cancel(context.tenant, id, &act.by, &act.reason)
        .await?;
    print_outcome(context, result, "retrospective", &id)
}

fn print_outcome(
    context: &CommandContext<'_>,
    result: Option<CancelAnswer>,
    what: &str,
    id: &impl std::fmt::Display,
) -> anyhow::Result<Exit> {
    let refused = result.as_ref().is_some_and(|result| result.status == ActionStatus::Refused);
    let exit = print_found(context, result, what, id, |result| result.detail.clone())?;
    Ok(if refused { Exit::ProblemFound } else { exit })
}
