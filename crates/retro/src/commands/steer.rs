//! What people do about retrospectives: `retro retrospectives cancel`. It works beside a running program.

use std::sync::Arc;

use retro_core::id::RetrospectiveId;
use retro_operator::{Did, Steering, Told};
use retro_store::Store;

use super::Exit;
use super::read::Asked;
use crate::cli::ActArgs;
use crate::clock::SystemClock;

pub(super) async fn cancel(
    asked: &Asked<'_>,
    store: Arc<dyn Store>,
    id: RetrospectiveId,
    act: &ActArgs,
) -> anyhow::Result<Exit> {
    let told =
        Steering::new(store, Arc::new(SystemClock)).cancel(asked.tenant, id, &act.by, &act.reason).await?;
    answer(asked, told, "retrospective", &id)
}

fn answer(
    asked: &Asked<'_>,
    told: Option<Told>,
    what: &str,
    id: &impl std::fmt::Display,
) -> anyhow::Result<Exit> {
    let refused = told.as_ref().is_some_and(|told| told.did == Did::Refused);
    let exit = super::read::shown(asked, told, what, id, |told| told.detail.clone())?;
    Ok(if refused { Exit::NotInOrder } else { exit })
}
