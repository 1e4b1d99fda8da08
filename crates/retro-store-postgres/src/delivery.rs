//! Attempts at messages, and messages that were given up.

use async_trait::async_trait;
use retro_core::canonical::sha256_hex;
use retro_core::id::{DeadLetterId, Tenant, WorkflowKey};
use retro_core::message::Notice;
use retro_core::replay::Outcome;
use retro_fault::Label;
use retro_store::{
    AttemptStart, DeadLetter, DeliveryStore, Failure, LetterStatus, NewDeadLetter, Position, Redelivery,
    Resent, Result,
};
use retro_store_sql::letter::Record;
use retro_store_sql::{at, integer, json, policy_time};
use sqlx::PgConnection;

use crate::answer::OnTable;
use crate::open::commit;
use crate::{PostgresStore, letter, now_ms, outbox, replayed};

#[async_trait]
impl DeliveryStore for PostgresStore {
    async fn begin_attempt(&self, message: &Redelivery, attempts_max: u32) -> Result<AttemptStart> {
        let mut transaction = self.write().await?;
        if is_dead_lettered(&mut transaction, message).await? {
            return Ok(AttemptStart::DeadLettered(message.letter));
        }
        let position = &message.position;
        let counted = count_attempt(&mut transaction, position, attempts_max).await?;
        let start = if counted < attempts_max {
            // The first delivery is an attempt that is not counted.
            let attempt = counted + 1;
            letter::begin(&mut transaction, position, attempt).await?;
            AttemptStart::Begun(attempt)
        } else {
            AttemptStart::Exhausted
        };
        commit(transaction, Label::AttemptCommit).await?;
        Ok(start)
    }

    async fn note_failure(&self, position: &Position, failure: &Failure) -> Result<()> {
        let mut transaction = self.write().await?;
        letter::fail(&mut transaction, position, failure).await?;
        commit(transaction, Label::FailureCommit).await
    }

    async fn forget_attempts(&self, position: &Position) -> Result<()> {
        let mut transaction = self.write().await?;
        forget_attempts(&mut transaction, position).await?;
        letter::forget(&mut transaction, position).await?;
        commit(transaction, Label::AttemptForgetCommit).await
    }

    async fn bury(&self, letter: &NewDeadLetter) -> Result<DeadLetterId> {
        let mut transaction = self.write().await?;
        let id = bury(&mut transaction, letter).await?;
        commit(transaction, Label::BuryCommit).await?;
        Ok(id)
    }

    async fn settle(&self, resent: &Resent, known: bool) -> Result<bool> {
        let outcome = if known { Outcome::Known } else { Outcome::Handled };
        let mut transaction = self.write().await?;
        let settled = replayed::settle(&mut transaction, resent, &outcome).await?;
        commit(transaction, Label::SettleCommit).await?;
        Ok(settled)
    }
}

/// Stores a dead letter, unless it is there, forgets its attempts, and announces it.
pub(crate) async fn bury(connection: &mut PgConnection, letter: &NewDeadLetter) -> Result<DeadLetterId> {
    let id = letter.id();
    forget_attempts(connection, &letter.position).await?;
    if let Some(original) = replayed::failed_again(connection, letter).await? {
        return Ok(original);
    }
    if !store(connection, id, letter).await? {
        letter::forget(connection, &letter.position).await?;
        return Ok(id);
    }
    letter::settle(connection, id, &letter.position, letter.attempts, &letter.rejection).await?;
    if let (Some(tenant), Some(workflow)) = (&letter.tenant, &letter.workflow) {
        let key = WorkflowKey { tenant: tenant.clone(), workflow: workflow.clone() };
        let message = Notice::DeadLettered { letter: id, code: letter.rejection.code }.about(&key);
        outbox::put(connection, std::iter::once(&message)).await?;
    }
    Ok(id)
}

/// Returns whether this very message has its dead letter.
async fn is_dead_lettered(connection: &mut PgConnection, message: &Redelivery) -> Result<bool> {
    const LOOK: &str = "SELECT EXISTS (SELECT 1 FROM dead_letters WHERE id = $1 AND stored_at = $2)";
    sqlx::query_scalar(LOOK)
        .bind(message.letter.to_string())
        .bind(policy_time(message.stored_at))
        .fetch_one(connection)
        .await
        .on("dead_letters")
}

