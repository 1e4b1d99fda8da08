//! Shows and cancels batches of replays. A batch is started by a replay of many dead letters.

use axum::Json;
use axum::extract::State;
use retro_core::id::{ReplayBatchId, Tenant};
use retro_http::{Caller, JsonBody, PathId, Problem};
use retro_store::{CancelBatchResult, ReplayBatchItem, ReplayBatchRow};
use serde::Serialize;
use utoipa::ToSchema;

use super::selection::format_dead_letter_count;
use super::{ReplayError, ReplayService};
use crate::audit_log::describe_attribution;
use crate::command::{ActionStatus, CommandRequest, actor_name};
use crate::http::JsonResult;
use crate::text;
use crate::text_table::{Layout, render_table};

/// Maximum number of batches in a list, and of dead letters in the response for one batch.
const LISTED_MAX: u32 = 1000;

/// Predicted result of cancelling a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CancelBatchPrediction {
    /// Id of the batch.
    #[schema(value_type = String)]
    pub batch: ReplayBatchId,
    /// Number of dead letters that the batch would no longer send; 0 if it has already ended.
    pub unsent: u32,
    /// Predicted result in one sentence.
    pub detail: String,
}

impl ReplayService {
    /// Cancels a batch, which then sends no further dead letters. Returns `None` if the tenant has no such batch.
    pub async fn cancel_batch(
        &self,
        tenant: &Tenant,
        id: ReplayBatchId,
        by: &str,
        reason: &str,
    ) -> Result<Option<(ActionStatus, ReplayBatchRow)>, ReplayError> {
        let act = self.build_attribution(by, reason)?;
        Ok(match self.store.cancel_replay_batch(tenant, id, &act).await? {
            CancelBatchResult::NotFound => None,
            CancelBatchResult::Cancelled(row) => Some((ActionStatus::Done, row)),
            CancelBatchResult::AlreadyEnded(row) => Some((ActionStatus::AlreadyDone, row)),
        })
    }

    /// Predicts the result of cancelling a batch now. Returns `None` if the tenant has no such batch.
    pub async fn dry_run_cancel_batch(
        &self,
        tenant: &Tenant,
        id: ReplayBatchId,
    ) -> Result<Option<CancelBatchPrediction>, ReplayError> {
        // The row alone tells the result; its items are not needed.
        let found = self.store.find_replay_batch(tenant, id, 1).await?;
        Ok(found.map(|(row, _)| predict_cancel(&row)))
    }

    /// Redacts the results of the dead letters in a batch, because results may quote messages.
    pub fn redact_items(&self, mut items: Vec<ReplayBatchItem>) -> Vec<ReplayBatchItem> {
        items
            .iter_mut()
            .for_each(|item| item.result = item.result.as_deref().map(|result| (self.redact)(result)));
        items
    }
}

fn predict_cancel(row: &ReplayBatchRow) -> CancelBatchPrediction {
    if !row.state.is_open() {
        let detail = "the batch has already ended: nothing would change".to_owned();
        return CancelBatchPrediction { batch: row.id, unsent: 0, detail };
    }
    let unsent = row.progress.waiting;
    let (waiting, under_way) = (
        format_dead_letter_count(unsent as usize),
        format_dead_letter_count(row.progress.under_way as usize),
    );
    let detail = format!(
        "the batch would be cancelled: {waiting} would not be sent, {under_way} under way would continue"
    );
    CancelBatchPrediction { batch: row.id, unsent, detail }
}

/// Renders the progress of a batch in one line.
pub fn render_progress(row: &ReplayBatchRow) -> String {
    let retro_core::replay::BatchProgress { waiting, under_way, handled, failed, skipped } = row.progress;
    format!(
        "{}: {handled} handled, {failed} failed again, {skipped} skipped, {under_way} under way, {waiting} waiting",
        row.state.as_str()
    )
}

/// Renders batches as a table for a terminal that is `columns` characters wide.
pub fn render_batches(rows: &[ReplayBatchRow], layout: impl Into<Layout>) -> String {
    if rows.is_empty() {
        return "no batches\n".to_owned();
    }
    let row = |row: &ReplayBatchRow| {
        let purpose =
            format!("{} — {}", text::single_line(&row.filter_text), text::single_line(&row.act.reason));
        [
            text::format_timestamp(row.created_at),
            text::single_line(&row.act.by),
            render_progress(row),
            purpose,
            retro_core::id::short_id(row.id.0),
        ]
    };
    render_table(
        layout,
        ["requested", "by", "progress", "filter and reason", "id"],
        rows.iter().map(row).collect(),
    )
}

