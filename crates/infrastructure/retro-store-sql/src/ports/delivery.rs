//! Counts delivery attempts and stores dead letters.

use async_trait::async_trait;
use retro_core::canonical::sha256_hex;
use retro_core::id::{DeadLetterId, WorkflowKey};
use retro_core::message::Notice;
use retro_core::replay::ReplayOutcome;
use retro_fault::Label;
use retro_store::{
    AttemptFailure, AttemptStart, DeadLetterStatus, DeliveryPosition, DeliveryStore, IncomingReplay,
    NewDeadLetter, Redelivery, Result,
};

use super::dialect::{Connection, OnTable, Store, exact_text, least, now_ms};
use super::open::commit;
use super::{attempt_history, outbox, replayed};
use crate::{at, format_policy_time, to_i64, to_json};

#[async_trait]
impl DeliveryStore for Store {
    async fn begin_attempt(&self, message: &Redelivery, attempts_max: u32) -> Result<AttemptStart> {
        let mut transaction = self.begin_write().await?;
        if is_dead_lettered(&mut transaction, message).await? {
            // The dead letter was stored, but the message was never acknowledged: the caller only has to
            // acknowledge it.
            return Ok(AttemptStart::DeadLettered(message.dead_letter_id));
        }
        let position = &message.position;
        let counted = count_attempt(&mut transaction, position, attempts_max).await?;
        let start = if counted < attempts_max {
            // The first delivery is attempt 1 but is not counted.
            let attempt = counted + 1;
            attempt_history::record_attempt_start(&mut transaction, position, attempt).await?;
            AttemptStart::Begun(attempt)
        } else {
            AttemptStart::Exhausted
        };
        commit(transaction, Label::AttemptCommit).await?;
        Ok(start)
    }

    async fn record_failure(&self, position: &DeliveryPosition, failure: &AttemptFailure) -> Result<()> {
        let mut transaction = self.begin_write().await?;
        attempt_history::record_attempt_failure(&mut transaction, position, failure).await?;
        commit(transaction, Label::FailureCommit).await
    }

    async fn clear_attempts(&self, position: &DeliveryPosition) -> Result<()> {
        let mut transaction = self.begin_write().await?;
        forget_attempts(&mut transaction, position).await?;
        attempt_history::clear_attempts(&mut transaction, position).await?;
        commit(transaction, Label::AttemptDeleteCommit).await
    }

    async fn store_dead_letter(&self, letter: &NewDeadLetter) -> Result<DeadLetterId> {
        let mut transaction = self.begin_write().await?;
        let id = store_dead_letter(&mut transaction, letter).await?;
        commit(transaction, Label::DeadLetterCommit).await?;
        Ok(id)
    }

    async fn end_replay(&self, resent: &IncomingReplay, known: bool) -> Result<bool> {
        let outcome = if known { ReplayOutcome::Known } else { ReplayOutcome::Handled };
        let mut transaction = self.begin_write().await?;
        let settled = replayed::end_matching_replay(&mut transaction, resent, &outcome).await?;
        commit(transaction, Label::ReplayOutcomeCommit).await?;
        Ok(settled)
    }
}

/// Stores and announces a dead letter unless it exists, and deletes the attempt count. If the message was a
/// replay, reopens the original dead letter instead. Returns the id of the dead letter.
pub(crate) async fn store_dead_letter(
    connection: &mut Connection,
    letter: &NewDeadLetter,
) -> Result<DeadLetterId> {
    let id = letter.id();
    forget_attempts(connection, &letter.position).await?;
    if let Some(original) = replayed::reopen_if_replay(connection, letter).await? {
        return Ok(original);
    }
    // The dead letter exists if a process stored it but crashed before acknowledging the message.
    if !insert_dead_letter(connection, id, letter).await? {
        attempt_history::clear_attempts(connection, &letter.position).await?;
        return Ok(id);
    }
    attempt_history::attach_attempts(connection, id, &letter.position, letter.attempts, &letter.rejection)
        .await?;
    if let (Some(tenant), Some(workflow)) = (&letter.tenant, &letter.workflow) {
        let key = WorkflowKey { tenant: tenant.clone(), workflow: workflow.clone() };
        let message = Notice::DeadLettered { letter: id, code: letter.rejection.code }.into_message(&key);
        outbox::enqueue_messages(connection, std::iter::once(&message)).await?;
    }
    Ok(id)
}

