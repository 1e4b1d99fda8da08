//! Implements the investigator's port.
//!
//! Every write after the claim is guarded by the claim's fencing token; a statement that matches no row
//! because the token has advanced fails with [`StoreError::Fenced`].

use async_trait::async_trait;
use retro_core::calls::{CallCounts, WindowSummaries};
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::investigate::{NextStage, decide_next_stage};
use retro_core::learn::Mutation;
use retro_core::report::InvestigationTiming;
use retro_core::retrospective::{Investigation, InvestigationResult, Retrospective, RetrospectiveState};
use retro_core::sample::Sample;
use retro_fault::Label;
use retro_store::investigate::DecideFollowUp;
use retro_store::{
    Claim, InvestigationSequence, InvestigatorStore, JournalEntry, Result, RunToSummarize, StoreError,
    SummaryWrite,
};

use super::dialect::{Connection, Database, OnTable, Store, for_update, greatest, now_ms, storable_text};
use super::open::commit;
use super::{claim, investigations, lock, outbox, retrospective, summaries};
use crate::rows::commit_label::journal_commit_label;
use crate::rows::investigate::{bounded_seconds, check_not_fenced, fenced_error, ordinal_at};
use crate::rows::retrospective::require_sample;
use crate::rows::summary::compress_summaries;
use crate::rows::trace::current_trace;
use crate::{at, to_i64, to_json};

#[async_trait]
impl InvestigatorStore for Store {
    async fn claim_investigation(&self, worker: &str, lease_s: u64) -> Result<Option<Claim>> {
        let mut transaction = self.begin_write().await?;
        let Some(claimed) = claim::claim_next(&mut transaction, worker, bounded_seconds(lease_s)).await?
        else {
            return Ok(None);
        };
        let loaded = claim::load_claim(&mut transaction, &claimed).await;
        // Commit the claim even if its data is damaged. Otherwise every worker would pick the damaged
        // investigation first and never reach the others.
        if !matches!(loaded, Ok(_) | Err(StoreError::Damaged { .. })) {
            return loaded.map(Some);
        }
        commit(transaction, Label::ClaimCommit).await?;
        loaded.map(Some)
    }

    async fn extend_lease(&self, claim: &Claim, lease_s: u64) -> Result<()> {
        const HOLD: &str = concat!(
            "UPDATE investigations SET lease_ms = ",
            now_ms!(),
            " + CAST($5 AS BIGINT) * 1000
             WHERE tenant = $1 AND retrospective = $2 AND number = $3 AND token = $4 AND result IS NULL"
        );
        let mut transaction = self.begin_write().await?;
        let done = bind_claim(HOLD, claim)
            .bind(bounded_seconds(lease_s))
            .execute(&mut *transaction)
            .await
            .on_table("investigations")?;
        check_not_fenced(claim, done.rows_affected())?;
        commit(transaction, Label::HeartbeatCommit).await
    }

