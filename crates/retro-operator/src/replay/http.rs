//! Defines the HTTP routes that replay and discard dead letters.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::{DeadLetterId, ReplayBatchId, Workflow};
use retro_core::replay::{DEFAULT_FAILED_PERMILLE_MAX, DEFAULT_RATE_MILLI, ReplayPace};
use retro_events::Role;
use retro_http::{Api, Caller, JsonBody, PathId, Problem};
use retro_store::{DeadLetterFilter, DeadLetterStatus, ReplayBatchItem, ReplayBatchRow};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{
    ActionResult, BatchStarted, DeadLetterSelection, DryRunResult, Prediction, ReplayError, ReplayService,
};
use crate::cancel::ActionStatus;
use crate::dead_letters::DeadLetterSearch;
use crate::http::store_problem;

/// Actor that the audit log records if a request names none. Credentials will replace this name.
const ANONYMOUS_ACTOR: &str = "somebody over HTTP";
/// Maximum number of batches in a list, and of dead letters in the response for one batch.
const LISTED_MAX: u32 = 1000;

/// Returns the routes that replay and discard dead letters, under `/v1`. Merge them with other routes and
/// pass them to [`retro_http::serve`].
pub fn router(replays: ReplayService) -> Api {
    routes().with_state(replays)
}

/// Returns the routes without their state, for the OpenAPI description.
pub(crate) fn routes() -> Api<ReplayService> {
    Api::new()
        .routes(routes!(replay_dead_letter))
        .routes(routes!(replay_dead_letters))
        .routes(routes!(discard_dead_letter))
        .routes(routes!(discard_dead_letters))
        .routes(routes!(list_batches))
        .routes(routes!(get_batch))
        .routes(routes!(cancel_batch))
}

/// Request to replay or discard one dead letter, or to cancel a batch.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct ReplayRequest {
    /// Reason for the command, recorded in the audit log. A dry run needs no reason.
    #[serde(default)]
    reason: String,
    /// Name of the operator. The name is not verified, because requests carry no credentials yet.
    by: Option<String>,
    /// `true` to predict the result of a replay and change nothing. Discarding a dead letter and cancelling a
    /// batch ignore it.
    #[serde(default)]
    dry_run: bool,
    /// Version of the dead letter to replay; 0 is the original. Default: the newest version.
    version: Option<u32>,
}

/// Request to replay or discard many dead letters.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct BulkRequest {
    /// Reason for the command, recorded in the audit log. A dry run needs no reason.
    #[serde(default)]
    reason: String,
    /// Name of the operator. The name is not verified, because requests carry no credentials yet.
    by: Option<String>,
    /// `true` to return the predicted result and change nothing.
    #[serde(default)]
    dry_run: bool,
    /// `true` to confirm that every dead letter is selected; required if there is no filter.
    #[serde(default)]
    all: bool,
    /// Only the dead letters with these ids.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    ids: Vec<DeadLetterId>,
    /// Only dead letters whose rejection has this code.
    #[schema(value_type = Option<String>)]
    code: Option<DeadLetterCode>,
    /// Only dead letters of the consumer with this role.
    role: Option<String>,
    /// Only dead letters of this workflow.
    #[schema(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only messages that were dead-lettered at or after this time, in RFC 3339.
    #[schema(value_type = Option<String>)]
    since: Option<Timestamp>,
    /// Only messages that were dead-lettered before this time, in RFC 3339.
    #[schema(value_type = Option<String>)]
    until: Option<Timestamp>,
    /// Only dead letters whose redacted message contains this text, ignoring case.
    text: Option<String>,
    /// Only dead letters with this status. Default: open, or any status if `ids` are given.
    #[schema(value_type = Option<String>)]
    status: Option<DeadLetterStatus>,
    /// For replays: number of dead letters to send first. The rest is sent only if all of these succeed. Default: 0.
    canary: Option<u32>,
    /// For replays: number of dead letters to send per 1000 seconds. Default: 5000, which is 5 per second.
    rate_milli: Option<u32>,
    /// For replays: share of failed dead letters, in thousandths, above which the batch stops. Default: 200.
    failed_permille_max: Option<u32>,
}

