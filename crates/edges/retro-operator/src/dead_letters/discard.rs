//! Discards dead letters, one or many. A discarded dead letter is kept and can still be replayed.

use axum::Json;
use axum::extract::State;
use retro_core::id::{DeadLetterId, Tenant};
use retro_http::{Caller, JsonBody, PathId, Problem};
use retro_store::{AuditAction, DeadLetterStatus, DiscardResult};
use serde::Serialize;
use utoipa::ToSchema;

use super::selection::{BulkRequest, format_dead_letter_count};
use super::{
    ActionResult, DeadLetterSelection, PredictedEffect, Prediction, ReplayError, ReplayService,
    describe_replay,
};
use crate::audit_log::describe_attribution;
use crate::command::{ActionStatus, CommandRequest, actor_name};
use crate::http::JsonResult;

/// Number of dead letters discarded per transaction. Such a transaction takes about a tenth of a second, so
/// it hardly delays a counter that waits for its locks.
const DISCARD_CHUNK: usize = 200;

impl ReplayService {
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

    /// Predicts the result of discarding one dead letter now. Returns `None` if the tenant has no such dead
    /// letter.
    pub async fn dry_run_discard(
        &self,
        tenant: &Tenant,
        id: DeadLetterId,
    ) -> Result<Option<Prediction>, ReplayError> {
        let Some(dead_letter) = self.store.find_dead_letter(tenant, id).await? else { return Ok(None) };
        let unchanged = match dead_letter.status {
            DeadLetterStatus::Open => {
                let reason = "it would be kept and could still be replayed".to_owned();
                return Ok(Some(self.build_prediction(id, Ok((PredictedEffect::Discard, reason)))));
            }
            DeadLetterStatus::Discarded => {
                let log = self.store.list_audit_rows(tenant, id.0).await?;
                let discarded = log.into_iter().rev().find(|row| row.action == AuditAction::Discarded);
                discarded.map(|row| DiscardResult::AlreadyDiscarded(row.act))
            }
            DeadLetterStatus::Replaying | DeadLetterStatus::Handled => {
                self.store.list_replays(tenant, id).await?.pop().map(DiscardResult::Replayed)
            }
            DeadLetterStatus::Replayed => Some(DiscardResult::Reopened),
        };
        let result = unchanged.and_then(|answer| discard_result(&answer));
        let reason = result.map_or_else(
            || format!("the dead letter is {}", dead_letter.status.as_str()),
            |result| result.detail,
        );
        Ok(Some(self.build_prediction(id, Ok((PredictedEffect::Nothing, reason)))))
    }

    /// Discards the selected dead letters, `DISCARD_CHUNK` per transaction. If it fails, some of them may
    /// already be discarded.
    pub async fn discard_many(
        &self,
        tenant: &Tenant,
        chosen: &DeadLetterSelection,
        by: &str,
        reason: &str,
    ) -> Result<ActionResult, ReplayError> {
        let act = self.build_attribution(by, reason)?;
        let chosen = self.select_dead_letters(tenant, chosen).await?;
        let ids: Vec<DeadLetterId> = chosen.iter().map(|dead_letter| dead_letter.id).collect();
        let mut answers = Vec::with_capacity(ids.len());
        for some in ids.chunks(DISCARD_CHUNK) {
            answers.extend(self.store.discard_dead_letters(tenant, some, &act).await?);
        }
        let now = answers.iter().filter(|answer| **answer == DiscardResult::Discarded).count();
        let (status, unchanged) =
            (if now > 0 { ActionStatus::Done } else { ActionStatus::AlreadyDone }, answers.len() - now);
        let detail = match unchanged {
            0 => format!("{} discarded", format_dead_letter_count(now)),
            unchanged => format!(
                "{} discarded; {} unchanged, because somebody had acted on them",
                format_dead_letter_count(now),
                unchanged
            ),
        };
        Ok(ActionResult { status, replay: None, retrospective: None, epoch: None, detail })
    }
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

/// Result of discarding a dead letter, or the prediction of a dry run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum DiscardResponse {
    Result(ActionResult),
    DryRun(Prediction),
}

/// Result of discarding, or the selected ids for a dry run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum BulkDiscardResponse {
    Result(ActionResult),
    Selected {
        /// Ids of the dead letters that would be discarded, oldest first.
        #[schema(value_type = Vec<String>)]
        dead_letters: Vec<DeadLetterId>,
    },
}

/// Discards a dead letter, which is kept and can still be replayed, or predicts the result if `dry_run` is set.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/discard", tag = "people", request_body = CommandRequest, params(("id" = String, Path, description = "the id")), responses((status = 200, body = DiscardResponse)))]
pub(super) async fn discard_dead_letter(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
    PathId(id): PathId<DeadLetterId>,
    JsonBody(request): JsonBody<CommandRequest>,
) -> JsonResult<DiscardResponse> {
    let missing = || Problem::not_found("dead letter", id);
    if request.dry_run {
        let prediction = replays.dry_run_discard(&tenant, id).await?;
        return Ok(Json(DiscardResponse::DryRun(prediction.ok_or_else(missing)?)));
    }
    let by = actor_name(request.by.as_deref());
    let result = replays.discard_one(&tenant, id, by, &request.reason).await?.ok_or_else(missing)?;
    result.status.check_not_refused(&result.detail)?;
    Ok(Json(DiscardResponse::Result(result)))
}

/// Discards many dead letters, or returns their ids if `dry_run` is set.
#[utoipa::path(post, path = "/v1/dead-letters/discard", tag = "people", request_body = BulkRequest, responses((status = 200, body = BulkDiscardResponse)))]
pub(super) async fn discard_dead_letters(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
    JsonBody(request): JsonBody<BulkRequest>,
) -> JsonResult<BulkDiscardResponse> {
    let chosen = request.selection()?;
    if request.dry_run {
        let dead_letters = replays.list_selected_ids(&tenant, &chosen).await?;
        return Ok(Json(BulkDiscardResponse::Selected { dead_letters }));
    }
    let result = replays.discard_many(&tenant, &chosen, request.by(), &request.reason).await?;
    Ok(Json(BulkDiscardResponse::Result(result)))
}

#[cfg(test)]
mod tests {
    use retro_store::ReplayState;

    use super::*;
    use crate::cancel::tests::act;
    use crate::dead_letters::replay::tests::{check, row};

    #[test]
    fn every_answer_to_a_discard_is_one_sentence_that_says_what_is_now() {
        let check = |answer, status, parts: &[&str]| check(&discard_result(&answer).unwrap(), status, parts);
        check(DiscardResult::Discarded, ActionStatus::Done, &["discarded", "it is kept"]);
        check(DiscardResult::AlreadyDiscarded(act()), ActionStatus::AlreadyDone, &["by ann", "a load test"]);
        check(
            DiscardResult::Replayed(row(ReplayState::Sent, None)),
            ActionStatus::Refused,
            &["by ann", "stays as it is"],
        );
        check(DiscardResult::Reopened, ActionStatus::Refused, &["opened the next retrospective"]);
        assert_eq!(discard_result(&DiscardResult::NotFound), None);
    }
}
