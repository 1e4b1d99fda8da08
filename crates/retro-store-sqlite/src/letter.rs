//! What belongs to a dead letter: the history of its attempts, and its versions.

use async_trait::async_trait;
use retro_core::canonical::sha256_hex;
use retro_core::dead_letter::Rejection;
use retro_core::id::{BatchId, DeadLetterId, Tenant, Workflow};
use retro_core::steer::Act;
use retro_fault::Label;
use retro_store::letter::ATTEMPTS_KEPT;
use retro_store::{
    Attempt, Content, DeadLetterFilter, Deed, Failure, LetterCount, LetterStatus, LetterStore, LetterVersion,
    MendStore, Position, ReplayRow, Result, VersionRow,
};
use retro_store_sql::letter::{AttemptRecord, CountRecord, VersionRecord, WholeVersionRecord};
use retro_store_sql::{at, integer, json, policy_time};
use serde_json::{Value, json as array};
use sqlx::SqliteConnection;

use crate::damage::OnTable;
use crate::open::commit;
use crate::{SqliteStore, audit, delivery, now_ms, replay};

#[async_trait]
impl LetterStore for SqliteStore {
    async fn attempts(&self, tenant: &Tenant, letter: DeadLetterId) -> Result<Vec<Attempt>> {
        const LOAD: &str = "
            SELECT consumer, stream, sequence, attempt, begun_ms, failed_ms, code, path, detail, program_version
            FROM attempt_history
            WHERE letter = ?3 AND EXISTS (SELECT 1 FROM dead_letters WHERE id = letter AND (tenant = ?1 OR (tenant IS NULL AND ?1 = ?2)))
            ORDER BY number";
        let rows: Vec<AttemptRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(letter.to_string())
            .fetch_all(self.reader())
            .await
            .on("attempt_history")?;
        rows.into_iter().map(AttemptRecord::read).collect()
    }

    async fn versions(&self, tenant: &Tenant, letter: DeadLetterId) -> Result<Vec<VersionRow>> {
        const LOAD: &str = "
            SELECT letter, version, based_on, length(payload) AS payload_bytes, payload_sha256, edited_by, reason, at
            FROM letter_versions
            WHERE letter = ?3 AND EXISTS (SELECT 1 FROM dead_letters WHERE id = letter AND (tenant = ?1 OR (tenant IS NULL AND ?1 = ?2)))
            ORDER BY version";
        let rows: Vec<VersionRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(letter.to_string())
            .fetch_all(self.reader())
            .await
            .on("letter_versions")?;
        rows.into_iter().map(VersionRecord::read).collect()
    }

    async fn version(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        version: u32,
    ) -> Result<Option<LetterVersion>> {
        const LOAD: &str = "
            SELECT letter, version, based_on, length(payload) AS payload_bytes, payload_sha256, edited_by, reason, at,
                headers, payload
            FROM letter_versions
            WHERE letter = ?3 AND version = ?4 AND EXISTS (SELECT 1 FROM dead_letters WHERE id = letter AND (tenant = ?1 OR (tenant IS NULL AND ?1 = ?2)))";
        let row: Option<WholeVersionRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(letter.to_string())
            .bind(version)
            .fetch_optional(self.reader())
            .await
            .on("letter_versions")?;
        row.map(WholeVersionRecord::read).transpose()
    }

    async fn replays(&self, tenant: &Tenant, letter: DeadLetterId) -> Result<Vec<ReplayRow>> {
        replay::of_letter(self, tenant, letter).await
    }

