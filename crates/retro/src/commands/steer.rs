//! What people do about retrospectives: `retro retrospectives cancel` and `retro dead-letters replay`. Both work beside
//! a running program, whose relay sends what they open.

use std::sync::Arc;

use retro_config::Config;
use retro_core::id::{DeadLetterId, RetrospectiveId};
use retro_operator::{Did, Steering, Told};
use retro_store::Store;
use tokio::sync::Notify;

use super::Exit;
use super::read::Asked;
use crate::cli::ActArgs;
use crate::clock::SystemClock;
use crate::policies::PolicyBook;

pub(super) async fn cancel(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    id: RetrospectiveId,
    act: &ActArgs,
) -> anyhow::Result<Exit> {
    let told = steering(config, store)?.cancel(asked.tenant, id, &act.by, &act.reason).await?;
    answer(asked, told, "retrospective", &id)
}

pub(super) async fn replay(
    asked: &Asked<'_>,
    config: &Config,
    store: Arc<dyn Store>,
    id: DeadLetterId,
    act: &ActArgs,
) -> anyhow::Result<Exit> {
    let told = steering(config, store)?.replay(asked.tenant, id, &act.by, &act.reason).await?;
    answer(asked, told, "dead letter", &id)
}

fn steering(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<Steering> {
    let policies = Arc::new(PolicyBook::load(config.pipelines.as_deref())?);
    Ok(Steering::new(store, policies, Arc::new(SystemClock), Arc::new(Notify::new())))
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
