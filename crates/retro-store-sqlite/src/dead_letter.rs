//! Stores the attempt history of messages and the edited versions of dead letters.

use async_trait::async_trait;
use retro_core::cancel::Attribution;
use retro_core::canonical::sha256_hex;
use retro_core::dead_letter::Rejection;
use retro_core::id::{DeadLetterId, ReplayBatchId, Tenant, Workflow};
use retro_fault::Label;
use retro_store::dead_letter::ATTEMPTS_KEPT;
use retro_store::{
    Attempt, AttemptFailure, AuditAction, DeadLetterCount, DeadLetterEditStore, DeadLetterFilter,
    DeadLetterStatus, DeadLetterStore, DeadLetterVersion, DeadLetterVersionRow, DeliveryPosition,
    MessageContent, ReplayRow, Result,
};
use retro_store_sql::dead_letter::{AttemptRecord, DeadLetterCountRecord, FullVersionRecord, VersionRecord};
use retro_store_sql::{at, format_policy_time, to_i64, to_json};
use serde_json::{Value, json as array};
use sqlx::SqliteConnection;

use crate::convert::OnTable;
use crate::open::commit;
use crate::{SqliteStore, audit, delivery, now_ms, replay};

#[async_trait]
impl DeadLetterStore for SqliteStore {
    async fn list_attempts(&self, tenant: &Tenant, dead_letter: DeadLetterId) -> Result<Vec<Attempt>> {
        const LOAD: &str = "
            SELECT consumer, stream, sequence, attempt, started_ms, failed_ms, code, path, detail, program_version
            FROM attempt_history
            WHERE dead_letter = ?3 AND EXISTS (
                SELECT 1 FROM dead_letters WHERE id = dead_letter AND (tenant = ?1 OR (tenant IS NULL AND ?1 = ?2)))
            ORDER BY number";
        let rows: Vec<AttemptRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(dead_letter.to_string())
            .fetch_all(self.reader())
            .await
            .on_table("attempt_history")?;
        rows.into_iter().map(AttemptRecord::into_attempt).collect()
    }

    async fn list_versions(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
    ) -> Result<Vec<DeadLetterVersionRow>> {
        const LOAD: &str = "
            SELECT dead_letter, version, based_on, length(payload) AS payload_bytes, payload_sha256,
                edited_by, reason, edited_at
            FROM dead_letter_versions
            WHERE dead_letter = ?3 AND EXISTS (
                SELECT 1 FROM dead_letters WHERE id = dead_letter AND (tenant = ?1 OR (tenant IS NULL AND ?1 = ?2)))
            ORDER BY version";
        let rows: Vec<VersionRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(dead_letter.to_string())
            .fetch_all(self.reader())
            .await
            .on_table("dead_letter_versions")?;
        rows.into_iter().map(VersionRecord::into_version_row).collect()
    }

    async fn find_version(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        version: u32,
    ) -> Result<Option<DeadLetterVersion>> {
        const LOAD: &str = "
            SELECT dead_letter, version, based_on, length(payload) AS payload_bytes, payload_sha256,
                edited_by, reason, edited_at,
                headers, payload
            FROM dead_letter_versions
            WHERE dead_letter = ?3 AND version = ?4 AND EXISTS (
                SELECT 1 FROM dead_letters WHERE id = dead_letter AND (tenant = ?1 OR (tenant IS NULL AND ?1 = ?2)))";
        let row: Option<FullVersionRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(dead_letter.to_string())
            .bind(version)
            .fetch_optional(self.reader())
            .await
            .on_table("dead_letter_versions")?;
        row.map(FullVersionRecord::into_version).transpose()
    }

    async fn list_replays(&self, tenant: &Tenant, dead_letter: DeadLetterId) -> Result<Vec<ReplayRow>> {
        replay::list_replays(self, tenant, dead_letter).await
    }

