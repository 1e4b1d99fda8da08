//! Investigations under a lease. Every write after the claim names its token, and a statement that touches no row
//! because of it answers "fenced".

use async_trait::async_trait;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::investigate::Next;
use retro_core::learn::{Mutation, Timing};
use retro_core::retrospective::{Investigation, InvestigationResult, Retrospective, State};
use retro_core::sample::Sample;
use retro_fault::Label;
use retro_store::investigate::Decide;
use retro_store::{Claim, InvestigatorStore, JournalEntry, Result, Sequence, StoreError};
use retro_store_sql::investigate::{Record, fenced, ordinal_at, seconds, unless_fenced};
use retro_store_sql::retrospective::drawn;
use retro_store_sql::step::journalling;
use retro_store_sql::{at, integer, json, trace};

use crate::dialect::{Connection, Database, OnTable, Store, for_update, greatest, now_ms, shown};
use crate::open::commit;
use crate::{claim, lock, outbox, retrospective};

#[async_trait]
impl InvestigatorStore for Store {
    async fn claim(&self, worker: &str, lease_s: u64) -> Result<Option<Claim>> {
        let mut transaction = self.write().await?;
        let Some(taken) = claim::take(&mut transaction, worker, seconds(lease_s)).await? else {
            return Ok(None);
        };
        let loaded = claim::load(&mut transaction, &taken).await;
        // The claim of what cannot be read stands, so that it does not stop the ones behind it.
        if !matches!(loaded, Ok(_) | Err(StoreError::Damaged { .. })) {
            return loaded.map(Some);
        }
        commit(transaction, Label::ClaimCommit).await?;
        loaded.map(Some)
    }

    async fn heartbeat(&self, claim: &Claim, lease_s: u64) -> Result<()> {
        const HOLD: &str = concat!(
            "UPDATE investigations SET lease_ms = ",
            now_ms!(),
            " + CAST($5 AS BIGINT) * 1000
             WHERE tenant = $1 AND retrospective = $2 AND number = $3 AND token = $4 AND result IS NULL"
        );
        let mut transaction = self.write().await?;
        let done =
            held(HOLD, claim).bind(seconds(lease_s)).execute(&mut *transaction).await.on("investigations")?;
        unless_fenced(claim, done.rows_affected())?;
        commit(transaction, Label::HeartbeatCommit).await
    }

