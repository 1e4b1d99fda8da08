//! Schedules the replays of dead letters, and lists them.

use retro_core::attribution::Attribution;
use retro_core::id::{DeadLetterId, ReplayBatchId, ReplayId, Tenant};
use retro_core::replay::ReplayPace;
use retro_store::replay::{RequestReplayResult, is_reopenable};
use retro_store::{AuditAction, DeadLetter, DeadLetterStatus, ReplayRow, Result};

use super::dialect::{Connection, OnTable, Store, greatest, now_ms, storable_text};
use super::{audit, stored_dead_letters};
use crate::rows::attribution::token_column;
use crate::rows::replay::ReplayRecord;
use crate::{at, format_policy_time};

/// Parameters of a replay request.
pub(crate) struct ReplayOptions<'a> {
    pub(crate) tenant: &'a Tenant,
    /// Version of the content to send; `None` selects the newest.
    pub(crate) version: Option<u32>,
    pub(crate) act: &'a Attribution,
    pub(crate) batch: Option<ReplayBatchId>,
    pub(crate) pace: &'a ReplayPace,
}

/// Schedules the replay of an open or discarded dead letter for the relay.
pub(crate) async fn schedule_replay(
    connection: &mut Connection,
    dead_letter: &DeadLetter,
    how: &ReplayOptions<'_>,
) -> Result<RequestReplayResult> {
    if is_reopenable(dead_letter.message.rejection.code) {
        return Ok(RequestReplayResult::ReopenInstead);
    }
    if dead_letter.message.holds_spans() {
        return Ok(RequestReplayResult::NoMessage);
    }
    if !matches!(dead_letter.status, DeadLetterStatus::Open | DeadLetterStatus::Discarded) {
        return Ok(RequestReplayResult::AlreadyRequested(
            load_last_replay(connection, dead_letter.id).await?,
        ));
    }
    let Some((version, _)) = stored_dead_letters::load_content(connection, dead_letter, how.version).await?
    else {
        return Ok(RequestReplayResult::UnknownVersion);
    };
    let number = dead_letter.replays + 1;
    insert_replay(connection, dead_letter.id, number, version, how).await?;
    mark_replaying(connection, dead_letter, number).await?;
    let detail = match version {
        0 => format!("replay {number}, with its bytes as they came"),
        edited => format!("replay {number}, with version {edited} of its bytes"),
    };
    audit::record_dead_letter_actions(
        connection,
        how.tenant,
        &[dead_letter.id.0],
        AuditAction::Replayed,
        how.act,
        Some(&detail),
    )
    .await?;
    Ok(RequestReplayResult::Scheduled(load_last_replay(connection, dead_letter.id).await?))
}

/// Inserts a replay that is due after all scheduled ones, which limits the overall pace. A batch slower than
/// the default pace waits between its own dead letters instead, because adding its longer interval here would
/// delay all other replays.
async fn insert_replay(
    connection: &mut Connection,
    dead_letter: DeadLetterId,
    number: u32,
    version: u32,
    how: &ReplayOptions<'_>,
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO replays (id, tenant, dead_letter, number, version, batch, requested_by, reason, requested_at, with_token,
             state, due_ms)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $11, 'waiting',
             ",
        greatest!(),
        "(",
        now_ms!(),
        ", coalesce((SELECT max(due_ms) FROM replays) + $10, 0))"
    );
    let id = ReplayId::of_dead_letter(dead_letter, number);
    let done = sqlx::query(STORE)
        .bind(id.to_string())
        .bind(how.tenant.as_str())
        .bind(dead_letter.to_string())
        .bind(i64::from(number))
        .bind(i64::from(version))
        .bind(how.batch.map(|batch| batch.to_string()))
        .bind(storable_text(&how.act.by))
        .bind(storable_text(&how.act.reason))
        .bind(format_policy_time(how.act.at))
        .bind(gap_ms(how.pace).min(gap_ms(&ReplayPace::default())))
        .bind(token_column(how.act))
        .execute(connection)
        .await
        .on_table("replays")?;
    at("replays", id).check_rows_affected(done.rows_affected(), 1)
}

/// Returns the interval between two dead letters in milliseconds, at least 1.
pub(crate) fn gap_ms(pace: &ReplayPace) -> i64 {
    i64::try_from(pace.send_interval().as_millis()).unwrap_or(i64::MAX).max(1)
}

async fn mark_replaying(connection: &mut Connection, dead_letter: &DeadLetter, number: u32) -> Result<()> {
    const TAKE: &str = "UPDATE dead_letters SET status = $3, replays = $4 WHERE id = $1 AND status = $2";
    let done = sqlx::query(TAKE)
        .bind(dead_letter.id.to_string())
        .bind(dead_letter.status.as_str())
        .bind(DeadLetterStatus::Replaying.as_str())
        .bind(i64::from(number))
        .execute(connection)
        .await
        .on_table("dead_letters")?;
    at("dead_letters.status", dead_letter.id).check_rows_affected(done.rows_affected(), 1)
}

/// Loads the last replay of a dead letter. Fails if there is none.
pub(crate) async fn load_last_replay(
    connection: &mut Connection,
    dead_letter: DeadLetterId,
) -> Result<ReplayRow> {
    const LOAD: &str = "
        SELECT id, dead_letter, number, version, batch, requested_by, with_token, reason, requested_at, state, due_ms,
            publications, ended_ms, outcome
        FROM replays WHERE dead_letter = $1 ORDER BY number DESC LIMIT 1";
    let row: Option<ReplayRecord> = sqlx::query_as(LOAD)
        .bind(dead_letter.to_string())
        .fetch_optional(connection)
        .await
        .on_table("replays")?;
    row.ok_or_else(|| {
        at("replays", dead_letter).damaged_error("the dead letter was replayed but has no replay")
    })?
    .to_replay_row()
}

/// Lists the replays of a dead letter, oldest first.
pub(crate) async fn list_replays(
    store: &Store,
    tenant: &Tenant,
    dead_letter: DeadLetterId,
) -> Result<Vec<ReplayRow>> {
    const LOAD: &str = "
        SELECT id, dead_letter, number, version, batch, requested_by, with_token, reason, requested_at, state, due_ms,
            publications, ended_ms, outcome
        FROM replays WHERE tenant = $1 AND dead_letter = $2 ORDER BY number";
    let mut snapshot = store.begin_snapshot().await?;
    let rows: Vec<ReplayRecord> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(dead_letter.to_string())
        .fetch_all(&mut *snapshot)
        .await
        .on_table("replays")?;
    rows.iter().map(ReplayRecord::to_replay_row).collect()
}