    async fn append_journal(&self, claim: &Claim, entry: &JournalEntry) -> Result<()> {
        const WRITE: &str = concat!(
            "INSERT INTO journal (tenant, retrospective, number, token, stage, body, written_ms)
             VALUES ($1, $2, $3, $4, $5, $6, ",
            now_ms!(),
            ") ON CONFLICT (tenant, retrospective, number, stage) DO NOTHING"
        );
        let mut transaction = self.begin_write().await?;
        hold_claim(&mut transaction, claim).await?;
        bind_claim(WRITE, claim)
            .bind(entry.stage.as_str())
            .bind(entry.body.to_string())
            .execute(&mut *transaction)
            .await
            .on_table("journal")?;
        commit(transaction, journal_commit_label(entry.stage)).await
    }

    async fn schedule_retry(&self, claim: &Claim, pause_s: u64, reason: &str) -> Result<()> {
        // Advance the token, so a late write under the released claim is fenced.
        const GIVE_BACK: &str = concat!(
            "UPDATE investigations SET lease_ms = NULL, token = token + 1, last_error = $6, not_before_ms = ",
            now_ms!(),
            " + CAST($5 AS BIGINT) * 1000
             WHERE tenant = $1 AND retrospective = $2 AND number = $3 AND token = $4 AND result IS NULL"
        );
        let mut transaction = self.begin_write().await?;
        let done = bind_claim(GIVE_BACK, claim)
            .bind(bounded_seconds(pause_s))
            .bind(storable_text(reason))
            .execute(&mut *transaction)
            .await
            .on_table("investigations")?;
        check_not_fenced(claim, done.rows_affected())?;
        commit(transaction, Label::RetryCommit).await
    }

    async fn release_claim(&self, claim: &Claim) -> Result<()> {
        // The attempt is returned but the token still advances, so a late write of the old holder is fenced.
        const RELEASE: &str = concat!(
            "UPDATE investigations SET lease_ms = NULL, token = token + 1, attempts = ",
            greatest!(),
            "(attempts - 1, 0)
             WHERE tenant = $1 AND retrospective = $2 AND number = $3 AND token = $4 AND result IS NULL"
        );
        let mut transaction = self.begin_write().await?;
        let done = bind_claim(RELEASE, claim).execute(&mut *transaction).await.on_table("investigations")?;
        check_not_fenced(claim, done.rows_affected())?;
        commit(transaction, Label::ReleaseCommit).await
    }

    async fn begin_summaries(&self, claim: &Claim, limit: u32) -> Result<Vec<RunToSummarize>> {
        // A manual retrospective has no window.
        if claim.retrospective.manual_request.is_some() {
            return Ok(Vec::new());
        }
        let mut transaction = self.begin_write().await?;
        hold_claim(&mut transaction, claim).await?;
        let runs = summaries::begin_summaries(&mut transaction, &claim.retrospective, limit).await?;
        commit(transaction, Label::SummaryBeginCommit).await?;
        Ok(runs)
    }

    async fn store_summaries(&self, claim: &Claim, summaries: &[SummaryWrite]) -> Result<()> {
        // Before the transaction begins, so no lock is held during compression.
        let rows = compress_summaries(summaries)?;
        let mut transaction = self.begin_write().await?;
        hold_claim(&mut transaction, claim).await?;
        summaries::store_summaries(&mut transaction, &claim.retrospective, &rows).await?;
        commit(transaction, Label::SummaryCommit).await
    }

    async fn finish_investigation(
        &self,
        claim: &Claim,
        result: &InvestigationResult,
        timing: InvestigationTiming,
        decide: DecideFollowUp<'_>,
    ) -> Result<()> {
        let (tenant, id) = (&claim.retrospective.key.tenant, claim.retrospective.id);
        let mut transaction = self.begin_write().await?;
        // Lock the workflow before the investigation: the opposite order could deadlock with a cancellation.
        lock::lock_workflow(&mut transaction, &claim.retrospective.key).await?;
        end_investigation(&mut transaction, claim, result, timing).await?;
        let stored = retrospective::find_retrospective(&mut transaction, tenant, id).await?;
        let (retrospective, sample) =
            stored.ok_or_else(|| at("retrospectives", id).damaged_error("the row is missing"))?;
        // The retrospective was cancelled in the meantime: a late worker must not advance it.
        if retrospective.state != RetrospectiveState::Investigating {
            return Err(fenced_error(claim));
        }
        let sample = require_sample(&retrospective, sample)?;
        let ended: Vec<Investigation> = investigations::list_ended(&mut transaction, tenant, id)
            .await?
            .into_iter()
            .map(|(one, _)| one)
            .collect();
        let window = load_window(&mut transaction, &retrospective, &sample, &ended).await?;
        let sequence = InvestigationSequence { retrospective, sample, ended, window };
        let finish = decide(&sequence);
        let InvestigationSequence { retrospective, sample, .. } = sequence;
        match finish.next {
            NextStage::Investigate { number, at, replacement } => {
                add_investigation(&mut transaction, &retrospective, &sample, number, at, replacement).await?;
            }
            NextStage::Settle => {
                store_batch(&mut transaction, &retrospective, &finish.batch, finish.calls.as_ref()).await?;
                retrospective::set_state(&mut transaction, &retrospective, RetrospectiveState::Settling)
                    .await?;
            }
        }
        outbox::enqueue_messages(&mut transaction, std::iter::once(&finish.message)).await?;
        commit(transaction, Label::FinishCommit).await
    }

    async fn count_claimable(&self) -> Result<u64> {
        let count: i64 =
            sqlx::query_scalar(claim::CLAIMABLE).fetch_one(self.reader()).await.on_table("investigations")?;
        at("investigations", "claimable").parse_unsigned(count)
    }
}

pub(crate) type Statement = sqlx::query::Query<'static, Database, <Database as sqlx::Database>::Arguments>;

/// Builds a statement with the claim's key and token bound to its first four parameters.
pub(crate) fn bind_claim(sql: &'static str, claim: &Claim) -> Statement {
    let Claim { retrospective, number, token, .. } = claim;
    sqlx::query(sql)
        .bind(retrospective.key.tenant.as_str().to_owned())
        .bind(retrospective.id.to_string())
        .bind(i64::from(*number))
        .bind(to_i64(*token))
}

/// Locks a claimed investigation until the transaction ends, so the claim cannot be taken over before the
/// transaction has written. Fails with [`StoreError::Fenced`] if the claim is no longer valid.
pub(crate) async fn hold_claim(connection: &mut Connection, claim: &Claim) -> Result<()> {
    const HOLD: &str = concat!(
        "SELECT number FROM investigations
         WHERE tenant = $1 AND retrospective = $2 AND number = $3 AND token = $4 AND result IS NULL",
        for_update!()
    );
    let found = bind_claim(HOLD, claim).fetch_all(connection).await.on_table("investigations")?;
    check_not_fenced(claim, found.len() as u64)
}

/// Loads the call summaries of a window whose last investigation is ending; they are not read before.
async fn load_window(
    connection: &mut Connection,
    retrospective: &Retrospective,
    sample: &Sample,
    ended: &[Investigation],
) -> Result<WindowSummaries> {
    let results: Vec<_> = ended.iter().filter_map(|one| one.result.clone()).collect();
    if retrospective.manual_request.is_some() || decide_next_stage(sample, &results) != NextStage::Settle {
        return Ok(WindowSummaries::default());
    }
    summaries::load_window(connection, retrospective).await
}

/// Fences every unfinished investigation of a retrospective, so later writes under the current claims fail.
pub(crate) async fn fence_investigations(
    connection: &mut Connection,
    tenant: &Tenant,
    id: RetrospectiveId,
) -> Result<()> {
    const FENCE: &str = "
        UPDATE investigations SET lease_ms = NULL, token = token + 1
        WHERE tenant = $1 AND retrospective = $2 AND result IS NULL";
    sqlx::query(FENCE)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .execute(connection)
        .await
        .on_table("investigations")?;
    Ok(())
}

async fn end_investigation(
    connection: &mut Connection,
    claim: &Claim,
    result: &InvestigationResult,
    timing: InvestigationTiming,
) -> Result<()> {
    const END: &str = concat!(
        "UPDATE investigations SET lease_ms = NULL, ended_token = $4, result = $5, cost_usd = $6 + (
             SELECT coalesce(sum(cost_micro_usd), 0) / 1000000.0 FROM model_calls
             WHERE tenant = $1 AND retrospective = $2 AND number = $3
         ), ended_ms = ",
        now_ms!(),
        " WHERE tenant = $1 AND retrospective = $2 AND number = $3 AND token = $4 AND result IS NULL"
    );
    let done = bind_claim(END, claim)
        .bind(to_json(result))
        .bind(timing.cost_usd)
        .execute(connection)
        .await
        .on_table("investigations")?;
    check_not_fenced(claim, done.rows_affected())
}

/// Stores an investigation, due immediately, of the run at the 0-based position `at` of the shuffled order.
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
        .bind(to_i64(ordinal))
        .bind(current_trace())
        .execute(connection)
        .await
        .on_table("investigations")?;
    crate::at("runs.ordinal", format!("{}, ordinal {ordinal}", retrospective.key))
        .check_rows_affected(done.rows_affected(), 1)
}

/// Stores the batch of mutations with which a retrospective starts settling, and what the runs of its window
/// called.
pub(crate) async fn store_batch(
    connection: &mut Connection,
    retrospective: &Retrospective,
    batch: &[Mutation],
    calls: Option<&CallCounts>,
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO mutation_batches (tenant, retrospective, mutations, calls, settled_ms)
         VALUES ($1, $2, $3, $4, ",
        now_ms!(),
        ")"
    );
    let done = sqlx::query(STORE)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.id.to_string())
        .bind(to_json(&batch))
        .bind(calls.map(to_json))
        .execute(connection)
        .await
        .on_table("mutation_batches")?;
    at("mutation_batches", retrospective.id).check_rows_affected(done.rows_affected(), 1)
}
