//! Stores replay batches and advances them step by step.

use retro_core::attribution::Attribution;
use retro_core::cancel::ReopenError;
use retro_core::id::{DeadLetterId, ReplayBatchId, Tenant};
use retro_core::replay::{BatchAction, BatchProgress};
use retro_store::cancel::DecideReopen;
use retro_store::replay::{
    CancelBatchResult, DecideBatchStep, NewReplayBatch, ReplayBatchItem, ReplayBatchRow, ReplayBatchState,
    RequestReplayResult, is_reopenable,
};
use retro_store::{AuditAction, DeadLetter, DeadLetterStatus, ReopenResult, Result};

use super::dialect::{Connection, OnTable, for_update, now_ms, storable_text};
use super::{audit, batch_items, cancel, scheduled_replays, stored_dead_letters};
use crate::rows::attribution::token_column;
use crate::rows::audit::AuditSubject;
use crate::rows::replay::{BatchItemRecord, BatchRecord};
use crate::{at, format_policy_time};

/// Stores a batch with the tenant's dead letters unless a batch with this id exists. Returns the id.
pub(crate) async fn start_batch(
    connection: &mut Connection,
    tenant: &Tenant,
    new: &NewReplayBatch,
) -> Result<ReplayBatchId> {
    // ON CONFLICT and the row count make a repeated request find its batch without adding the dead letters
    // again.
    const START: &str = concat!(
        "INSERT INTO replay_batches (id, tenant, filter_text, requested_by, reason, requested_at, canary, rate_milli,
             failed_permille_max, state, with_token, next_ms, created_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, ",
        now_ms!(),
        ", ",
        now_ms!(),
        ") ON CONFLICT (id) DO NOTHING"
    );
    let id = new.id(tenant);
    let state = if new.pace.canary > 0 { ReplayBatchState::Canary } else { ReplayBatchState::Running };
    let done = sqlx::query(START)
        .bind(id.to_string())
        .bind(tenant.as_str())
        .bind(storable_text(&new.filter_text))
        .bind(storable_text(&new.act.by))
        .bind(storable_text(&new.act.reason))
        .bind(format_policy_time(new.act.at))
        .bind(i64::from(new.pace.canary))
        .bind(i64::from(new.pace.rate_milli))
        .bind(i64::from(new.pace.failed_permille_max))
        .bind(state.as_str())
        .bind(token_column(&new.act))
        .execute(&mut *connection)
        .await
        .on_table("replay_batches")?;
    if done.rows_affected() == 1 {
        batch_items::store_batch_dead_letters(connection, tenant, id, &new.dead_letters).await?;
    }
    Ok(id)
}

/// Lists the open batches of all tenants, oldest first.
pub(crate) async fn list_open_batches(connection: &mut Connection) -> Result<Vec<ReplayBatchId>> {
    const OPEN: &str =
        "SELECT id FROM replay_batches WHERE state IN ('canary', 'running') ORDER BY created_ms, id";
    let rows: Vec<String> =
        sqlx::query_scalar(OPEN).fetch_all(connection).await.on_table("replay_batches")?;
    rows.iter().map(|id| at("replay_batches", id).parse(id)).collect()
}

/// Performs the action that `next` decides for a batch, and returns it. Returns `None` if the batch does not
/// exist or has ended.
pub(crate) async fn step_batch(
    connection: &mut Connection,
    id: ReplayBatchId,
    next: DecideBatchStep<'_>,
    reopen: DecideReopen<'_>,
) -> Result<Option<BatchAction>> {
    const CLOCK: &str =
        concat!("SELECT tenant, next_ms, ", now_ms!(), " FROM replay_batches WHERE id = $1", for_update!());
    let row: Option<(String, i64, i64)> = sqlx::query_as(CLOCK)
        .bind(id.to_string())
        .fetch_optional(&mut *connection)
        .await
        .on_table("replay_batches")?;
    let Some((tenant, due, now)) = row else { return Ok(None) };
    let place = at("replay_batches", id);
    let tenant: Tenant = place.parse(&tenant)?;
    let batch = find_batch(connection, &tenant, id).await?.filter(|batch| batch.state.is_open());
    let Some(batch) = batch else { return Ok(None) };
    let decided = next(&batch.pace, &batch.progress, place.parse_millis(due)?, place.parse_millis(now)?);
    match decided {
        BatchAction::Wait => {}
        BatchAction::Release(dead_letters) => {
            let mut sent = 0;
            for dead_letter in batch_items::list_waiting(connection, id, dead_letters).await? {
                sent +=
                    i64::from(handle_dead_letter(connection, &tenant, &batch, dead_letter, reopen).await?);
            }
            // Count from now if the batch is overdue: after downtime it must not catch up in a burst.
            schedule_next(connection, &batch, due.max(now) + sent * scheduled_replays::gap_ms(&batch.pace))
                .await?;
        }
        BatchAction::Stop(why) => {
            end_batch(connection, id, ReplayBatchState::Stopped, &why.to_string()).await?
        }
        BatchAction::Done => {
            end_batch(connection, id, ReplayBatchState::Done, &describe_progress(&batch.progress)).await?
        }
    }
    Ok(Some(decided))
}

