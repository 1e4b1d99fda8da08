//! Replays and discards dead letters, one or many, and predicts the results of replays. Each result says in
//! one sentence what was done, or why nothing was done and who acted first.

mod batch;
mod dry_run;
mod http;

use std::sync::Arc;

use retro_core::cancel::{Attribution, AttributionError, ReopenError};
use retro_core::id::{DeadLetterId, Epoch, ReplayBatchId, ReplayId, RetrospectiveId, Tenant};
use retro_core::policy::Policies;
use retro_core::replay::{BATCH_DEAD_LETTERS_MAX, ReplayPaceError};
use retro_core::retrospective::{Retrospective, WorkflowState};
use retro_core::time::Clock;
use retro_events::hosts::DatarefHosts;
use retro_store::{
    DiscardResult, ReopenResult, ReplayPorts, ReplayRow, ReplayState, RequestReplayResult, StoreError,
};
use serde::Serialize;
use tokio::sync::Notify;
use utoipa::ToSchema;

use crate::SharedRedactFn;
use crate::cancel::{ActionStatus, describe_attribution};
use crate::dead_letters::DeadLetterSearch;
use crate::text;

pub use batch::{BatchStarted, render_batch, render_batches, render_progress};
pub use dry_run::{DryRunResult, PredictedEffect, Prediction};
pub use http::router as replay_router;
pub(crate) use http::routes;

/// Replays and discards dead letters, and predicts the results of replays.
#[derive(Clone)]
pub struct ReplayService {
    store: Arc<dyn ReplayPorts>,
    policies: Arc<dyn Policies>,
    clock: Arc<dyn Clock>,
    outbox: Arc<Notify>,
    hosts: DatarefHosts,
    redact: SharedRedactFn,
}

/// Dead letters that a bulk command applies to.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterSelection {
    /// Search that selects the dead letters; its limit is ignored.
    pub search: DeadLetterSearch,
    /// `true` to confirm that an empty search selects every dead letter.
    pub all: bool,
}

/// Result of a command on dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ActionResult {
    /// Outcome of the command: carried out now, carried out before, or refused.
    pub status: ActionStatus,
    /// Id of the replay that was queued now or before; absent if there is no replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub replay: Option<ReplayId>,
    /// Id of the retrospective that the replay opened; absent if it opened none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub retrospective: Option<RetrospectiveId>,
    /// Epoch of the retrospective that the replay opened; absent if it opened none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub epoch: Option<Epoch>,
    /// Result of the command in one sentence.
    pub detail: String,
}

