//! A person's hand on retrospectives: calling one off. The answer is a sentence that says what was done, or why nothing
//! was, and who came before.

mod http;

use std::sync::Arc;

use retro_core::id::{Epoch, RetrospectiveId, Tenant};
use retro_core::retrospective::{Retrospective, State, WorkflowState};
use retro_core::steer::{Act, ActError};
use retro_core::time::Clock;
use retro_store::{ActRow, Cancelled, SteerStore, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::words;

pub use http::router as steer_router;
pub(crate) use http::{SOMEBODY, routes};

/// What people may do about retrospectives.
#[derive(Clone)]
pub struct Steering {
    store: Arc<dyn SteerStore>,
    clock: Arc<dyn Clock>,
}

/// What came of an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Told {
    /// Whether it was done now, had been done before, or cannot be done as things stand.
    pub did: Did,
    /// The retrospective that is cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub retrospective: Option<RetrospectiveId>,
    /// Its epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub epoch: Option<Epoch>,
    /// In one sentence.
    pub detail: String,
}

/// Whether an act was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Did {
    /// Now.
    Done,
    /// Before, by this person or another: nothing changed.
    DoneBefore,
    /// It cannot be done as things stand: nothing changed.
    Refused,
}

/// Why an act could not even be asked for.
#[derive(Debug, thiserror::Error)]
pub enum SteerError {
    /// It does not say who or why.
    #[error(transparent)]
    Act(#[from] ActError),
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Something with what people did about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Acted<T> {
    /// The thing itself.
    #[serde(flatten)]
    pub of: T,
    /// What people did about it, the first act first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acts: Vec<ActRow>,
}

impl Steering {
    /// A hand over its ports.
    pub fn new(store: Arc<dyn SteerStore>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Cancels an open retrospective: its runs are released. `None` when the tenant has no such one.
    pub async fn cancel(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        by: &str,
        reason: &str,
    ) -> Result<Option<Told>, SteerError> {
        let now = self.clock.now();
        let act = Act::new(by, reason, now)?;
        let decide = |retrospective: &Retrospective, mut state: WorkflowState| {
            state.cancel(retrospective, now);
            state
        };
        Ok(cancelled(self.store.cancel(tenant, id, &act, &decide).await?))
    }
}

impl Told {
    fn about(did: Did, retrospective: &Retrospective, detail: String) -> Self {
        let (id, epoch) = (retrospective.id, retrospective.epoch);
        Self { did, retrospective: Some(id), epoch: Some(epoch), detail }
    }
}

fn cancelled(answer: Cancelled) -> Option<Told> {
    Some(match answer {
        Cancelled::Unknown => return None,
        Cancelled::Now { retrospective: one, .. } if one.asked.is_some() => {
            let detail =
                format!("{} is cancelled; it had claimed nothing, and the window is as it was", name(&one));
            Told::about(Did::Done, &one, detail)
        }
        Cancelled::Now { retrospective: one, state } => {
            let pause = state.paused_until.map(words::moment).unwrap_or_default();
            let runs = words::count(one.window_runs(), "run");
            let detail = format!(
                "{} is cancelled; its {runs} are released, and the workflow opens no other before {pause}",
                name(&one)
            );
            Told::about(Did::Done, &one, detail)
        }
        Cancelled::Ended { retrospective: one, act: Some(act) } => {
            let detail = format!("{} was cancelled before, {}", name(&one), whose(&act));
            Told::about(Did::DoneBefore, &one, detail)
        }
        Cancelled::Ended { retrospective: one, act: None } => {
            let ended = if one.state == State::Failed { "failed" } else { "closed" };
            let detail = format!("{} {ended} before it could be cancelled; its report stands", name(&one));
            Told::about(Did::Refused, &one, detail)
        }
    })
}

pub(crate) fn name(one: &Retrospective) -> String {
    let workflow = words::line(one.key.workflow.as_str());
    match one.asked {
        None => format!("retrospective {} of {workflow}", one.epoch),
        Some(_) => format!("manual retrospective {} of {workflow}", one.id),
    }
}

pub(crate) fn whose(act: &Act) -> String {
    format!("by {} at {} ({})", words::line(&act.by), words::moment(act.at), words::line(&act.reason))
}

/// What people did, a line each, for a terminal; empty when nobody did anything.
pub fn acts(rows: &[ActRow]) -> String {
    let opened = |row: &ActRow| row.opened.map(|id| format!("; it opened {id}")).unwrap_or_default();
    let detail =
        |row: &ActRow| row.detail.as_ref().map(|text| format!(": {}", words::line(text))).unwrap_or_default();
    let line =
        |row: &ActRow| format!("{} {}{}{}\n", row.deed.as_str(), whose(&row.act), opened(row), detail(row));
    rows.iter().map(line).collect()
}

#[cfg(test)]
pub(crate) mod tests;