    async fn count_dead_letters(
        &self,
        tenant: &Tenant,
        filter: &DeadLetterFilter,
    ) -> Result<Vec<DeadLetterCount>> {
        const COUNT: &str = "
            SELECT counted.rejection, counted.consumer, counted.workflow, total, open, first_ms, last_ms,
                one.id AS example
            FROM (
                SELECT rejection, consumer, workflow, count(*) AS total,
                    count(*) FILTER (WHERE status = 'open') AS open, min(created_ms) AS first_ms,
                    max(created_ms) AS last_ms, max(rowid) AS newest
                FROM dead_letters
                WHERE (tenant = ?1 OR (tenant IS NULL AND ?1 = ?2)) AND (?3 IS NULL OR code = ?3)
                    AND (?4 IS NULL OR workflow = ?4) AND (?5 IS NULL OR consumer = ?5)
                    AND (?6 IS NULL OR created_ms >= ?6) AND (?7 IS NULL OR created_ms < ?7)
                    AND (?8 IS NULL OR status = ?8) AND (?9 IS NULL OR id IN (SELECT value FROM json_each(?9)))
                GROUP BY rejection, consumer, workflow
            ) AS counted
            JOIN dead_letters AS one ON one.rowid = counted.newest
            ORDER BY newest DESC LIMIT ?10";
        // An empty list matches any id, so it is bound as NULL: an empty array would match nothing.
        let ids = (!filter.ids.is_empty()).then(|| to_json(&filter.ids));
        let rows: Vec<DeadLetterCountRecord> = sqlx::query_as(COUNT)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(filter.code.map(|code| code.as_str()))
            .bind(filter.workflow.as_ref().map(Workflow::as_str))
            .bind(filter.consumer.as_deref())
            .bind(filter.since.map(|moment| moment.as_millisecond()))
            .bind(filter.until.map(|moment| moment.as_millisecond()))
            .bind(filter.status.map(DeadLetterStatus::as_str))
            .bind(ids)
            .bind(filter.limit)
            .fetch_all(self.reader())
            .await
            .on_table("dead_letters")?;
        rows.into_iter().map(DeadLetterCountRecord::into_count).collect()
    }
}

#[async_trait]
impl DeadLetterEditStore for SqliteStore {
    async fn edit_dead_letter(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        based_on: u32,
        content: &MessageContent,
        act: &Attribution,
    ) -> Result<Option<u32>> {
        let mut transaction = self.begin_write().await?;
        if delivery::find_dead_letter(&mut transaction, tenant, dead_letter).await?.is_none() {
            return Ok(None);
        }
        let version = append_version(&mut transaction, dead_letter, based_on, content, act).await?;
        let detail = format!("version {version} of version {based_on}");
        audit::record_dead_letter_actions(
            &mut transaction,
            tenant,
            &[dead_letter.0],
            AuditAction::Edited,
            act,
            Some(&detail),
        )
        .await?;
        commit(transaction, Label::EditCommit).await?;
        Ok(Some(version))
    }
}

/// Stores `content` as the next version of a dead letter and returns its number.
async fn append_version(
    connection: &mut SqliteConnection,
    dead_letter: DeadLetterId,
    based_on: u32,
    content: &MessageContent,
    act: &Attribution,
) -> Result<u32> {
    const APPEND: &str = concat!(
        "INSERT INTO dead_letter_versions (dead_letter, version, based_on, headers, payload, payload_sha256, edited_by, reason,
             edited_at, edited_ms)
         SELECT ?1, coalesce(max(version), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ",
        now_ms!(),
        " FROM dead_letter_versions WHERE dead_letter = ?1 RETURNING version"
    );
    let version: i64 = sqlx::query_scalar(APPEND)
        .bind(dead_letter.to_string())
        .bind(based_on)
        .bind(to_json(&content.headers))
        .bind(&content.payload)
        .bind(sha256_hex(&content.payload))
        .bind(&act.by)
        .bind(&act.reason)
        .bind(format_policy_time(act.at))
        .fetch_one(connection)
        .await
        .on_table("dead_letter_versions")?;
    at("dead_letter_versions", dead_letter).parse_unsigned(version)
}

/// Records the start of an attempt. If the attempt starts again, overwrites its record.
pub(crate) async fn record_attempt_start(
    connection: &mut SqliteConnection,
    position: &DeliveryPosition,
    attempt: u32,
) -> Result<()> {
    const BEGIN: &str = concat!(
        "INSERT INTO attempt_history (consumer, stream, sequence, attempt, program_version, started_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ",
        now_ms!(),
        ") ON CONFLICT (consumer, stream, sequence, attempt) WHERE dead_letter IS NULL DO UPDATE
             SET started_ms = excluded.started_ms, program_version = excluded.program_version, failed_ms = NULL,
                 code = NULL, path = NULL, detail = NULL"
    );
    sqlx::query(BEGIN)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(to_i64(position.sequence))
        .bind(attempt)
        .bind(env!("CARGO_PKG_VERSION"))
        .execute(connection)
        .await
        .on_table("attempt_history")?;
    Ok(())
}

