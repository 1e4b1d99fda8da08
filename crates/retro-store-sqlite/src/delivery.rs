//! Attempts at messages, and messages that were given up.

use async_trait::async_trait;
use retro_core::id::{DeadLetterId, Tenant};
use retro_core::message::Notice;
use retro_core::replay::Outcome;
use retro_core::{canonical::sha256_hex, id::WorkflowKey};
use retro_fault::Label;
use retro_store::{
    DeadLetter, DeliveryStore, Failure, LetterStatus, NewDeadLetter, Position, Resent, Result,
};
use retro_store_sql::letter::Record;
use sqlx::SqliteConnection;

use crate::damage::{self, OnTable, at, integer, policy_time};
use crate::open::commit;
use crate::{SqliteStore, letter, now_ms, outbox, replayed};

#[async_trait]
impl DeliveryStore for SqliteStore {
    async fn begin_attempt(&self, position: &Position) -> Result<u32> {
        const BEGIN: &str = concat!(
            "INSERT INTO attempts (consumer, stream, sequence, attempts, last_ms) VALUES (?1, ?2, ?3, 1, ",
            now_ms!(),
            ") ON CONFLICT (consumer, stream, sequence)
               DO UPDATE SET attempts = attempts + 1, last_ms = excluded.last_ms
               RETURNING attempts"
        );
        let mut transaction = self.write().await?;
        let attempts: i64 = sqlx::query_scalar(BEGIN)
            .bind(&position.consumer)
            .bind(&position.stream)
            .bind(integer(position.sequence))
            .fetch_one(&mut *transaction)
            .await
            .on("attempts")?;
        let attempts: u32 = at("attempts", &position.stream).unsigned(attempts)?;
        // The first delivery is an attempt that is not counted.
        letter::begin(&mut transaction, position, attempts.saturating_add(1)).await?;
        commit(transaction, Label::AttemptCommit).await?;
        Ok(attempts)
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
pub(crate) async fn bury(connection: &mut SqliteConnection, letter: &NewDeadLetter) -> Result<DeadLetterId> {
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

async fn forget_attempts(connection: &mut SqliteConnection, position: &Position) -> Result<()> {
    const FORGET: &str = "DELETE FROM attempts WHERE consumer = ?1 AND stream = ?2 AND sequence = ?3";
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
async fn store(connection: &mut SqliteConnection, id: DeadLetterId, letter: &NewDeadLetter) -> Result<bool> {
    const STORE: &str = concat!(
        "INSERT INTO dead_letters (id, tenant, workflow, consumer, stream, sequence, subject, headers, payload,
             payload_sha256, code, rejection, retryable, attempts, stored_at, status, program_version, created_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ",
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
        .bind(&letter.subject)
        .bind(damage::json(&letter.headers))
        .bind(&letter.payload)
        .bind(sha256_hex(&letter.payload))
        .bind(letter.rejection.code.as_str())
        .bind(damage::json(&letter.rejection))
        .bind(letter.rejection.code.retryable())
        .bind(letter.attempts)
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
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    id: DeadLetterId,
) -> Result<Option<DeadLetter>> {
    const LOAD: &str = "
        SELECT id, tenant, workflow, consumer, stream, sequence, subject, headers, payload, payload_sha256,
            rejection, attempts, stored_at, status, replays, created_ms, program_version
        FROM dead_letters WHERE id = ?3 AND (tenant = ?1 OR (tenant IS NULL AND ?1 = ?2))";
    let row: Option<Record> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(Tenant::default_tenant().as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on("dead_letters")?;
    row.map(Record::read).transpose()
}

/// Marks a letter as replayed that was not.
pub(crate) async fn replayed(connection: &mut SqliteConnection, id: DeadLetterId) -> Result<()> {
    const MARK: &str = "UPDATE dead_letters SET status = ?2 WHERE id = ?1 AND status <> ?2";
    let done = sqlx::query(MARK)
        .bind(id.to_string())
        .bind(LetterStatus::Replayed.as_str())
        .execute(connection)
        .await
        .on("dead_letters")?;
    at("dead_letters.status", id).touched(done.rows_affected(), 1)
}

/// The same: nobody else writes meanwhile.
pub(crate) use load as load_locked;