/// Failure of a command on dead letters.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The actor or the reason is missing or too long.
    #[error(transparent)]
    Attribution(#[from] AttributionError),
    /// A value of the pace is out of bounds.
    #[error(transparent)]
    Pace(#[from] ReplayPaceError),
    /// The selection has neither ids nor a filter, and `all` is not set.
    #[error("no dead letters are selected: give ids or a filter, or confirm that all are meant")]
    NothingSelected,
    /// More than [`BATCH_DEAD_LETTERS_MAX`] dead letters match.
    #[error("more than {BATCH_DEAD_LETTERS_MAX} dead letters match: narrow the filter")]
    TooMany,
    /// No dead letter matches.
    #[error("no dead letter matches")]
    NoMatch,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ReplayService {
    /// Creates the service. `outbox` is notified when a replay may have been queued, to wake the relay.
    pub fn new(
        store: Arc<dyn ReplayPorts>,
        policies: Arc<dyn Policies>,
        clock: Arc<dyn Clock>,
        outbox: Arc<Notify>,
        redact: SharedRedactFn,
    ) -> Self {
        Self { store, policies, clock, outbox, hosts: DatarefHosts::default(), redact }
    }

    /// Sets the hosts from which the counter accepts trajectory bodies, which predictions depend on.
    pub fn with_dataref_hosts(self, hosts: DatarefHosts) -> Self {
        Self { hosts, ..self }
    }

    /// Replays one dead letter by queueing it for the relay. The replay of a failed retrospective's dead
    /// letter opens the next retrospective immediately instead. Returns `None` if the tenant has no such dead
    /// letter.
    pub async fn replay_one(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        version: Option<u32>,
        by: &str,
        reason: &str,
    ) -> Result<Option<ActionResult>, ReplayError> {
        let act = self.build_attribution(by, reason)?;
        let result = match self.store.replay_dead_letter(tenant, dead_letter, version, &act).await? {
            RequestReplayResult::ReopenInstead => {
                self.reopen_retrospective(tenant, dead_letter, &act).await?
            }
            other => replay_result(&other, version),
        };
        // The replay is already committed; the notification only saves one polling interval of the relay.
        self.outbox.notify_one();
        Ok(result)
    }

    /// Discards one dead letter. Returns `None` if the tenant has no such dead letter.
    pub async fn discard_one(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        by: &str,
        reason: &str,
    ) -> Result<Option<ActionResult>, ReplayError> {
        let act = self.build_attribution(by, reason)?;
        let mut answers = self.store.discard_dead_letters(tenant, &[dead_letter], &act).await?;
        Ok(answers.pop().and_then(|answer| discard_result(&answer)))
    }

    /// Opens the retrospective that follows a failed one. `dead_letter` is the dead letter of the failed
    /// retrospective.
    async fn reopen_retrospective(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        act: &Attribution,
    ) -> Result<Option<ActionResult>, StoreError> {
        let decide = |failed: &Retrospective, mut state: WorkflowState| {
            let opening = state.reopen_after(failed, &self.policies.policy_for(&failed.key), act.at)?;
            Ok((state, opening))
        };
        Ok(reopen_result(self.store.reopen_retrospective(tenant, dead_letter, act, &decide).await?))
    }

    /// Builds the attribution for the audit log. Secrets in the actor's name or reason are redacted before they are
    /// stored.
    fn build_attribution(&self, by: &str, reason: &str) -> Result<Attribution, AttributionError> {
        Attribution::new(&(self.redact)(by), &(self.redact)(reason), self.clock.now())
    }
}

impl ActionResult {
    const fn new_unlinked(status: ActionStatus, detail: String) -> Self {
        Self { status, replay: None, retrospective: None, epoch: None, detail }
    }

    fn for_retrospective(status: ActionStatus, one: &Retrospective, detail: String) -> Self {
        Self { retrospective: Some(one.id), epoch: Some(one.epoch), ..Self::new_unlinked(status, detail) }
    }
}

fn replay_result(answer: &RequestReplayResult, version: Option<u32>) -> Option<ActionResult> {
    Some(match answer {
        RequestReplayResult::NotFound | RequestReplayResult::ReopenInstead => return None,
        RequestReplayResult::Scheduled(row) => ActionResult {
            replay: Some(row.id),
            ..ActionResult::new_unlinked(
                ActionStatus::Done,
                format!("{} waits for the relay", replay_label(row)),
            )
        },
        RequestReplayResult::AlreadyRequested(row) => ActionResult {
            replay: Some(row.id),
            ..ActionResult::new_unlinked(
                ActionStatus::AlreadyDone,
                format!("the dead letter was replayed before: {}", describe_replay(row)),
            )
        },
        RequestReplayResult::UnknownVersion => {
            let version = version.unwrap_or_default();
            ActionResult::new_unlinked(
                ActionStatus::Refused,
                format!("the dead letter has no version {version}: it stays as it is"),
            )
        }
    })
}

fn discard_result(answer: &DiscardResult) -> Option<ActionResult> {
    let stays = "the dead letter stays as it is";
    Some(match answer {
        DiscardResult::NotFound => return None,
        DiscardResult::Discarded => ActionResult::new_unlinked(
            ActionStatus::Done,
            "the dead letter is discarded; it is kept and can still be replayed".to_owned(),
        ),
        DiscardResult::AlreadyDiscarded(act) => ActionResult::new_unlinked(
            ActionStatus::AlreadyDone,
            format!("the dead letter was already discarded, {}", describe_attribution(act)),
        ),
        DiscardResult::Replayed(row) => ActionResult {
            replay: Some(row.id),
            ..ActionResult::new_unlinked(ActionStatus::Refused, format!("{}: {stays}", describe_replay(row)))
        },
        DiscardResult::Reopened => ActionResult::new_unlinked(
            ActionStatus::Refused,
            format!("its replay opened the next retrospective: {stays}"),
        ),
    })
}

/// Describes a replay and its result in one sentence without a full stop. The sentence quotes the rejection, so
/// callers must redact it.
pub fn describe_replay(row: &ReplayRow) -> String {
    let came = match (&row.outcome, row.state) {
        (Some(outcome), _) => outcome.to_string(),
        (None, ReplayState::Waiting) => "it waits to be sent".to_owned(),
        (None, _) => "it was sent, and nothing has come of it yet".to_owned(),
    };
    format!("{}, {}; {came}", replay_label(row), describe_attribution(&row.act))
}

fn replay_label(row: &ReplayRow) -> String {
    let bytes = match row.version {
        0 => String::new(),
        version => format!(" (version {version} of its bytes)"),
    };
    let batch = row.batch.map(|batch: ReplayBatchId| format!(" in batch {batch}")).unwrap_or_default();
    format!("replay {}{bytes}{batch}", row.number)
}

fn reopen_result(answer: ReopenResult) -> Option<ActionResult> {
    let name = crate::cancel::retrospective_name;
    Some(match answer {
        ReopenResult::NotFound | ReopenResult::OtherCode(_) => return None,
        ReopenResult::Opened(one) => {
            let detail = format!(
                "{} is open over runs {} to {}, with a seed of its own; no pause holds it back",
                name(&one),
                one.first,
                one.last
            );
            ActionResult::for_retrospective(ActionStatus::Done, &one, detail)
        }
        ReopenResult::AlreadyReopened { act, opened: one } => {
            let state = one.state.as_str();
            let detail = format!(
                "the dead letter was replayed before, {}: that opened {}, which is {state}",
                describe_attribution(&act),
                name(&one)
            );
            ActionResult::for_retrospective(ActionStatus::AlreadyDone, &one, detail)
        }
        ReopenResult::Refused(why) => {
            ActionResult::new_unlinked(ActionStatus::Refused, describe_reopen_error(why))
        }
    })
}

pub(crate) fn describe_reopen_error(why: ReopenError) -> String {
    match why {
        ReopenError::OneIsOpen { epoch } => format!(
            "retrospective {epoch} of the workflow is open already and the released runs are in it: there is nothing \
             to open, and the dead letter stays as it is"
        ),
        ReopenError::ClaimedSince { claimed } => format!(
            "a later retrospective has looked back at the released runs (up to run {claimed} all are claimed): there \
             is nothing to open, and the dead letter stays as it is"
        ),
    }
}

/// Formats a number of dead letters with its noun: `1 letter`, `2 letters`.
fn format_dead_letter_count(count: usize) -> String {
    text::format_count(count as u64, "dead letter")
}

#[cfg(test)]
mod tests;