/// Schedules the replay of one dead letter, reopens its retrospective, or skips it. Returns `false` if it was
/// skipped, because skipped dead letters do not count against the pace.
async fn handle_dead_letter(
    connection: &mut Connection,
    tenant: &Tenant,
    batch: &ReplayBatchRow,
    (dead_letter, chosen): (DeadLetterId, DeadLetterStatus),
    reopen: DecideReopen<'_>,
) -> Result<bool> {
    let stored = stored_dead_letters::load_locked(connection, tenant, dead_letter).await?;
    let stored = stored
        .ok_or_else(|| at("replay_batch_items", dead_letter).damaged_error("the dead letter is missing"))?;
    // Another operator has acted on the dead letter since it was selected; replaying it now would override
    // that.
    let (state, description) = if stored.status != chosen {
        ("skipped", format!("skipped: it is {} since it was chosen", stored.status.as_str()))
    } else if is_reopenable(stored.message.rejection.code) {
        reopen_retrospective(connection, tenant, &stored, &batch.act, reopen).await?
    } else {
        let how = scheduled_replays::ReplayOptions {
            tenant,
            version: None,
            act: &batch.act,
            batch: Some(batch.id),
            pace: &batch.pace,
        };
        match scheduled_replays::schedule_replay(connection, &stored, &how).await? {
            RequestReplayResult::Scheduled(_) => ("under_way", "it is being sent".to_owned()),
            RequestReplayResult::AlreadyRequested(row) => {
                ("skipped", format!("skipped: {} replayed it before", row.act.by))
            }
            RequestReplayResult::NoMessage => {
                ("skipped", "skipped: it holds the spans of a trace, which are no message".to_owned())
            }
            RequestReplayResult::ReopenInstead
            | RequestReplayResult::UnknownVersion
            | RequestReplayResult::NotFound => ("skipped", "skipped: it cannot be sent".to_owned()),
        }
    };
    batch_items::set_dead_letter_state(
        connection,
        &batch.id.to_string(),
        &dead_letter.to_string(),
        state,
        &description,
    )
    .await?;
    Ok(state != "skipped")
}

/// Reopens the failed retrospective that a dead letter records. Returns the dead letter's new state in the
/// batch and a human-readable description.
async fn reopen_retrospective(
    connection: &mut Connection,
    tenant: &Tenant,
    dead_letter: &DeadLetter,
    act: &Attribution,
    reopen: DecideReopen<'_>,
) -> Result<(&'static str, String)> {
    Ok(match cancel::reopen_failed_retrospective(connection, tenant, dead_letter.id, act, reopen).await? {
        ReopenResult::Opened(opened) => {
            ("handled", format!("retrospective {} of its workflow is open", opened.epoch))
        }
        ReopenResult::AlreadyReopened { opened, .. } => {
            ("skipped", format!("skipped: it opened retrospective {} before", opened.epoch))
        }
        ReopenResult::Refused(ReopenError::OneIsOpen { epoch }) => {
            ("skipped", format!("skipped: retrospective {epoch} of its workflow is open already"))
        }
        ReopenResult::Refused(ReopenError::ClaimedSince { .. }) => {
            ("skipped", "skipped: a later retrospective has looked back at its runs".to_owned())
        }
        ReopenResult::OtherCode(_) | ReopenResult::NotFound => {
            ("skipped", "skipped: it is not there".to_owned())
        }
    })
}

async fn schedule_next(connection: &mut Connection, batch: &ReplayBatchRow, next_ms: i64) -> Result<()> {
    const MOVE: &str = "UPDATE replay_batches SET state = $2, next_ms = $3 WHERE id = $1";
    // Only handled replays complete the canary: counting failed ones would release the rest despite failures.
    let canary = batch.progress.handled < batch.pace.canary;
    let state = if canary { ReplayBatchState::Canary } else { ReplayBatchState::Running };
    let done = sqlx::query(MOVE)
        .bind(batch.id.to_string())
        .bind(state.as_str())
        .bind(next_ms)
        .execute(connection)
        .await
        .on_table("replay_batches")?;
    at("replay_batches", batch.id).check_rows_affected(done.rows_affected(), 1)
}

