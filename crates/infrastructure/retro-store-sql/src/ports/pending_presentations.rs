//! Presentations that wait to be applied: one row an answer, so that recording is cheap while many agents ask.
//!
//! A row is deleted in the transaction that applies it. What was recorded first is applied first, unless two gateways
//! apply at once: then a run's second answer may be applied before its first, which chose the same memories.
//!
//! The rows of a run are found in its bucket, see `0020_presentation_buckets.sql`.

use retro_core::feedback::FEEDBACK_PER_CLOSING_MAX;
use retro_core::id::{MemoryId, RunId, WorkflowKey};
use retro_fault::Label;
use retro_store::{Presentation, Result, StoreError};

use super::dialect::{
    Connection, OnTable, Store, any_selected, bind_rows, lookup_join, now_ms, rows_table, skip_locked,
};
use super::open::commit;
use super::presentations::{RecordedPresentation, store_presentations};
use crate::rows::presentation::{
    PendingPresentation, PendingRow, RunsOfFeedback, bucket_of_run, format_pending_memories,
};
use crate::{at, to_i64};

/// Maximum number of answers of one run that are looked at before they are applied. A run asks once or a few times for
/// each of its steps; a run that asks more often meets the same memories again.
const ANSWERS_OF_RUN_MAX: u64 = 1_000;

/// Maximum number of rows that are applied in one transaction before their runs are purged.
const OLDER_APPLIED_MAX: u32 = 128;
/// Maximum number of such transactions in one purge.
const OLDER_BATCHES_MAX: u32 = 100;

/// Appends a row for each presentation that says anything.
pub(crate) async fn append(connection: &mut Connection, presentations: &[Presentation]) -> Result<()> {
    const APPEND: &str = concat!(
        "INSERT INTO pending_presentations (tenant, workflow, run_id, memories, bucket, presented_ms)
         SELECT tenant, workflow, run_id, memories, bucket, ",
        now_ms!(),
        " FROM ",
        rows_table!("new", "$1" "tenant", "$2" "workflow", "$3" "run_id", "$4" "memories", "$5" "bucket"),
        " ORDER BY place"
    );
    let rows: Vec<(&Presentation, String)> = presentations
        .iter()
        .map(|one| (one, format_pending_memories(one)))
        .filter(|(_, memories)| !memories.is_empty())
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let query = bind_rows!(sqlx::query(APPEND), rows, |(one, memories)| [
        one.key.tenant.as_str(),
        one.key.workflow.as_str(),
        one.run.as_str(),
        memories.as_str(),
        bucket_of_run(one.key.tenant.as_str(), one.key.workflow.as_str(), one.run.as_str()),
    ]);
    let done = query.execute(connection).await.on_table("pending_presentations")?;
    at("pending_presentations", "all").check_rows_affected(done.rows_affected(), rows.len())
}

/// Returns the number of rows, or a little more: numbers that were never committed count.
pub(crate) async fn count_at_most(connection: &mut Connection) -> Result<u64> {
    // Two look-ups in the key, not a count.
    const COUNT: &str = "
        SELECT coalesce((SELECT max(id) FROM pending_presentations /* reads all: only the last entry of the key */)
            - (SELECT min(id) FROM pending_presentations) + 1, 0)";
    let count: i64 =
        sqlx::query_scalar(COUNT).fetch_one(connection).await.on_table("pending_presentations")?;
    at("pending_presentations.id", "all").parse_unsigned(count)
}

/// Applies the oldest rows, at most `limit`. Returns their number.
async fn apply_oldest(connection: &mut Connection, limit: u32) -> Result<u64> {
    const TAKE: &str = concat!(
        "DELETE FROM pending_presentations WHERE id",
        any_selected!(
            "SELECT id FROM pending_presentations /* reads all: only the first entries of the key */
             ORDER BY id LIMIT $1",
            skip_locked!()
        ),
        " RETURNING id, tenant, workflow, run_id, memories, presented_ms"
    );
    let mut rows: Vec<PendingRow> = sqlx::query_as(TAKE)
        .bind(i64::from(limit))
        .fetch_all(&mut *connection)
        .await
        .on_table("pending_presentations")?;
    if rows.is_empty() {
        return Ok(0);
    }
    rows.sort_unstable_by_key(|row| row.0);
    let pending: Vec<PendingPresentation> =
        rows.into_iter().map(PendingPresentation::from_row).collect::<Result<_>>()?;
    let recorded: Vec<RecordedPresentation<'_>> =
        pending.iter().map(|one| (&one.presentation, Some(one.recorded_ms))).collect();
    store_presentations(connection, &recorded).await?;
    Ok(pending.len() as u64)
}

/// Applies the oldest rows in a transaction of its own, at most `limit`. Returns their number.
pub(crate) async fn apply(store: &Store, limit: u32) -> Result<u64> {
    let mut transaction = store.begin_write().await?;
    let applied = apply_oldest(&mut transaction, limit).await?;
    commit(transaction, Label::PresentationsApplyCommit).await?;
    Ok(applied)
}

