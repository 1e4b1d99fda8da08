//! Finds and locks stored dead letters, loads their content, and marks them as replayed.

use retro_core::id::{DeadLetterId, Tenant};
use retro_store::{DeadLetter, DeadLetterStatus, MessageContent, Result};

use super::dialect::{Connection, OnTable, ROW_LOCKS, for_update};
use crate::at;
use crate::rows::dead_letter::DeadLetterRecord;

/// Finds a dead letter. Returns `None` if the tenant has no such dead letter.
pub(crate) async fn find_dead_letter(
    connection: &mut Connection,
    tenant: &Tenant,
    id: DeadLetterId,
) -> Result<Option<DeadLetter>> {
    const LOAD: &str = "
        SELECT id, tenant, workflow, consumer, stream, sequence, subject, headers, payload, payload_sha256,
            rejection, attempts, stored_at, status, replays, created_ms, program_version
        FROM dead_letters WHERE id = $3 AND (tenant = $1 OR (tenant IS NULL AND $1 = $2))";
    let row: Option<DeadLetterRecord> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(Tenant::default_tenant().as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on_table("dead_letters")?;
    row.map(DeadLetterRecord::into_dead_letter).transpose()
}

/// Locks the row of a dead letter, then finds it, so no other transaction can act on it concurrently.
pub(crate) async fn load_locked(
    connection: &mut Connection,
    tenant: &Tenant,
    id: DeadLetterId,
) -> Result<Option<DeadLetter>> {
    const LOCK: &str = concat!("SELECT 1 FROM dead_letters WHERE id = $1", for_update!());
    if ROW_LOCKS {
        sqlx::query(LOCK).bind(id.to_string()).execute(&mut *connection).await.on_table("dead_letters")?;
    }
    find_dead_letter(connection, tenant, id).await
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

/// Marks a dead letter as replayed. Fails if it was already marked.
pub(crate) async fn mark_replayed(connection: &mut Connection, id: DeadLetterId) -> Result<()> {
    const MARK: &str = "UPDATE dead_letters SET status = $2 WHERE id = $1 AND status <> $2";
    let done = sqlx::query(MARK)
        .bind(id.to_string())
        .bind(DeadLetterStatus::Replayed.as_str())
        .execute(connection)
        .await
        .on_table("dead_letters")?;
    at("dead_letters.status", id).check_rows_affected(done.rows_affected(), 1)
}