impl BulkRequest {
    fn selection(&self) -> Result<DeadLetterSelection, Problem> {
        // Parsed, because an unknown role would silently select nothing.
        let role = self.role.as_deref().map(str::parse::<Role>).transpose();
        let role = role.map_err(|problem| Problem::invalid_field("role", problem))?;
        let filter = DeadLetterFilter {
            ids: self.ids.clone(),
            code: self.code,
            consumer: role.map(|role| role.as_str().to_owned()),
            workflow: self.workflow.clone(),
            since: self.since,
            until: self.until,
            status: self.status,
            ..DeadLetterFilter::default()
        };
        Ok(DeadLetterSelection {
            search: DeadLetterSearch { filter, text: self.text.clone() },
            all: self.all,
        })
    }

    fn build_pace(&self) -> ReplayPace {
        ReplayPace {
            canary: self.canary.unwrap_or(0),
            rate_milli: self.rate_milli.unwrap_or(DEFAULT_RATE_MILLI),
            failed_permille_max: self.failed_permille_max.unwrap_or(DEFAULT_FAILED_PERMILLE_MAX),
        }
    }

    fn by(&self) -> &str {
        self.by.as_deref().unwrap_or(ANONYMOUS_ACTOR)
    }
}

/// Result of a replay, or the prediction of a dry run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum ReplayResponse {
    Result(ActionResult),
    DryRun(Prediction),
}

/// The started batch, or the predictions of a dry run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum BulkReplayResponse {
    Started(BatchStarted),
    DryRun(DryRunResult),
}

/// Result of discarding, or the selected ids for a dry run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum BulkDiscardResponse {
    Result(ActionResult),
    Selected {
        /// Ids of the dead letters that would be discarded, oldest first.
        #[schema(value_type = Vec<String>)]
        dead_letters: Vec<DeadLetterId>,
    },
}

/// A batch of replays.
#[derive(Debug, Serialize, ToSchema)]
struct BatchView {
    /// State, progress, pace and attribution of the batch.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    batch: ReplayBatchRow,
    /// Dead letters of the batch with their results, finished ones first; absent in a list of batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    items: Option<Vec<ReplayBatchItem>>,
}

/// List of replay batches, newest first.
#[derive(Debug, Serialize, ToSchema)]
struct BatchList {
    items: Vec<BatchView>,
}

/// Replays a dead letter, or predicts the result if `dry_run` is set.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/replay", tag = "people", request_body = ReplayRequest, params(("id" = String, Path, description = "the id")), responses((status = 200, body = ReplayResponse)))]
async fn replay_dead_letter(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
    PathId(id): PathId<DeadLetterId>,
    JsonBody(request): JsonBody<ReplayRequest>,
) -> Result<Json<ReplayResponse>, Problem> {
    let missing = || Problem::not_found("dead letter", id);
    if request.dry_run {
        let prediction = replays.dry_run_one(&tenant, id, request.version).await.map_err(to_problem)?;
        return Ok(Json(ReplayResponse::DryRun(prediction.ok_or_else(missing)?)));
    }
    let by = request.by.as_deref().unwrap_or(ANONYMOUS_ACTOR);
    let result =
        replays.replay_one(&tenant, id, request.version, by, &request.reason).await.map_err(to_problem)?;
    Ok(Json(ReplayResponse::Result(conflict_if_refused(result.ok_or_else(missing)?)?)))
}

/// Replays many dead letters as a batch, or predicts the results if `dry_run` is set.
#[utoipa::path(post, path = "/v1/dead-letters/replay", tag = "people", request_body = BulkRequest, responses((status = 202, body = BulkReplayResponse), (status = 200, body = BulkReplayResponse, description = "of a dry run")))]
async fn replay_dead_letters(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
    JsonBody(request): JsonBody<BulkRequest>,
) -> Result<(StatusCode, Json<BulkReplayResponse>), Problem> {
    let chosen = request.selection()?;
    if request.dry_run {
        let prediction = replays.dry_run(&tenant, &chosen).await.map_err(to_problem)?;
        return Ok((StatusCode::OK, Json(BulkReplayResponse::DryRun(prediction))));
    }
    let started =
        replays.start_batch(&tenant, &chosen, request.build_pace(), request.by(), &request.reason).await;
    Ok((StatusCode::ACCEPTED, Json(BulkReplayResponse::Started(started.map_err(to_problem)?))))
}