/// Records the failure of an attempt, whether or not its start was recorded.
pub(crate) async fn record_attempt_failure(
    connection: &mut SqliteConnection,
    position: &DeliveryPosition,
    failure: &AttemptFailure,
) -> Result<()> {
    const FAIL: &str = concat!(
        "INSERT INTO attempt_history (consumer, stream, sequence, attempt, code, path, detail, program_version, failed_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ",
        now_ms!(),
        ") ON CONFLICT (consumer, stream, sequence, attempt) WHERE dead_letter IS NULL DO UPDATE
             SET failed_ms = excluded.failed_ms, code = excluded.code, path = excluded.path, detail = excluded.detail,
                 program_version = excluded.program_version"
    );
    sqlx::query(FAIL)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(to_i64(position.sequence))
        .bind(failure.attempt)
        .bind(failure.code.map(|code| code.as_str()))
        .bind(failure.path.as_deref())
        .bind(&failure.detail)
        .bind(env!("CARGO_PKG_VERSION"))
        .execute(connection)
        .await
        .on_table("attempt_history")?;
    Ok(())
}

/// Records the final failure, and moves the attempts at a message to its dead letter. `attempts` is the
/// number of used attempts; a recorded attempt beyond it only stored the dead letter and is deleted.
pub(crate) async fn attach_attempts(
    connection: &mut SqliteConnection,
    dead_letter: DeadLetterId,
    position: &DeliveryPosition,
    attempts: u32,
    rejection: &Rejection,
) -> Result<()> {
    const GIVING_UP: &str = "
        DELETE FROM attempt_history
        WHERE consumer = ?1 AND stream = ?2 AND sequence = ?3 AND dead_letter IS NULL AND attempt > ?4";
    const SETTLE: &str = "
        UPDATE attempt_history SET dead_letter = ?4
        WHERE consumer = ?1 AND stream = ?2 AND sequence = ?3 AND dead_letter IS NULL";
    record_attempt_failure(connection, position, &AttemptFailure::from_rejection(attempts, rejection))
        .await?;
    sqlx::query(GIVING_UP)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(to_i64(position.sequence))
        .bind(attempts)
        .execute(&mut *connection)
        .await
        .on_table("attempt_history")?;
    sqlx::query(SETTLE)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(to_i64(position.sequence))
        .bind(dead_letter.to_string())
        .execute(&mut *connection)
        .await
        .on_table("attempt_history")?;
    trim_attempts(connection, dead_letter).await
}

/// Trims the history of a dead letter to [`ATTEMPTS_KEPT`]: the first attempt and the newest ones.
async fn trim_attempts(connection: &mut SqliteConnection, dead_letter: DeadLetterId) -> Result<()> {
    const BOUND: &str = "
        DELETE FROM attempt_history
        WHERE dead_letter = ?1
            AND number > (SELECT min(number) FROM attempt_history WHERE dead_letter = ?1)
            AND number NOT IN (
                SELECT number FROM attempt_history WHERE dead_letter = ?1 ORDER BY number DESC LIMIT ?2)";
    sqlx::query(BOUND)
        .bind(dead_letter.to_string())
        // The first attempt is kept in addition to these.
        .bind(ATTEMPTS_KEPT - 1)
        .execute(connection)
        .await
        .on_table("attempt_history")?;
    Ok(())
}

/// Deletes the recorded attempts at a message that are not attached to a dead letter.
pub(crate) async fn clear_attempts(
    connection: &mut SqliteConnection,
    position: &DeliveryPosition,
) -> Result<()> {
    const FORGET: &str = "
        DELETE FROM attempt_history
        WHERE consumer = ?1 AND stream = ?2 AND sequence = ?3 AND dead_letter IS NULL";
    sqlx::query(FORGET)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(to_i64(position.sequence))
        .execute(connection)
        .await
        .on_table("attempt_history")?;
    Ok(())
}

/// Stores the tenant's dead letters of a replay batch in replay order. Skips dead letters of other tenants.
pub(crate) async fn store_batch_dead_letters(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    id: ReplayBatchId,
    dead_letters: &[(DeadLetterId, DeadLetterStatus)],
) -> Result<()> {
    const CHOOSE: &str = "
        INSERT INTO replay_batch_items (batch, position, dead_letter, selected_status, state)
        SELECT ?1, row_number() OVER (ORDER BY requested.key), requested.value ->> 0, requested.value ->> 1, 'waiting'
        FROM json_each(?2) AS requested JOIN dead_letters ON dead_letters.id = requested.value ->> 0
        WHERE dead_letters.tenant = ?3 OR (dead_letters.tenant IS NULL AND ?3 = ?4)";
    let rows: Value =
        dead_letters.iter().map(|(dead_letter, status)| array!([dead_letter, status])).collect();
    sqlx::query(CHOOSE)
        .bind(id.to_string())
        .bind(rows.to_string())
        .bind(tenant.as_str())
        .bind(Tenant::default_tenant().as_str())
        .execute(connection)
        .await
        .on_table("replay_batch_items")?;
    Ok(())
}