async fn end_batch(
    connection: &mut Connection,
    id: ReplayBatchId,
    state: ReplayBatchState,
    why: &str,
) -> Result<()> {
    const END: &str = concat!(
        "UPDATE replay_batches SET state = $2, end_reason = $3, ended_ms = ",
        now_ms!(),
        " WHERE id = $1"
    );
    let done = sqlx::query(END)
        .bind(id.to_string())
        .bind(state.as_str())
        .bind(storable_text(why))
        .execute(connection)
        .await
        .on_table("replay_batches")?;
    at("replay_batches", id).check_rows_affected(done.rows_affected(), 1)
}

/// Cancels a batch unless it has ended.
pub(crate) async fn cancel_batch(
    connection: &mut Connection,
    tenant: &Tenant,
    id: ReplayBatchId,
    act: &Attribution,
) -> Result<CancelBatchResult> {
    const LOCK: &str = concat!("SELECT id FROM replay_batches WHERE id = $1", for_update!());
    sqlx::query(LOCK).bind(id.to_string()).execute(&mut *connection).await.on_table("replay_batches")?;
    let Some(batch) = find_batch(connection, tenant, id).await? else {
        return Ok(CancelBatchResult::NotFound);
    };
    if !batch.state.is_open() {
        return Ok(CancelBatchResult::AlreadyEnded(batch));
    }
    let why = format!("{} called it off: {}", act.by, act.reason);
    end_batch(connection, id, ReplayBatchState::Stopped, &why).await?;
    let subject = AuditSubject::ReplayBatch(id);
    audit::record_action(connection, tenant, AuditAction::Cancelled, subject, act, None).await?;
    let batch = find_batch(connection, tenant, id).await?;
    Ok(CancelBatchResult::Cancelled(
        batch.ok_or_else(|| at("replay_batches", id).damaged_error("the row is missing"))?,
    ))
}

/// SQL query for batches with their dead letters counted by state; the caller appends `WHERE` and `GROUP BY`.
macro_rules! batch_columns {
    () => {
        "SELECT /* reads all: few, as people start them */ id, filter_text, requested_by, replay_batches.with_token, reason, requested_at, canary, rate_milli, failed_permille_max,
            replay_batches.state, created_ms, ended_ms, end_reason,
            count(*) FILTER (WHERE one.state = 'waiting') AS waiting,
            count(*) FILTER (WHERE one.state = 'under_way') AS under_way,
            count(*) FILTER (WHERE one.state = 'handled') AS handled,
            count(*) FILTER (WHERE one.state = 'failed') AS failed,
            count(*) FILTER (WHERE one.state = 'skipped') AS skipped
         FROM replay_batches LEFT JOIN replay_batch_items AS one ON one.batch = replay_batches.id "
    };
}

async fn find_batch(
    connection: &mut Connection,
    tenant: &Tenant,
    id: ReplayBatchId,
) -> Result<Option<ReplayBatchRow>> {
    const LOAD: &str = concat!(
        batch_columns!(),
        "WHERE replay_batches.tenant = $1 AND replay_batches.id = $2 GROUP BY replay_batches.id"
    );
    let row: Option<BatchRecord> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on_table("replay_batches")?;
    row.map(|row| row.to_batch_row()).transpose()
}

/// Lists at most `limit` of the tenant's batches, newest first.
pub(crate) async fn list_batches(
    connection: &mut Connection,
    tenant: &Tenant,
    limit: u32,
) -> Result<Vec<ReplayBatchRow>> {
    const LIST: &str = concat!(
        batch_columns!(),
        "WHERE replay_batches.tenant = $1 GROUP BY replay_batches.id
         ORDER BY replay_batches.created_ms DESC, replay_batches.id LIMIT $2"
    );
    let rows: Vec<BatchRecord> = sqlx::query_as(LIST)
        .bind(tenant.as_str())
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .on_table("replay_batches")?;
    rows.iter().map(BatchRecord::to_batch_row).collect()
}

/// Finds a batch with at most `limit` of its dead letters, those no longer waiting first.
pub(crate) async fn find_with_dead_letters(
    connection: &mut Connection,
    tenant: &Tenant,
    id: ReplayBatchId,
    limit: u32,
) -> Result<Option<(ReplayBatchRow, Vec<ReplayBatchItem>)>> {
    const ITEMS: &str = "
        SELECT position, dead_letter, state, result FROM replay_batch_items WHERE batch = $1
        ORDER BY state = 'waiting', position LIMIT $2";
    let Some(batch) = find_batch(connection, tenant, id).await? else { return Ok(None) };
    let rows: Vec<BatchItemRecord> = sqlx::query_as(ITEMS)
        .bind(id.to_string())
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .on_table("replay_batch_items")?;
    let dead_letters: Result<Vec<ReplayBatchItem>> =
        rows.into_iter().map(BatchItemRecord::into_batch_item).collect();
    Ok(Some((batch, dead_letters?)))
}

fn describe_progress(progress: &BatchProgress) -> String {
    let BatchProgress { handled, failed, skipped, .. } = progress;
    format!("{handled} handled, {failed} failed again, {skipped} skipped")
}