/// Discards a dead letter, which is kept and can still be replayed.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/discard", tag = "people", request_body = ReplayRequest, params(("id" = String, Path, description = "the id")), responses((status = 200, body = ActionResult)))]
async fn discard_dead_letter(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
    PathId(id): PathId<DeadLetterId>,
    JsonBody(request): JsonBody<ReplayRequest>,
) -> Result<Json<ActionResult>, Problem> {
    let by = request.by.as_deref().unwrap_or(ANONYMOUS_ACTOR);
    let result = replays.discard_one(&tenant, id, by, &request.reason).await.map_err(to_problem)?;
    Ok(Json(conflict_if_refused(result.ok_or_else(|| Problem::not_found("dead letter", id))?)?))
}

/// Discards many dead letters, or returns their ids if `dry_run` is set.
#[utoipa::path(post, path = "/v1/dead-letters/discard", tag = "people", request_body = BulkRequest, responses((status = 200, body = BulkDiscardResponse)))]
async fn discard_dead_letters(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
    JsonBody(request): JsonBody<BulkRequest>,
) -> Result<Json<BulkDiscardResponse>, Problem> {
    let chosen = request.selection()?;
    if request.dry_run {
        let dead_letters = replays.list_selected_ids(&tenant, &chosen).await.map_err(to_problem)?;
        return Ok(Json(BulkDiscardResponse::Selected { dead_letters }));
    }
    let result =
        replays.discard_many(&tenant, &chosen, request.by(), &request.reason).await.map_err(to_problem)?;
    Ok(Json(BulkDiscardResponse::Result(result)))
}

/// Lists batches of replays, newest first.
#[utoipa::path(get, path = "/v1/dead-letters/batches", tag = "people", responses((status = 200, body = BatchList)))]
async fn list_batches(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
) -> Result<Json<BatchList>, Problem> {
    let rows = replays
        .store
        .list_replay_batches(&tenant, LISTED_MAX)
        .await
        .map_err(|cause| store_problem(&cause))?;
    let items = rows.into_iter().map(|batch| BatchView { batch, items: None }).collect();
    Ok(Json(BatchList { items }))
}

/// Returns one batch of replays with the results of its dead letters.
#[utoipa::path(get, path = "/v1/dead-letters/batches/{id}", tag = "people", params(("id" = String, Path, description = "the id")), responses((status = 200, body = BatchView)))]
async fn get_batch(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
    PathId(id): PathId<ReplayBatchId>,
) -> Result<Json<BatchView>, Problem> {
    let found = replays
        .store
        .find_replay_batch(&tenant, id, LISTED_MAX)
        .await
        .map_err(|cause| store_problem(&cause))?;
    let (batch, items) = found.ok_or_else(|| Problem::not_found("batch", id))?;
    Ok(Json(BatchView { batch, items: Some(replays.redact_items(items)) }))
}

/// Cancels a batch, which then sends no further dead letters. Replays under way continue.
#[utoipa::path(post, path = "/v1/dead-letters/batches/{id}/cancel", tag = "people", request_body = ReplayRequest, params(("id" = String, Path, description = "the id")), responses((status = 200, body = BatchView)))]
async fn cancel_batch(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
    PathId(id): PathId<ReplayBatchId>,
    JsonBody(request): JsonBody<ReplayRequest>,
) -> Result<Json<BatchView>, Problem> {
    let by = request.by.as_deref().unwrap_or(ANONYMOUS_ACTOR);
    let result = replays.cancel_batch(&tenant, id, by, &request.reason).await.map_err(to_problem)?;
    let (_, batch) = result.ok_or_else(|| Problem::not_found("batch", id))?;
    Ok(Json(BatchView { batch, items: None }))
}

fn conflict_if_refused(result: ActionResult) -> Result<ActionResult, Problem> {
    match result.status {
        ActionStatus::Done | ActionStatus::AlreadyDone => Ok(result),
        ActionStatus::Refused => {
            Err(Problem::new(StatusCode::CONFLICT, "not possible in the current state", result.detail))
        }
    }
}

fn to_problem(error: ReplayError) -> Problem {
    match error {
        ReplayError::Attribution(error) => Problem::invalid_field(error.field, error.problem),
        ReplayError::Pace(ref wrong) => Problem::invalid_field(wrong.field, error.to_string()),
        ReplayError::NothingSelected => Problem::invalid_field("all", error.to_string()),
        ReplayError::TooMany => Problem::invalid_field("ids", error.to_string()),
        ReplayError::NoMatch => {
            Problem::new(StatusCode::NOT_FOUND, "there is no such thing", error.to_string())
        }
        ReplayError::Store(cause) => store_problem(&cause),
    }
}