    async fn counts(&self, tenant: &Tenant, filter: &DeadLetterFilter) -> Result<Vec<LetterCount>> {
        const COUNT: &str = "
            SELECT counted.rejection, counted.consumer, counted.workflow, letters, open, first_ms, last_ms,
                one.id AS example
            FROM (
                SELECT rejection, consumer, workflow, count(*) AS letters,
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
        let ids = (!filter.ids.is_empty()).then(|| json(&filter.ids));
        let rows: Vec<CountRecord> = sqlx::query_as(COUNT)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(filter.code.map(|code| code.as_str()))
            .bind(filter.workflow.as_ref().map(Workflow::as_str))
            .bind(filter.consumer.as_deref())
            .bind(filter.since.map(|moment| moment.as_millisecond()))
            .bind(filter.until.map(|moment| moment.as_millisecond()))
            .bind(filter.status.map(LetterStatus::as_str))
            .bind(ids)
            .bind(filter.limit)
            .fetch_all(self.reader())
            .await
            .on("dead_letters")?;
        rows.into_iter().map(CountRecord::read).collect()
    }
}

#[async_trait]
impl MendStore for SqliteStore {
    async fn mend(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        based_on: u32,
        content: &Content,
        act: &Act,
    ) -> Result<Option<u32>> {
        let mut transaction = self.write().await?;
        if delivery::load(&mut transaction, tenant, letter).await?.is_none() {
            return Ok(None);
        }
        let version = append(&mut transaction, letter, based_on, content, act).await?;
        let detail = format!("version {version} of version {based_on}");
        audit::note(&mut transaction, tenant, &[letter.0], Deed::Edited, act, Some(&detail)).await?;
        commit(transaction, Label::MendCommit).await?;
        Ok(Some(version))
    }
}

/// Stores the next version of a letter; returns its number.
async fn append(
    connection: &mut SqliteConnection,
    letter: DeadLetterId,
    based_on: u32,
    content: &Content,
    act: &Act,
) -> Result<u32> {
    const APPEND: &str = concat!(
        "INSERT INTO letter_versions (letter, version, based_on, headers, payload, payload_sha256, edited_by, reason, at,
             edited_ms)
         SELECT ?1, coalesce(max(version), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ",
        now_ms!(),
        " FROM letter_versions WHERE letter = ?1 RETURNING version"
    );
    let version: i64 = sqlx::query_scalar(APPEND)
        .bind(letter.to_string())
        .bind(based_on)
        .bind(json(&content.headers))
        .bind(&content.payload)
        .bind(sha256_hex(&content.payload))
        .bind(&act.by)
        .bind(&act.reason)
        .bind(policy_time(act.at))
        .fetch_one(connection)
        .await
        .on("letter_versions")?;
    at("letter_versions", letter).unsigned(version)
}

/// Remembers that an attempt began, under its number. One that is begun again is another.
pub(crate) async fn begin(
    connection: &mut SqliteConnection,
    position: &Position,
    attempt: u32,
) -> Result<()> {
    const BEGIN: &str = concat!(
        "INSERT INTO attempt_history (consumer, stream, sequence, attempt, program_version, begun_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ",
        now_ms!(),
        ") ON CONFLICT (consumer, stream, sequence, attempt) WHERE letter IS NULL DO UPDATE
             SET begun_ms = excluded.begun_ms, program_version = excluded.program_version, failed_ms = NULL,
                 code = NULL, path = NULL, detail = NULL"
    );
    sqlx::query(BEGIN)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(integer(position.sequence))
        .bind(attempt)
        .bind(env!("CARGO_PKG_VERSION"))
        .execute(connection)
        .await
        .on("attempt_history")?;
    Ok(())
}

/// Remembers that an attempt failed, whether or not it was known that it began.
pub(crate) async fn fail(
    connection: &mut SqliteConnection,
    position: &Position,
    failure: &Failure,
) -> Result<()> {
    const FAIL: &str = concat!(
        "INSERT INTO attempt_history (consumer, stream, sequence, attempt, code, path, detail, program_version, failed_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ",
        now_ms!(),
        ") ON CONFLICT (consumer, stream, sequence, attempt) WHERE letter IS NULL DO UPDATE
             SET failed_ms = excluded.failed_ms, code = excluded.code, path = excluded.path, detail = excluded.detail,
                 program_version = excluded.program_version"
    );
    sqlx::query(FAIL)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(integer(position.sequence))
        .bind(failure.attempt)
        .bind(failure.code.map(|code| code.as_str()))
        .bind(failure.path.as_deref())
        .bind(&failure.detail)
        .bind(env!("CARGO_PKG_VERSION"))
        .execute(connection)
        .await
        .on("attempt_history")?;
    Ok(())
}

/// Makes what is known of the attempts at a message the history of a letter, the last word included: `attempts` of them
/// were spent. What was begun beyond them was not an attempt but the giving up.
pub(crate) async fn settle(
    connection: &mut SqliteConnection,
    letter: DeadLetterId,
    position: &Position,
    attempts: u32,
    rejection: &Rejection,
) -> Result<()> {
    const GIVING_UP: &str = "
        DELETE FROM attempt_history
        WHERE consumer = ?1 AND stream = ?2 AND sequence = ?3 AND letter IS NULL AND attempt > ?4";
    const SETTLE: &str = "
        UPDATE attempt_history SET letter = ?4
        WHERE consumer = ?1 AND stream = ?2 AND sequence = ?3 AND letter IS NULL";
    fail(connection, position, &Failure::last(attempts, rejection)).await?;
    sqlx::query(GIVING_UP)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(integer(position.sequence))
        .bind(attempts)
        .execute(&mut *connection)
        .await
        .on("attempt_history")?;
    sqlx::query(SETTLE)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(integer(position.sequence))
        .bind(letter.to_string())
        .execute(&mut *connection)
        .await
        .on("attempt_history")?;
    bound(connection, letter).await
}

/// Of a letter that was replayed again and again the first attempt stays, and the newest.
async fn bound(connection: &mut SqliteConnection, letter: DeadLetterId) -> Result<()> {
    const BOUND: &str = "
        DELETE FROM attempt_history
        WHERE letter = ?1
            AND number > (SELECT min(number) FROM attempt_history WHERE letter = ?1)
            AND number NOT IN (
                SELECT number FROM attempt_history WHERE letter = ?1 ORDER BY number DESC LIMIT ?2)";
    sqlx::query(BOUND)
        .bind(letter.to_string())
        .bind(ATTEMPTS_KEPT - 1)
        .execute(connection)
        .await
        .on("attempt_history")?;
    Ok(())
}

/// Forgets what is known of the attempts at a message whose letter tells them already.
pub(crate) async fn forget(connection: &mut SqliteConnection, position: &Position) -> Result<()> {
    const FORGET: &str = "
        DELETE FROM attempt_history
        WHERE consumer = ?1 AND stream = ?2 AND sequence = ?3 AND letter IS NULL";
    sqlx::query(FORGET)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(integer(position.sequence))
        .execute(connection)
        .await
        .on("attempt_history")?;
    Ok(())
}

/// Stores which letters of the tenant a batch is to send, in their order.
pub(crate) async fn choose(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    id: BatchId,
    letters: &[(DeadLetterId, LetterStatus)],
) -> Result<()> {
    const CHOOSE: &str = "
        INSERT INTO replay_batch_letters (batch, place, letter, chosen, state)
        SELECT ?1, row_number() OVER (ORDER BY asked.key), asked.value ->> 0, asked.value ->> 1, 'waiting'
        FROM json_each(?2) AS asked JOIN dead_letters ON dead_letters.id = asked.value ->> 0
        WHERE dead_letters.tenant = ?3 OR (dead_letters.tenant IS NULL AND ?3 = ?4)";
    let rows: Value = letters.iter().map(|(letter, status)| array!([letter, status])).collect();
    sqlx::query(CHOOSE)
        .bind(id.to_string())
        .bind(rows.to_string())
        .bind(tenant.as_str())
        .bind(Tenant::default_tenant().as_str())
        .execute(connection)
        .await
        .on("replay_batch_letters")?;
    Ok(())
}
