//! Stores the attempt history of messages.

use retro_core::dead_letter::Rejection;
use retro_core::id::DeadLetterId;
use retro_store::dead_letter::ATTEMPTS_KEPT;
use retro_store::{AttemptFailure, DeliveryPosition, Result};

use super::dialect::{Connection, OnTable, now_ms, storable_text};
use crate::to_i64;

/// Records the start of an attempt. If the attempt starts again, overwrites its record.
pub(crate) async fn record_attempt_start(
    connection: &mut Connection,
    position: &DeliveryPosition,
    attempt: u32,
) -> Result<()> {
    const BEGIN: &str = concat!(
        "INSERT INTO attempt_history (consumer, stream, sequence, attempt, program_version, started_ms)
         VALUES ($1, $2, $3, $4, $5, ",
        now_ms!(),
        ") ON CONFLICT (consumer, stream, sequence, attempt) WHERE dead_letter IS NULL DO UPDATE
             SET started_ms = excluded.started_ms, program_version = excluded.program_version, failed_ms = NULL,
                 code = NULL, path = NULL, detail = NULL"
    );
    sqlx::query(BEGIN)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(to_i64(position.sequence))
        .bind(i64::from(attempt))
        .bind(env!("CARGO_PKG_VERSION"))
        .execute(connection)
        .await
        .on_table("attempt_history")?;
    Ok(())
}

/// Records the failure of an attempt, whether or not its start was recorded.
pub(crate) async fn record_attempt_failure(
    connection: &mut Connection,
    position: &DeliveryPosition,
    failure: &AttemptFailure,
) -> Result<()> {
    const FAIL: &str = concat!(
        "INSERT INTO attempt_history (consumer, stream, sequence, attempt, code, path, detail, program_version, failed_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, ",
        now_ms!(),
        ") ON CONFLICT (consumer, stream, sequence, attempt) WHERE dead_letter IS NULL DO UPDATE
             SET failed_ms = excluded.failed_ms, code = excluded.code, path = excluded.path, detail = excluded.detail,
                 program_version = excluded.program_version"
    );
    sqlx::query(FAIL)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(to_i64(position.sequence))
        .bind(i64::from(failure.attempt))
        .bind(failure.code.map(|code| code.as_str()))
        .bind(failure.path.as_deref().map(storable_text))
        .bind(storable_text(&failure.detail))
        .bind(env!("CARGO_PKG_VERSION"))
        .execute(connection)
        .await
        .on_table("attempt_history")?;
    Ok(())
}

/// Records the final failure, and moves the attempts at a message to its dead letter. `attempts` is the
/// number of used attempts; a recorded attempt beyond it only stored the dead letter and is deleted.
pub(crate) async fn attach_attempts(
    connection: &mut Connection,
    dead_letter: DeadLetterId,
    position: &DeliveryPosition,
    attempts: u32,
    rejection: &Rejection,
) -> Result<()> {
    const GIVING_UP: &str = "
        DELETE FROM attempt_history
        WHERE consumer = $1 AND stream = $2 AND sequence = $3 AND dead_letter IS NULL AND attempt > $4";
    const SETTLE: &str = "
        UPDATE attempt_history SET dead_letter = $4
        WHERE consumer = $1 AND stream = $2 AND sequence = $3 AND dead_letter IS NULL";
    record_attempt_failure(connection, position, &AttemptFailure::from_rejection(attempts, rejection))
        .await?;
    sqlx::query(GIVING_UP)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(to_i64(position.sequence))
        .bind(i64::from(attempts))
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
async fn trim_attempts(connection: &mut Connection, dead_letter: DeadLetterId) -> Result<()> {
    const BOUND: &str = "
        DELETE FROM attempt_history
        WHERE dead_letter = $1
            AND number > (SELECT min(number) FROM attempt_history WHERE dead_letter = $1)
            AND number NOT IN (
                SELECT number FROM attempt_history WHERE dead_letter = $1 ORDER BY number DESC LIMIT $2)";
    sqlx::query(BOUND)
        .bind(dead_letter.to_string())
        // The first attempt is kept in addition to these.
        .bind(i64::from(ATTEMPTS_KEPT - 1))
        .execute(connection)
        .await
        .on_table("attempt_history")?;
    Ok(())
}

/// Deletes the recorded attempts at a message that are not attached to a dead letter.
pub(crate) async fn clear_attempts(connection: &mut Connection, position: &DeliveryPosition) -> Result<()> {
    const FORGET: &str = "
        DELETE FROM attempt_history
        WHERE consumer = $1 AND stream = $2 AND sequence = $3 AND dead_letter IS NULL";
    sqlx::query(FORGET)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(to_i64(position.sequence))
        .execute(connection)
        .await
        .on_table("attempt_history")?;
    Ok(())
}