/// Counts an attempt and returns how many are counted. The count stops at `most`: a process that dies before it has given
/// up an exhausted message counts nothing more, however often it dies.
async fn count_attempt(connection: &mut PgConnection, position: &Position, most: u32) -> Result<u32> {
    const COUNT: &str = concat!(
        "INSERT INTO attempts (consumer, stream, sequence, attempts, last_ms) VALUES ($1, $2, $3, 1, ",
        now_ms!(),
        ") ON CONFLICT (consumer, stream, sequence) DO UPDATE
             SET attempts = least(attempts.attempts + 1, $4), last_ms = excluded.last_ms
           RETURNING attempts"
    );
    let attempts: i64 = sqlx::query_scalar(COUNT)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(integer(position.sequence))
        .bind(i64::from(most))
        .fetch_one(connection)
        .await
        .on("attempts")?;
    at("attempts", &position.stream).unsigned(attempts)
}

async fn forget_attempts(connection: &mut PgConnection, position: &Position) -> Result<()> {
    const FORGET: &str = "DELETE FROM attempts WHERE consumer = $1 AND stream = $2 AND sequence = $3";
    sqlx::query(FORGET)
        .bind(&position.consumer)
        .bind(&position.stream)
        .bind(integer(position.sequence))
        .execute(connection)
        .await
        .on("attempts")?;
    Ok(())
}

/// Returns whether the letter is new.
async fn store(connection: &mut PgConnection, id: DeadLetterId, letter: &NewDeadLetter) -> Result<bool> {
    const STORE: &str = concat!(
        "INSERT INTO dead_letters (id, tenant, workflow, consumer, stream, sequence, subject, headers, payload,
             payload_sha256, code, rejection, retryable, attempts, stored_at, status, program_version, created_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, ",
        now_ms!(),
        ") ON CONFLICT (id) DO NOTHING"
    );
    let done = sqlx::query(STORE)
        .bind(id.to_string())
        .bind(letter.tenant.as_ref().map(|tenant| tenant.as_str()))
        .bind(letter.workflow.as_ref().map(|workflow| workflow.as_str()))
        .bind(&letter.position.consumer)
        .bind(&letter.position.stream)
        .bind(integer(letter.position.sequence))
        .bind(letter.subject.as_bytes())
        .bind(json(&letter.headers))
        .bind(&letter.payload)
        .bind(sha256_hex(&letter.payload))
        .bind(letter.rejection.code.as_str())
        .bind(json(&letter.rejection))
        .bind(letter.rejection.code.retryable())
        .bind(i64::from(letter.attempts))
        .bind(policy_time(letter.stored_at))
        .bind(LetterStatus::Open.as_str())
        .bind(env!("CARGO_PKG_VERSION"))
        .execute(connection)
        .await
        .on("dead_letters")?;
    Ok(done.rows_affected() == 1)
}

/// Loads a letter that the tenant may see.
pub(crate) async fn load(
    connection: &mut PgConnection,
    tenant: &Tenant,
    id: DeadLetterId,
) -> Result<Option<DeadLetter>> {
    const LOAD: &str = "
        SELECT id, tenant, workflow, consumer, stream, sequence, subject, headers, payload, payload_sha256,
            rejection, attempts, stored_at, status, replays, created_ms, program_version
        FROM dead_letters WHERE id = $3 AND (tenant = $1 OR (tenant IS NULL AND $1 = $2))";
    let row: Option<Record> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(Tenant::default_tenant().as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on("dead_letters")?;
    row.map(Record::read).transpose()
}

/// The same, once its row is locked: as it is now, and nobody else acts on it meanwhile.
pub(crate) async fn load_locked(
    connection: &mut PgConnection,
    tenant: &Tenant,
    id: DeadLetterId,
) -> Result<Option<DeadLetter>> {
    const LOCK: &str = "SELECT FROM dead_letters WHERE id = $1 FOR UPDATE";
    sqlx::query(LOCK).bind(id.to_string()).execute(&mut *connection).await.on("dead_letters")?;
    load(connection, tenant, id).await
}

/// Marks a letter as replayed that was not.
pub(crate) async fn replayed(connection: &mut PgConnection, id: DeadLetterId) -> Result<()> {
    const MARK: &str = "UPDATE dead_letters SET status = $2 WHERE id = $1 AND status <> $2";
    let done = sqlx::query(MARK)
        .bind(id.to_string())
        .bind(LetterStatus::Replayed.as_str())
        .execute(connection)
        .await
        .on("dead_letters")?;
    at("dead_letters.status", id).touched(done.rows_affected(), 1)
}