/// Renders one batch with its dead letters for a terminal that is `columns` characters wide.
pub fn render_batch(row: &ReplayBatchRow, of: &[ReplayBatchItem], columns: u16) -> String {
    let ended = row
        .end_reason
        .as_deref()
        .map(|reason| format!("ended      {}\n", text::single_line(reason)))
        .unwrap_or_default();
    let pace = &row.pace;
    let head = format!(
        "batch {}\n\nstate      {}\nfilter     {}\nrequested  {}\npace       at most {} dead letters a second, {} first; stops if more than {} % fail\n{ended}\n",
        row.id,
        render_progress(row),
        text::single_line(&row.filter_text),
        describe_attribution(&row.act),
        f64::from(pace.rate_milli) / 1000.0,
        pace.canary,
        f64::from(pace.failed_permille_max) / 10.0,
    );
    let line = |one: &ReplayBatchItem| {
        let result = text::single_line(one.result.as_deref().unwrap_or_default());
        [one.position.to_string(), one.state.clone(), result, one.dead_letter.to_string()]
    };
    format!(
        "{head}{}",
        render_table(columns, ["no.", "state", "result", "dead letter"], of.iter().map(line).collect())
    )
}

/// A batch of replays.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BatchView {
    /// State, progress, pace and attribution of the batch.
    #[serde(flatten)]
    batch: ReplayBatchRow,
    /// Dead letters of the batch with their results, finished ones first; absent in a list of batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    items: Option<Vec<ReplayBatchItem>>,
}

/// List of replay batches, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BatchList {
    items: Vec<BatchView>,
}

/// The batch after it was cancelled, or the prediction of a dry run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "an answer is serialized at once")]
pub(super) enum CancelBatchResponse {
    DryRun(CancelBatchPrediction),
    Result(BatchView),
}

/// Lists batches of replays, newest first.
#[utoipa::path(get, path = "/v1/dead-letters/batches", tag = "people", responses((status = 200, body = BatchList)))]
pub(super) async fn list_batches(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
) -> JsonResult<BatchList> {
    let rows = replays.store.list_replay_batches(&tenant, LISTED_MAX).await?;
    let items = rows.into_iter().map(|batch| BatchView { batch, items: None }).collect();
    Ok(Json(BatchList { items }))
}

/// Returns one batch of replays with the results of its dead letters.
#[utoipa::path(get, path = "/v1/dead-letters/batches/{id}", tag = "people", params(("id" = String, Path, description = "the id")), responses((status = 200, body = BatchView)))]
pub(super) async fn get_batch(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
    PathId(id): PathId<ReplayBatchId>,
) -> JsonResult<BatchView> {
    let found = replays.store.find_replay_batch(&tenant, id, LISTED_MAX).await?;
    let (batch, items) = found.ok_or_else(|| Problem::not_found("batch", id))?;
    Ok(Json(BatchView { batch, items: Some(replays.redact_items(items)) }))
}

/// Cancels a batch, which then sends no further dead letters, or predicts the result if `dry_run` is set.
/// Replays under way continue.
#[utoipa::path(post, path = "/v1/dead-letters/batches/{id}/cancel", tag = "people", request_body = CommandRequest, params(("id" = String, Path, description = "the id")), responses((status = 200, body = CancelBatchResponse)))]
pub(super) async fn cancel_batch(
    State(replays): State<ReplayService>,
    Caller(tenant): Caller,
    PathId(id): PathId<ReplayBatchId>,
    JsonBody(request): JsonBody<CommandRequest>,
) -> JsonResult<CancelBatchResponse> {
    let missing = || Problem::not_found("batch", id);
    if request.dry_run {
        let prediction = replays.dry_run_cancel_batch(&tenant, id).await?;
        return Ok(Json(CancelBatchResponse::DryRun(prediction.ok_or_else(missing)?)));
    }
    let by = actor_name(request.by.as_deref());
    let result = replays.cancel_batch(&tenant, id, by, &request.reason).await?;
    let (_, batch) = result.ok_or_else(missing)?;
    Ok(Json(CancelBatchResponse::Result(BatchView { batch, items: None })))
}