    async fn journal(&self, claim: &Claim, entry: &JournalEntry) -> Result<()> {
        // Locked until the row is written: nobody takes the claim over in between.
        const HELD: &str = concat!(
            "SELECT number FROM investigations
             WHERE tenant = $1 AND retrospective = $2 AND number = $3 AND token = $4 AND result IS NULL",
            for_update!()
        );
        const WRITE: &str = concat!(
            "INSERT INTO journal (tenant, retrospective, number, token, stage, body, written_ms)
             VALUES ($1, $2, $3, $4, $5, $6, ",
            now_ms!(),
            ") ON CONFLICT (tenant, retrospective, number, stage) DO NOTHING"
        );
        let mut transaction = self.write().await?;
        let found = self::held(HELD, claim).fetch_all(&mut *transaction).await.on("investigations")?;
        unless_fenced(claim, found.len() as u64)?;
        self::held(WRITE, claim)
            .bind(entry.stage.as_str())
            .bind(entry.body.to_string())
            .execute(&mut *transaction)
            .await
            .on("journal")?;
        commit(transaction, journalling(entry.stage)).await
    }

    async fn retry_later(&self, claim: &Claim, pause_s: u64, reason: &str) -> Result<()> {
        // The token moves on here too: who gave a claim back can no longer write under it.
        const GIVE_BACK: &str = concat!(
            "UPDATE investigations SET lease_ms = NULL, token = token + 1, problem = $6, not_before_ms = ",
            now_ms!(),
            " + CAST($5 AS BIGINT) * 1000
             WHERE tenant = $1 AND retrospective = $2 AND number = $3 AND token = $4 AND result IS NULL"
        );
        let mut transaction = self.write().await?;
        let done = held(GIVE_BACK, claim)
            .bind(seconds(pause_s))
            .bind(shown(reason))
            .execute(&mut *transaction)
            .await
            .on("investigations")?;
        unless_fenced(claim, done.rows_affected())?;
        commit(transaction, Label::RetryCommit).await
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        const RELEASE: &str = concat!(
            "UPDATE investigations SET lease_ms = NULL, token = token + 1, attempts = ",
            greatest!(),
            "(attempts - 1, 0)
             WHERE tenant = $1 AND retrospective = $2 AND number = $3 AND token = $4 AND result IS NULL"
        );
        let mut transaction = self.write().await?;
        let done = held(RELEASE, claim).execute(&mut *transaction).await.on("investigations")?;
        unless_fenced(claim, done.rows_affected())?;
        commit(transaction, Label::ReleaseCommit).await
    }

    async fn finish(
        &self,
        claim: &Claim,
        result: &InvestigationResult,
        timing: Timing,
        decide: Decide<'_>,
    ) -> Result<()> {
        let (tenant, id) = (&claim.retrospective.key.tenant, claim.retrospective.id);
        let mut transaction = self.write().await?;
        lock::workflow(&mut transaction, &claim.retrospective.key).await?;
        end(&mut transaction, claim, result, timing).await?;
        let stored = retrospective::load(&mut transaction, tenant, id).await?;
        let (retrospective, sample) = stored.ok_or_else(|| at("retrospectives", id).damaged("it is gone"))?;
        if retrospective.state != State::Investigating {
            return Err(fenced(claim));
        }
        let sample = drawn(&retrospective, sample)?;
        let ended = ended(&mut transaction, tenant, id).await?.into_iter().map(|(one, _)| one).collect();
        let sequence = Sequence { retrospective, sample, ended };
        let finish = decide(&sequence);
        let Sequence { retrospective, sample, .. } = sequence;
        match finish.next {
            Next::Investigate { number, at, replacement } => {
                add_investigation(&mut transaction, &retrospective, &sample, number, at, replacement).await?;
            }
            Next::Settle => {
                store_batch(&mut transaction, &retrospective, &finish.batch).await?;
                retrospective::move_on(&mut transaction, &retrospective, State::Settling).await?;
            }
        }
        outbox::put(&mut transaction, std::iter::once(&finish.message)).await?;
        commit(transaction, Label::FinishCommit).await
    }

    async fn claimable(&self) -> Result<u64> {
        let count: i64 =
            sqlx::query_scalar(claim::CLAIMABLE).fetch_one(self.reader()).await.on("investigations")?;
        at("investigations", "claimable").unsigned(count)
    }
}

type Statement = sqlx::query::Query<'static, Database, <Database as sqlx::Database>::Arguments>;

/// A statement whose first four parameters say which claim it is made under.
fn held(sql: &'static str, claim: &Claim) -> Statement {
    let Claim { retrospective, number, token, .. } = claim;
    sqlx::query(sql)
        .bind(retrospective.key.tenant.as_str().to_owned())
        .bind(retrospective.id.to_string())
        .bind(i64::from(*number))
        .bind(integer(*token))
}

/// Takes every unfinished investigation of a retrospective out of the hands of whoever holds it.
pub(crate) async fn fence(connection: &mut Connection, tenant: &Tenant, id: RetrospectiveId) -> Result<()> {
    const FENCE: &str = "
        UPDATE investigations SET lease_ms = NULL, token = token + 1
        WHERE tenant = $1 AND retrospective = $2 AND result IS NULL";
    sqlx::query(FENCE)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .execute(connection)
        .await
        .on("investigations")?;
    Ok(())
}

async fn end(
    connection: &mut Connection,
    claim: &Claim,
    result: &InvestigationResult,
    timing: Timing,
) -> Result<()> {
    const END: &str = concat!(
        "UPDATE investigations SET lease_ms = NULL, ended_token = $4, result = $5, cost_usd = $6, ended_ms = ",
        now_ms!(),
        " WHERE tenant = $1 AND retrospective = $2 AND number = $3 AND token = $4 AND result IS NULL"
    );
    let done = held(END, claim)
        .bind(json(result))
        .bind(timing.cost_usd)
        .execute(connection)
        .await
        .on("investigations")?;
    unless_fenced(claim, done.rows_affected())
}

/// Makes the investigation of the run at place `at` (from 0) of the shuffled order due.
pub(crate) async fn add_investigation(
    connection: &mut Connection,
    retrospective: &Retrospective,
    sample: &Sample,
    number: u32,
    at: u32,
    replacement: bool,
) -> Result<()> {
    const ADD: &str = concat!(
        "INSERT INTO investigations (tenant, retrospective, number, ordinal, run_id, replacement, trace, due_ms,
             not_before_ms, token, attempts)
         SELECT runs.tenant, $2, $3, runs.ordinal, runs.run_id, $4, $7, ",
        now_ms!(),
        ", 0, 0, 0 FROM runs WHERE runs.tenant = $1 AND runs.workflow = $5 AND runs.ordinal = $6"
    );
    let ordinal = ordinal_at(retrospective, sample, at)?;
    let done = sqlx::query(ADD)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.id.to_string())
        .bind(i64::from(number))
        .bind(replacement)
        .bind(retrospective.key.workflow.as_str())
        .bind(integer(ordinal))
        .bind(trace::current())
        .execute(connection)
        .await
        .on("investigations")?;
    retro_store_sql::at("runs.ordinal", format!("{}, ordinal {ordinal}", retrospective.key))
        .touched(done.rows_affected(), 1)
}

/// Stores what the investigations ask of memory.
pub(crate) async fn store_batch(
    connection: &mut Connection,
    retrospective: &Retrospective,
    batch: &[Mutation],
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO mutation_batches (tenant, retrospective, mutations, settled_ms) VALUES ($1, $2, $3, ",
        now_ms!(),
        ")"
    );
    let done = sqlx::query(STORE)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.id.to_string())
        .bind(json(&batch))
        .execute(connection)
        .await
        .on("mutation_batches")?;
    at("mutation_batches", retrospective.id).touched(done.rows_affected(), 1)
}

/// The investigations of a retrospective in sequence, ended or not, each with what it took so far.
pub(crate) async fn all(
    connection: &mut Connection,
    tenant: &Tenant,
    id: RetrospectiveId,
) -> Result<Vec<(Investigation, Timing)>> {
    const LOAD: &str = "
        SELECT retrospective, number, ordinal, run_id, replacement, result, attempts, claimed_ms, ended_ms,
            cost_usd
        FROM investigations WHERE tenant = $1 AND retrospective = $2 ORDER BY number";
    let rows: Vec<Record> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_all(connection)
        .await
        .on("investigations")?;
    rows.iter().map(Record::read).collect()
}

/// Those of them that have ended.
pub(crate) async fn ended(
    connection: &mut Connection,
    tenant: &Tenant,
    id: RetrospectiveId,
) -> Result<Vec<(Investigation, Timing)>> {
    let mut all = all(connection, tenant, id).await?;
    all.retain(|(one, _)| one.result.is_some());
    Ok(all)
}
