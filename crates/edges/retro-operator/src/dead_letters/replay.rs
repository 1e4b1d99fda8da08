//! Replays dead letters, one, or many as a batch. Each result says in one sentence what was done, or why
//! nothing was done and who acted first.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use retro_core::attribution::Attribution;
use retro_core::id::{DeadLetterId, ReplayBatchId, Tenant};
use retro_core::replay::ReplayPace;
use retro_core::retrospective::{Retrospective, WorkflowState};
use retro_http::{Caller, JsonBody, PathId, Problem};
use retro_store::{NewReplayBatch, ReopenResult, RequestReplayResult, StoreError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::describe_replay::{SPANS_NOT_SENT, describe_reopen_error, describe_replay, replay_label};
use super::selection::{BulkRequest, describe_search};
use super::{ActionResult, DeadLetterSelection, DryRunResult, Prediction, ReplayError, ReplayService};
use crate::audit_log::describe_attribution;
use crate::cancel::retrospective_name;
use crate::command::{ActionStatus, actor_name};
use crate::http::{ApiError, JsonResult};

/// Response to a request that started a replay batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BatchStarted {
    /// Id of the new batch.
    #[schema(value_type = String)]
    pub batch: ReplayBatchId,
    /// Number of dead letters in the batch.
    pub dead_letters: u64,
}

impl ReplayService {
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

    /// Starts a batch that replays the selected dead letters. The relay sends them at the given pace.
    pub async fn start_batch(
        &self,
        tenant: &Tenant,
        chosen: &DeadLetterSelection,
        pace: ReplayPace,
        by: &str,
        reason: &str,
    ) -> Result<BatchStarted, ReplayError> {
        pace.validate()?;
        let act = self.build_attribution(by, reason)?;
        let selected = self.select_dead_letters(tenant, chosen).await?;
        if selected.is_empty() {
            return Err(ReplayError::NoMatch);
        }
        // The operator may have searched for a secret.
        let filter_text = (self.redact)(&describe_search(&chosen.search));
        let dead_letters: Vec<_> =
            selected.iter().map(|dead_letter| (dead_letter.id, dead_letter.status)).collect();
        let count = dead_letters.len() as u64;
        let batch = self
            .store
            .start_replay_batch(tenant, &NewReplayBatch { filter_text, dead_letters, pace, act })
            .await?;
        Ok(BatchStarted { batch, dead_letters: count })
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
        RequestReplayResult::NoMessage => {
            ActionResult::new_unlinked(ActionStatus::Refused, SPANS_NOT_SENT.to_owned())
        }
        RequestReplayResult::UnknownVersion => {
            let version = version.unwrap_or_default();
            ActionResult::new_unlinked(
                ActionStatus::Refused,
                format!("the dead letter has no version {version}: it stays as it is"),
            )
        }
    })
}

fn reopen_result(answer: ReopenResult) -> Option<ActionResult> {
    let name = retrospective_name;
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

/// Request to replay one dead letter.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(super) struct ReplayRequest {
    /// Reason for the command, recorded in the audit log. A dry run needs no reason.
    #[serde(default)]
    reason: String,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    by: Option<String>,
    /// `true` to return the predicted result and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// Version of the dead letter to replay; 0 is the original. Default: the newest version.
    version: Option<u32>,
}

/// Result of a replay, or the prediction of a dry run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum ReplayResponse {
    Result(ActionResult),
    DryRun(Prediction),
}

/// The started batch, or the predictions of a dry run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum BulkReplayResponse {
    Started(BatchStarted),
    DryRun(DryRunResult),
}

/// Replays a dead letter, or predicts the result if `dry_run` is set.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/replay", tag = "people", request_body = ReplayRequest, params(("id" = String, Path, description = "the id")), responses((status = 200, body = ReplayResponse)))]
pub(super) async fn replay_dead_letter(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
    PathId(id): PathId<DeadLetterId>,
    JsonBody(request): JsonBody<ReplayRequest>,
) -> JsonResult<ReplayResponse> {
    let missing = || Problem::not_found("dead letter", id);
    if request.dry_run {
        let prediction = replays.dry_run_one(&tenant, id, request.version).await?;
        return Ok(Json(ReplayResponse::DryRun(prediction.ok_or_else(missing)?)));
    }
    let by = actor_name(request.by.as_deref());
    let result = replays.replay_one(&tenant, id, request.version, by, &request.reason).await?;
    let result = result.ok_or_else(missing)?;
    result.status.check_not_refused(&result.detail)?;
    Ok(Json(ReplayResponse::Result(result)))
}

/// Replays many dead letters as a batch, or predicts the results if `dry_run` is set.
#[utoipa::path(post, path = "/v1/dead-letters/replay", tag = "people", request_body = BulkRequest, responses((status = 202, body = BulkReplayResponse), (status = 200, body = BulkReplayResponse, description = "of a dry run")))]
pub(super) async fn replay_dead_letters(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
    JsonBody(request): JsonBody<BulkRequest>,
) -> Result<(StatusCode, Json<BulkReplayResponse>), ApiError> {
    let chosen = request.selection()?;
    if request.dry_run {
        let prediction = replays.dry_run(&tenant, &chosen).await?;
        return Ok((StatusCode::OK, Json(BulkReplayResponse::DryRun(prediction))));
    }
    let started =
        replays.start_batch(&tenant, &chosen, request.build_pace(), request.by(), &request.reason).await;
    Ok((StatusCode::ACCEPTED, Json(BulkReplayResponse::Started(started?))))
}

#[cfg(test)]
pub(super) mod tests;
