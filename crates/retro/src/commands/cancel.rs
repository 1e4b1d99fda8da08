//! `retro retrospectives cancel`. Writes to the database, with or without a running process.

use std::sync::Arc;

use retro_core::id::RetrospectiveId;
use retro_operator::{ActionStatus, CancelAnswer, CancelService};
use retro_store::Store;

use super::Exit;
use super::queries::CommandContext;
use crate::cli::AuditArgs;
use crate::clock::SystemClock;

pub(super) async fn cancel_retrospective(
    asked: &CommandContext<'_>,
    store: Arc<dyn Store>,
    id: RetrospectiveId,
    act: &AuditArgs,
) -> anyhow::Result<Exit> {
    let told = CancelService::new(store, Arc::new(SystemClock))
        .cancel(asked.tenant, id, &act.by, &act.reason)
        .await?;
    print_outcome(asked, told, "retrospective", &id)
}

fn print_outcome(
    asked: &CommandContext<'_>,
    told: Option<CancelAnswer>,
    what: &str,
    id: &impl std::fmt::Display,
) -> anyhow::Result<Exit> {
    let refused = told.as_ref().is_some_and(|told| told.did == ActionStatus::Refused);
    let exit = super::queries::print_found(asked, told, what, id, |told| told.detail.clone())?;
    Ok(if refused { Exit::ProblemFound } else { exit })
}