/// Applies the rows that have waited for longer than an age, at most those of [`OLDER_BATCHES_MAX`] transactions: what is stored
/// of their runs is purged at that age, and after it they would stay for ever. A damaged row keeps no run from being purged; the
/// gateways, which apply, report it.
pub(crate) async fn apply_older(store: &Store, age_s: i64) -> Result<()> {
    for _ in 0..OLDER_BATCHES_MAX {
        if !is_oldest_older(store, age_s).await? {
            break;
        }
        match apply(store, OLDER_APPLIED_MAX).await {
            // Another process applies them.
            Ok(0) | Err(StoreError::Damaged { .. }) => break,
            Ok(_) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

async fn is_oldest_older(store: &Store, age_s: i64) -> Result<bool> {
    const OLDEST: &str = concat!(
        "SELECT presented_ms <= ",
        now_ms!(),
        " - $1 * 1000 FROM pending_presentations /* reads all: only the first entry of the key */ ORDER BY id LIMIT 1"
    );
    let is_older: Option<bool> = sqlx::query_scalar(OLDEST)
        .bind(age_s)
        .fetch_optional(store.reader())
        .await
        .on_table("pending_presentations")?;
    Ok(is_older == Some(true))
}

/// Loads the runs of the feedback on memories of a workflow or rule scope that the next closing weighs.
pub(crate) async fn load_runs_of_feedback(
    connection: &mut Connection,
    scope: &WorkflowKey,
) -> Result<RunsOfFeedback> {
    const RUNS: &str = "
        SELECT DISTINCT workflow, run_id FROM (
            SELECT workflow, run_id FROM memory_feedback
            WHERE tenant = $1 AND scope = $2 AND settled_by IS NULL
            ORDER BY passes, id LIMIT $3) AS said
        WHERE run_id IS NOT NULL";
    const PENDING: &str = concat!(
        "SELECT pending_presentations.id, pending_presentations.tenant, pending_presentations.workflow,
            pending_presentations.run_id, memories, presented_ms FROM ",
        rows_table!("said", "$1" "tenant", "$2" "workflow", "$3" "run_id", "$4" "bucket"),
        lookup_join!(
            "pending_presentations",
            "id, tenant, workflow, run_id, memories, presented_ms",
            "pending_presentations.bucket IN (0, said.bucket)
                AND pending_presentations.tenant = said.tenant AND pending_presentations.workflow = said.workflow
                AND pending_presentations.run_id = said.run_id"
        )
    );
    let runs: Vec<(String, String)> = sqlx::query_as(RUNS)
        .bind(scope.tenant.as_str())
        .bind(scope.workflow.as_str())
        .bind(i64::from(FEEDBACK_PER_CLOSING_MAX))
        .fetch_all(&mut *connection)
        .await
        .on_table("memory_feedback")?;
    if runs.is_empty() {
        return Ok(RunsOfFeedback::default());
    }
    let tenant = scope.tenant.as_str();
    let query = bind_rows!(sqlx::query_as(PENDING), runs, |(workflow, run)| [
        tenant,
        workflow.as_str(),
        run.as_str(),
        bucket_of_run(tenant, workflow, run),
    ]);
    let rows: Vec<PendingRow> = query.fetch_all(connection).await.on_table("pending_presentations")?;
    RunsOfFeedback::from_rows(scope, &runs, rows)
}

/// Lists what a run was handed and is not applied yet, oldest first.
pub(crate) async fn list_of_run(
    connection: &mut Connection,
    key: &WorkflowKey,
    run: &RunId,
) -> Result<Vec<PendingPresentation>> {
    const LIST: &str = "
        SELECT id, tenant, workflow, run_id, memories, presented_ms FROM pending_presentations
        WHERE tenant = $1 AND workflow = $2 AND run_id = $3 AND bucket IN (0, $4) ORDER BY id LIMIT $5";
    let rows: Vec<PendingRow> = sqlx::query_as(LIST)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(run.as_str())
        .bind(bucket_of_run(key.tenant.as_str(), key.workflow.as_str(), run.as_str()))
        .bind(to_i64(ANSWERS_OF_RUN_MAX))
        .fetch_all(connection)
        .await
        .on_table("pending_presentations")?;
    rows.into_iter().map(PendingPresentation::from_row).collect()
}

/// Returns `true` if the memory is among what the run was handed and is not applied yet.
pub(crate) async fn was_presented(
    connection: &mut Connection,
    key: &WorkflowKey,
    run: &RunId,
    memory: MemoryId,
) -> Result<bool> {
    let pending = list_of_run(connection, key, run).await?;
    Ok(pending.iter().any(|one| one.presentation.memories.contains(&memory)))
}
