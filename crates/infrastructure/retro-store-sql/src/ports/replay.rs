//! Replays and discards dead letters. Each action locks the dead letter's row, so two operators cannot act on
//! it concurrently.

use async_trait::async_trait;
use retro_core::attribution::Attribution;
use retro_core::id::{DeadLetterId, ReplayBatchId, ReplayId, Tenant};
use retro_core::replay::{BatchAction, ReplayOutcome, ReplayPace};
use retro_fault::Label;
use retro_store::cancel::DecideReopen;
use retro_store::replay::{
    CancelBatchResult, DecideBatchStep, DiscardResult, NewReplayBatch, ReplayBatchItem, ReplayBatchRow,
    RequestReplayResult,
};
use retro_store::{AuditAction, DeadLetterStatus, MessageContent, OutgoingReplay, ReplayStore, Result};

use super::dialect::{Connection, OnTable, Store, least, now_ms};
use super::open::commit;
use super::{audit, batch, replayed, scheduled_replays, stored_dead_letters};
use crate::{at, to_i64};

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
        let Some(dead_letter) =
            stored_dead_letters::load_locked(&mut transaction, tenant, dead_letter).await?
        else {
            return Ok(RequestReplayResult::NotFound);
        };
        let how = scheduled_replays::ReplayOptions {
            tenant,
            version,
            act,
            batch: None,
            pace: &ReplayPace::default(),
        };
        let replayed = scheduled_replays::schedule_replay(&mut transaction, &dead_letter, &how).await?;
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
        let Some(dead_letter) =
            stored_dead_letters::find_dead_letter(&mut snapshot, tenant, dead_letter).await?
        else {
            return Ok(None);
        };
        stored_dead_letters::load_content(&mut snapshot, &dead_letter, version).await
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
            let dead_letter = stored_dead_letters::find_dead_letter(
                &mut snapshot,
                &place.parse(&tenant)?,
                place.parse(&dead_letter)?,
            )
            .await?;
            let dead_letter = dead_letter.ok_or_else(|| place.damaged_error("its dead letter is missing"))?;
            let content = stored_dead_letters::load_content(
                &mut snapshot,
                &dead_letter,
                Some(place.parse_unsigned(version)?),
            )
            .await?;
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

async fn discard_dead_letter(
    connection: &mut Connection,
    tenant: &Tenant,
    dead_letter: DeadLetterId,
    act: &Attribution,
) -> Result<DiscardResult> {
    const ASIDE: &str = "UPDATE dead_letters SET status = $2 WHERE id = $1 AND status = $3";
    let Some(dead_letter) = stored_dead_letters::load_locked(connection, tenant, dead_letter).await? else {
        return Ok(DiscardResult::NotFound);
    };
    match dead_letter.status {
        DeadLetterStatus::Open => {}
        DeadLetterStatus::Discarded => return find_earlier_discard(connection, tenant, dead_letter.id).await,
        DeadLetterStatus::Replaying | DeadLetterStatus::Handled => {
            return Ok(DiscardResult::Replayed(
                scheduled_replays::load_last_replay(connection, dead_letter.id).await?,
            ));
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