/// Returns `true` if this message already has a dead letter. The id and the time at which the broker stored
/// the message must both match.
async fn is_dead_lettered(connection: &mut Connection, message: &Redelivery) -> Result<bool> {
    const LOOK: &str = "SELECT EXISTS (SELECT 1 FROM dead_letters WHERE id = $1 AND stored_at = $2)";
    sqlx::query_scalar(LOOK)
        .bind(message.dead_letter_id.to_string())
        .bind(format_policy_time(message.stored_at))
        .fetch_one(connection)
        .await
        .on_table("dead_letters")
}

/// Counts an attempt and returns the number of counted attempts. The count stops at `most`, so it does not
/// grow if processes repeatedly crash before they store the dead letter.
async fn count_attempt(connection: &mut Connection, position: &DeliveryPosition, most: u32) -> Result<u32> {
    const COUNT: &str = concat!(
        "INSERT INTO attempts (consumer, stream, sequence, attempts, last_attempt_ms) VALUES ($1, $2, $3, 1, ",
        now_ms!(),
        ") ON CONFLICT (consumer, stream, sequence) DO UPDATE
             SET attempts = ",
        least!(),
        "(attempts.attempts + 1, $4), last_attempt_ms = excluded.last_attempt_ms
           RETURNING attempts"
    );
    let attempts: i64 = sqlx::query_scalar(COUNT)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(to_i64(position.sequence))
        .bind(i64::from(most))
        .fetch_one(connection)
        .await
        .on_table("attempts")?;
    at("attempts", &position.stream).parse_unsigned(attempts)
}

async fn forget_attempts(connection: &mut Connection, position: &DeliveryPosition) -> Result<()> {
    const FORGET: &str = "DELETE FROM attempts WHERE consumer = $1 AND stream = $2 AND sequence = $3";
    sqlx::query(FORGET)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(to_i64(position.sequence))
        .execute(connection)
        .await
        .on_table("attempts")?;
    Ok(())
}

/// Inserts a dead letter unless it exists. Returns `true` if it was inserted.
async fn insert_dead_letter(
    connection: &mut Connection,
    id: DeadLetterId,
    dead_letter: &NewDeadLetter,
) -> Result<bool> {
    const STORE: &str = concat!(
        "INSERT INTO dead_letters (id, tenant, workflow, consumer, stream, sequence, subject, headers, payload,
             payload_sha256, code, rejection, retryable, attempts, stored_at, status, program_version, created_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, ",
        now_ms!(),
        ") ON CONFLICT (id) DO NOTHING"
    );
    let done = sqlx::query(STORE)
        .bind(id.to_string())
        .bind(dead_letter.tenant.as_ref().map(|tenant| tenant.as_str()))
        .bind(dead_letter.workflow.as_ref().map(|workflow| workflow.as_str()))
        .bind(&dead_letter.position.consumer)
        .bind(&dead_letter.position.stream)
        .bind(to_i64(dead_letter.position.sequence))
        .bind(exact_text(&dead_letter.subject))
        .bind(to_json(&dead_letter.headers))
        .bind(&dead_letter.payload)
        .bind(sha256_hex(&dead_letter.payload))
        .bind(dead_letter.rejection.code.as_str())
        .bind(to_json(&dead_letter.rejection))
        .bind(dead_letter.rejection.code.retryable())
        .bind(i64::from(dead_letter.attempts))
        .bind(format_policy_time(dead_letter.stored_at))
        .bind(DeadLetterStatus::Open.as_str())
        .bind(env!("CARGO_PKG_VERSION"))
        .execute(connection)
        .await
        .on_table("dead_letters")?;
    Ok(done.rows_affected() == 1)
}
