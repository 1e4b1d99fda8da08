//! Replays and discards dead letters. Each action locks the dead letter's row, so two operators cannot act on
//! it concurrently.

use crate::dialect::{Connection, OnTable, Store, greatest, least, now_ms, storable_text};
use crate::open::commit;
use crate::{audit, batch, delivery, replayed};
use async_trait::async_trait;
use retro_core::cancel::Attribution;
use retro_core::id::{DeadLetterId, ReplayBatchId, ReplayId, Tenant};
use retro_core::replay::{BatchAction, ReplayOutcome, ReplayPace};
use retro_fault::Label;
use retro_store::cancel::DecideReopen;
use retro_store::replay::{
    CancelBatchResult, DecideBatchStep, DiscardResult, NewReplayBatch, ReplayBatchItem, ReplayBatchRow,
    RequestReplayResult, is_reopenable,
};
use retro_store::{
    AuditAction, DeadLetter, DeadLetterStatus, MessageContent, OutgoingReplay, ReplayRow, ReplayStore, Result,
};
use retro_store_sql::replay::ReplayRecord;
use retro_store_sql::{at, format_policy_time, to_i64};

#[async_trait]
impl ReplayStore for Store {
    async fn replay_dead_letter(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        version: Option<u32>,
        act: &Attribution,
    ) -> Result<RequestReplayResult> {
        let mut transaction = self.begin_write().await?;
        let Some(dead_letter) = delivery::load_locked(&mut transaction, tenant, dead_letter).await? else {
            return Ok(RequestReplayResult::NotFound);
        };
        let how = ReplayOptions { tenant, version, act, batch: None, pace: &ReplayPace::default() };
        let replayed = schedule_replay(&mut transaction, &dead_letter, &how).await?;
        commit(transaction, Label::ReplayCommit).await?;
        Ok(replayed)
    }

    async fn find_replay_content(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        version: Option<u32>,
    ) -> Result<Option<(u32, MessageContent)>> {
        let mut snapshot = self.begin_snapshot().await?;
        let Some(dead_letter) = delivery::find_dead_letter(&mut snapshot, tenant, dead_letter).await? else {
            return Ok(None);
        };
        load_content(&mut snapshot, &dead_letter, version).await
    }

    async fn discard_dead_letters(
        &self,
        tenant: &Tenant,
        dead_letters: &[DeadLetterId],
        act: &Attribution,
    ) -> Result<Vec<DiscardResult>> {
        let mut transaction = self.begin_write().await?;
        let mut answers = Vec::with_capacity(dead_letters.len());
        for dead_letter in dead_letters {
            answers.push(discard_dead_letter(&mut transaction, tenant, *dead_letter, act).await?);
        }
        commit(transaction, Label::DiscardCommit).await?;
        Ok(answers)
    }

    async fn list_due_replays(&self, limit: u32, lost_after_s: u64) -> Result<Vec<OutgoingReplay>> {
        // The exponent is capped, because unbounded doubling would overflow the shift and postpone a replay
        // forever.
        const DUE: &str = concat!(
            "SELECT id, tenant, dead_letter, version FROM (
                 SELECT id, tenant, dead_letter, version, due_ms FROM replays WHERE state = 'waiting' AND due_ms <= ",
            now_ms!(),
            " UNION ALL
                 SELECT id, tenant, dead_letter, version, due_ms FROM replays
                 WHERE state = 'sent' AND sent_ms + $2 * 1000 * (1 << CAST(",
            least!(),
            "(publications - 1, 10) AS INTEGER)) <= ",
            now_ms!(),
            ") AS due ORDER BY due_ms, id LIMIT $1"
        );
        let mut snapshot = self.begin_snapshot().await?;
        let rows: Vec<(String, String, String, i64)> = sqlx::query_as(DUE)
            .bind(i64::from(limit))
            .bind(to_i64(lost_after_s))
            .fetch_all(&mut *snapshot)
            .await
            .on_table("replays")?;
        let mut sendings = Vec::with_capacity(rows.len());
        for (id, tenant, dead_letter, version) in rows {
            let place = at("replays", &id);
            let dead_letter =
                delivery::find_dead_letter(&mut snapshot, &place.parse(&tenant)?, place.parse(&dead_letter)?)
                    .await?;
            let dead_letter = dead_letter.ok_or_else(|| place.damaged_error("its dead letter is missing"))?;
            let content =
                load_content(&mut snapshot, &dead_letter, Some(place.parse_unsigned(version)?)).await?;
            let (_, content) = content.ok_or_else(|| place.damaged_error("its version is missing"))?;
            sendings.push(OutgoingReplay::from_dead_letter(place.parse(&id)?, &dead_letter.message, content));
        }
        Ok(sendings)
    }

    async fn mark_replay_sent(&self, id: ReplayId) -> Result<()> {
        // The replay may already be handled; then only the publication is counted.
        const MARK: &str = concat!(
            "UPDATE replays SET state = CASE state WHEN 'waiting' THEN 'sent' ELSE state END,
                 publications = publications + 1, sent_ms = ",
            now_ms!(),
            " WHERE id = $1"
        );
        let mut transaction = self.begin_write().await?;
        let done =
            sqlx::query(MARK).bind(id.to_string()).execute(&mut *transaction).await.on_table("replays")?;
        at("replays", id).check_rows_affected(done.rows_affected(), 1)?;
        commit(transaction, Label::ReplayMarkCommit).await
    }

    async fn refuse_replay(&self, id: ReplayId, error: &str) -> Result<()> {
        let mut transaction = self.begin_write().await?;
        replayed::end_replay(&mut transaction, id, &ReplayOutcome::Refused { error: error.to_owned() })
            .await?;
        commit(transaction, Label::ReplayRefuseCommit).await
    }

    async fn start_replay_batch(&self, tenant: &Tenant, new: &NewReplayBatch) -> Result<ReplayBatchId> {
        let mut transaction = self.begin_write().await?;
        let id = batch::start_batch(&mut transaction, tenant, new).await?;
        commit(transaction, Label::BatchStartCommit).await?;
        Ok(id)
    }

    async fn list_open_batches(&self) -> Result<Vec<ReplayBatchId>> {
        batch::list_open_batches(&mut *self.begin_snapshot().await?).await
    }

    async fn step_replay_batch(
        &self,
        id: ReplayBatchId,
        next: DecideBatchStep<'_>,
        reopen: DecideReopen<'_>,
    ) -> Result<Option<BatchAction>> {
        let mut transaction = self.begin_write().await?;
        let decided = batch::step_batch(&mut transaction, id, next, reopen).await?;
        commit(transaction, Label::BatchStepCommit).await?;
        Ok(decided)
    }

    async fn cancel_replay_batch(
        &self,
        tenant: &Tenant,
        id: ReplayBatchId,
        act: &Attribution,
    ) -> Result<CancelBatchResult> {
        let mut transaction = self.begin_write().await?;
        let cancelled = batch::cancel_batch(&mut transaction, tenant, id, act).await?;
        commit(transaction, Label::BatchCancelCommit).await?;
        Ok(cancelled)
    }

    async fn list_replay_batches(&self, tenant: &Tenant, limit: u32) -> Result<Vec<ReplayBatchRow>> {
        batch::list_batches(&mut *self.begin_snapshot().await?, tenant, limit).await
    }

    async fn find_replay_batch(
        &self,
        tenant: &Tenant,
        id: ReplayBatchId,
        limit: u32,
    ) -> Result<Option<(ReplayBatchRow, Vec<ReplayBatchItem>)>> {
        batch::find_with_dead_letters(&mut *self.begin_snapshot().await?, tenant, id, limit).await
    }
}

/// Lists the replays of a dead letter, oldest first.
pub(crate) async fn list_replays(
    store: &Store,
    tenant: &Tenant,
    dead_letter: DeadLetterId,
) -> Result<Vec<ReplayRow>> {
    const LOAD: &str = "
        SELECT id, dead_letter, number, version, batch, requested_by, reason, requested_at, state, due_ms,
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
    if !matches!(dead_letter.status, DeadLetterStatus::Open | DeadLetterStatus::Discarded) {
        return Ok(RequestReplayResult::AlreadyRequested(
            load_last_replay(connection, dead_letter.id).await?,
        ));
    }
    let Some((version, _)) = load_content(connection, dead_letter, how.version).await? else {
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
        "INSERT INTO replays (id, tenant, dead_letter, number, version, batch, requested_by, reason, requested_at, state,
             due_ms)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, 'waiting',
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
        .bind(batch::gap_ms(how.pace).min(batch::gap_ms(&ReplayPace::default())))
        .execute(connection)
        .await
        .on_table("replays")?;
    at("replays", id).check_rows_affected(done.rows_affected(), 1)
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
        SELECT id, dead_letter, number, version, batch, requested_by, reason, requested_at, state, due_ms,
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

/// Loads the number and content of a dead letter's version: `version` (0 is the original), or the newest if
/// `None`. Returns `None` if the version does not exist.
pub(crate) async fn load_content(
    connection: &mut Connection,
    dead_letter: &DeadLetter,
    version: Option<u32>,
) -> Result<Option<(u32, MessageContent)>> {
    const NEWEST: &str = "SELECT max(version) FROM dead_letter_versions WHERE dead_letter = $1";
    const LOAD: &str =
        "SELECT headers, payload FROM dead_letter_versions WHERE dead_letter = $1 AND version = $2";
    let place = at("dead_letter_versions", dead_letter.id);
    let version = match version {
        Some(requested) => requested,
        None => {
            let newest: Option<i64> = sqlx::query_scalar(NEWEST)
                .bind(dead_letter.id.to_string())
                .fetch_one(&mut *connection)
                .await
                .on_table("dead_letter_versions")?;
            newest.map_or(Ok(0), |newest| place.parse_unsigned(newest))?
        }
    };
    if version == 0 {
        return Ok(Some((0, MessageContent::from(&dead_letter.message))));
    }
    let row: Option<(String, Vec<u8>)> = sqlx::query_as(LOAD)
        .bind(dead_letter.id.to_string())
        .bind(i64::from(version))
        .fetch_optional(connection)
        .await
        .on_table("dead_letter_versions")?;
    let read = |(headers, payload): (String, Vec<u8>)| {
        Ok((version, MessageContent { headers: place.parse_json(&headers)?, payload }))
    };
    row.map(read).transpose()
}

async fn discard_dead_letter(
    connection: &mut Connection,
    tenant: &Tenant,
    dead_letter: DeadLetterId,
    act: &Attribution,
) -> Result<DiscardResult> {
    const ASIDE: &str = "UPDATE dead_letters SET status = $2 WHERE id = $1 AND status = $3";
    let Some(dead_letter) = delivery::load_locked(connection, tenant, dead_letter).await? else {
        return Ok(DiscardResult::NotFound);
    };
    match dead_letter.status {
        DeadLetterStatus::Open => {}
        DeadLetterStatus::Discarded => return find_earlier_discard(connection, tenant, dead_letter.id).await,
        DeadLetterStatus::Replaying | DeadLetterStatus::Handled => {
            return Ok(DiscardResult::Replayed(load_last_replay(connection, dead_letter.id).await?));
        }
        DeadLetterStatus::Replayed => return Ok(DiscardResult::Reopened),
    }
    let done = sqlx::query(ASIDE)
        .bind(dead_letter.id.to_string())
        .bind(DeadLetterStatus::Discarded.as_str())
        .bind(DeadLetterStatus::Open.as_str())
        .execute(&mut *connection)
        .await
        .on_table("dead_letters")?;
    at("dead_letters.status", dead_letter.id).check_rows_affected(done.rows_affected(), 1)?;
    audit::record_dead_letter_actions(
        connection,
        tenant,
        &[dead_letter.id.0],
        AuditAction::Discarded,
        act,
        None,
    )
    .await?;
    Ok(DiscardResult::Discarded)
}

/// Finds who discarded a dead letter, for the result of a repeated request.
async fn find_earlier_discard(
    connection: &mut Connection,
    tenant: &Tenant,
    dead_letter: DeadLetterId,
) -> Result<DiscardResult> {
    let rows = audit::list_actions(connection, tenant, dead_letter.0).await?;
    let act = rows.into_iter().rev().find(|row| row.action == AuditAction::Discarded);
    let act = act.ok_or_else(|| {
        at("audit_log", dead_letter).damaged_error("the dead letter is discarded but has no audit entry")
    })?;
    Ok(DiscardResult::AlreadyDiscarded(act.act))
}
