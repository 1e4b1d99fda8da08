//! Purges old rows. Each call is one transaction over the oldest rows of a retention stage: it selects them
//! by an index on their age, and deletes their details by key. Rows locked by others are skipped, so
//! concurrent calls share the work and never wait for each other.
//!
//! No workflow is locked, because the windows are closed and only retention changes the details of claimed
//! runs. An uncounted run, however, may arrive again at any moment. Its facts are deleted under a condition
//! that new facts do not satisfy, and before its body, which is the order in which a counter writes them.

use async_trait::async_trait;
use retro_core::id::EventKey;
use retro_core::retention::{ContentDigest, EventDigest};
use retro_core::run::BodyRef;
use retro_store::retention::RetentionStage;
use retro_store::{PurgeResult, Result, RetentionStore, RetentionTotal};

use super::dialect::{
    Connection, ExactText, OnTable, Store, any_selected, bind_rows, exact_string, from_hex,
    json_array_contains, lookup_join, now_ms, rows_table, skip_locked,
};
use super::open::commit;
use super::pending_presentations;
use crate::rows::commit_label::purge_commit_label;
use crate::{at, to_i64, to_json};

/// Maximum age, in seconds: a thousand years. Keeps the age in milliseconds within 64 bits.
const AGE_MAX_S: u64 = 1_000 * 366 * 24 * 3600;
/// Maximum number of windows processed per call; a window usually has a few dozen runs.
const WINDOWS_PER_CALL: i64 = 100;

/// SQL expression for the latest time, in Unix milliseconds, at which a row is old enough to purge. Parameter
/// 1 is the age in seconds.
macro_rules! cutoff {
    () => {
        concat!(now_ms!(), " - $1 * 1000")
    };
}

#[async_trait]
impl RetentionStore for Store {
    async fn purge_stage(&self, stage: RetentionStage, older_than_s: u64, limit: u32) -> Result<PurgeResult> {
        let (age_s, limit) = (to_i64(older_than_s.min(AGE_MAX_S)), i64::from(limit));
        if stage == RetentionStage::Runs {
            pending_presentations::apply_older(self, age_s).await?;
        }
        let mut transaction = self.begin_write().await?;
        let purged = match stage {
            RetentionStage::Bodies => purge_bodies(&mut transaction, age_s, limit).await?,
            RetentionStage::Journals => purge_journals(&mut transaction, age_s, limit).await?,
            RetentionStage::Runs => purge_runs(&mut transaction, age_s, limit).await?,
            RetentionStage::Events => purge_events(&mut transaction, age_s, limit).await?,
            RetentionStage::Messages => purge_messages(&mut transaction, age_s, limit).await?,
            RetentionStage::Attempts => purge_attempts(&mut transaction, age_s, limit).await?,
        };
        // Nothing was purged. Rolling back leaves the totals and the time of the last purge unchanged.
        if purged == PurgeResult::default() {
            return Ok(purged);
        }
        record_purged(&mut transaction, stage, purged.rows).await?;
        commit(transaction, purge_commit_label(stage)).await?;
        Ok(purged)
    }

    async fn list_retention_totals(&self) -> Result<Vec<RetentionTotal>> {
        const LOAD: &str = "
            SELECT stage, deleted_rows, last_deleted_ms FROM retention_totals WHERE deleted_rows > 0 ORDER BY stage";
        let rows: Vec<(String, i64, i64)> =
            sqlx::query_as(LOAD).fetch_all(self.reader()).await.on_table("retention_totals")?;
        let row = |(stage, purged, last): (String, i64, i64)| {
            let place = at("retention_totals", &stage);
            let (stage, purged, last) =
                (place.parse_enum(&stage)?, place.parse_unsigned(purged)?, place.parse_millis(last)?);
            Ok(RetentionTotal { stage, purged, last })
        };
        rows.into_iter().map(row).collect()
    }
}

async fn record_purged(connection: &mut Connection, stage: RetentionStage, rows: u64) -> Result<()> {
    const ADD: &str = concat!(
        "INSERT INTO retention_totals (stage, deleted_rows, last_deleted_ms) VALUES ($1, $2, ",
        now_ms!(),
        ") ON CONFLICT (stage) DO UPDATE
             SET deleted_rows = retention_totals.deleted_rows + excluded.deleted_rows,
                 last_deleted_ms = excluded.last_deleted_ms"
    );
    sqlx::query(ADD)
        .bind(stage.as_str())
        .bind(to_i64(rows))
        .execute(connection)
        .await
        .on_table("retention_totals")?;
    Ok(())
}

/// Builds the result of a call that purged `rows` rows; more rows may be due if the limit was reached.
fn purged_rows(rows: u64, limit: i64) -> PurgeResult {
    PurgeResult { rows, has_more: to_i64(rows) >= limit }
}

/// Keys of closed retrospectives: tenant and id.
type Windows = Vec<(String, String)>;
/// Keys of runs: tenant, workflow and arrival number.
type RunKeys = Vec<(String, String, i64)>;

/// Lists at most [`WINDOWS_PER_CALL`] closed retrospectives that are old enough and whose windows still have
/// rows of a stage.
async fn list_windows(connection: &mut Connection, sql: &'static str, age_s: i64) -> Result<Windows> {
    sqlx::query_as(sql)
        .bind(age_s)
        .bind(WINDOWS_PER_CALL)
        .fetch_all(connection)
        .await
        .on_table("retrospectives")
}

/// SQL query for the runs to purge: runs in the windows of parameters 2 and 3 that no open manual
/// retrospective has sampled, at most parameter 1. Open manual retrospectives are found once, by their pending
/// investigations, which are few and indexed.
macro_rules! of_windows {
    ($details:literal) => {
        concat!(
            "WITH sampled AS MATERIALIZED (
                 SELECT requested.tenant, requested.workflow, requested.sample FROM investigations AS one
                 JOIN retrospectives AS requested ON requested.tenant = one.tenant AND requested.id = one.retrospective
                     AND requested.state = 'investigating' AND requested.epoch < 0
                 WHERE one.result IS NULL)
             SELECT runs.tenant, runs.workflow, runs.number FROM ",
            rows_table!("closed", "$2" "tenant", "$3" "id"),
            lookup_join!(
                "retrospectives",
                "tenant, workflow, first_ordinal, last_ordinal",
                "retrospectives.tenant = closed.tenant AND retrospectives.id = closed.id"
            ),
            lookup_join!(
                "runs",
                "tenant, workflow, number, ordinal",
                "runs.tenant = retrospectives.tenant AND runs.workflow = retrospectives.workflow
                 AND runs.ordinal BETWEEN retrospectives.first_ordinal AND retrospectives.last_ordinal"
            ),
            " WHERE EXISTS (SELECT 1 FROM ",
            $details,
            " AS details WHERE details.tenant = runs.tenant AND details.workflow = runs.workflow
                 AND details.number = runs.number)
             AND NOT EXISTS (
                 SELECT 1 FROM sampled WHERE sampled.tenant = runs.tenant AND sampled.workflow = runs.workflow AND ",
            json_array_contains!("sampled.sample", "order", "runs.ordinal"),
            ") LIMIT $1"
        )
    };
}

/// SQL statement that advances the purge stage of the windows in parameters 1 and 2 that have no rows left in
/// the details table.
macro_rules! mark_windows {
    ($details:literal, $from:literal, $to:literal) => {
        concat!(
            "UPDATE retrospectives SET deleted_details = ",
            $to,
            " WHERE deleted_details = ",
            $from,
            " AND (tenant, id) IN (SELECT tenant, id FROM ",
            rows_table!("closed", "$1" "tenant", "$2" "id"),
            ") AND NOT EXISTS (
                 SELECT 1 FROM runs JOIN ",
            $details,
            " AS details USING (tenant, workflow, number)
                 WHERE runs.tenant = retrospectives.tenant AND runs.workflow = retrospectives.workflow
                     AND runs.ordinal BETWEEN retrospectives.first_ordinal AND retrospectives.last_ordinal)"
        )
    };
}

/// SQL condition that a row belongs to one of the runs in the last three parameters.
macro_rules! is_of_runs {
    ($tenant:literal, $workflow:literal, $number:literal) => {
        concat!(
            // SQLite takes the affinity of all three columns from the first one. Without the cast it has none, and
            // the index would be searched by tenant and workflow only.
            "(tenant, workflow, number) IN (SELECT CAST(tenant AS text), workflow, number FROM ",
            rows_table!("old", $tenant "tenant", $workflow "workflow", $number "number"),
            ")"
        )
    };
}

/// SQL statement that deletes the details of the runs in parameters 1 to 3 from the table.
macro_rules! delete_details {
    ($details:literal) => {
        concat!("DELETE FROM ", $details, " WHERE ", is_of_runs!("$1", "$2", "$3"))
    };
}

/// SQL statement that deletes the rows of the runs in parameters 1 to 3 from a table that names a run by its id.
macro_rules! delete_by_run_ids {
    ($table:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE (tenant, workflow, run_id) IN (
                 SELECT runs.tenant, runs.workflow, runs.run_id FROM ",
            rows_table!("old", "$1" "tenant", "$2" "workflow", "$3" "number"),
            lookup_join!(
                "runs",
                "tenant, workflow, run_id",
                "runs.tenant = old.tenant AND runs.workflow = old.workflow AND runs.number = old.number"
            ),
            ")"
        )
    };
}

pub(crate) use {delete_details, is_of_runs};

async fn purge_bodies(connection: &mut Connection, age_s: i64, limit: i64) -> Result<PurgeResult> {
    // Only automatic retrospectives: a manual one claims no runs, so its runs may still wait in a window.
    const WINDOWS: &str = concat!(
        "SELECT tenant, id FROM retrospectives
         WHERE state = 'closed' AND deleted_details = 0 AND epoch > 0 AND state_ms <= ",
        cutoff!(),
        " ORDER BY state_ms LIMIT $2",
        skip_locked!()
    );
    const DROPPED: &str = concat!("UPDATE run_facts SET body = $1 WHERE ", is_of_runs!("$2", "$3", "$4"));
    let windows = list_windows(connection, WINDOWS, age_s).await?;
    let picked = pick_runs(connection, of_windows!("run_bodies"), &windows, limit).await?;
    let query = sqlx::query(DROPPED).bind(to_json(&BodyRef::Dropped));
    let query = bind_rows!(query, picked, |run| [run.0.as_str(), run.1.as_str(), run.2]);
    query.execute(&mut *connection).await.on_table("run_facts")?;
    delete_by_runs(connection, "run_bodies", delete_details!("run_bodies"), &picked).await?;
    let marked = mark_purged_windows(connection, mark_windows!("run_bodies", "0", "1"), &windows).await?;
    let rows = picked.len() as u64;
    let uncounted = purge_uncounted(connection, age_s, limit.saturating_sub_unsigned(rows)).await?;
    // Marked windows make room for further ones, so more may be due even below the limit.
    Ok(PurgeResult { rows: rows + uncounted, has_more: marked > 0 || to_i64(rows + uncounted) >= limit })
}

/// Purges the facts and bodies of uncounted runs, and keeps their identities. Returns the number of purged
/// runs.
async fn purge_uncounted(connection: &mut Connection, age_s: i64, limit: i64) -> Result<u64> {
    // Postgres checks the outer condition on the age again on the locked row, which may have new facts by
    // now.
    const FACTS: &str = concat!(
        "DELETE FROM run_facts WHERE uncounted_ms <= ",
        cutoff!(),
        " AND (tenant, workflow, number) IN (
             SELECT tenant, workflow, number FROM run_facts WHERE uncounted_ms IS NOT NULL AND uncounted_ms <= ",
        cutoff!(),
        " ORDER BY uncounted_ms LIMIT $2",
        skip_locked!(),
        ") RETURNING tenant, workflow, number"
    );
    let gone: RunKeys = sqlx::query_as(FACTS)
        .bind(age_s)
        .bind(limit)
        .fetch_all(&mut *connection)
        .await
        .on_table("run_facts")?;
    delete_by_runs(connection, "run_bodies", delete_details!("run_bodies"), &gone).await?;
    Ok(gone.len() as u64)
}

async fn purge_runs(connection: &mut Connection, age_s: i64, limit: i64) -> Result<PurgeResult> {
    const WINDOWS: &str = concat!(
        "SELECT tenant, id FROM retrospectives
         WHERE state = 'closed' AND deleted_details = 1 AND epoch > 0 AND state_ms <= ",
        cutoff!(),
        " ORDER BY state_ms LIMIT $2",
        skip_locked!()
    );
    let windows = list_windows(connection, WINDOWS, age_s).await?;
    let picked = pick_runs(connection, of_windows!("run_facts"), &windows, limit).await?;
    delete_by_runs(connection, "presentations", delete_by_run_ids!("presentations"), &picked).await?;
    delete_by_runs(connection, "memory_assignments", delete_by_run_ids!("memory_assignments"), &picked)
        .await?;
    let rows = delete_by_runs(connection, "run_facts", delete_details!("run_facts"), &picked).await?;
    let marked = mark_purged_windows(connection, mark_windows!("run_facts", "1", "2"), &windows).await?;
    Ok(PurgeResult { rows, has_more: marked > 0 || to_i64(rows) >= limit })
}

async fn pick_runs(
    connection: &mut Connection,
    sql: &'static str,
    windows: &Windows,
    limit: i64,
) -> Result<RunKeys> {
    let query = sqlx::query_as(sql).bind(limit);
    let query = bind_rows!(query, windows, |window| [window.0.as_str(), window.1.as_str()]);
    query.fetch_all(connection).await.on_table("runs")
}

async fn mark_purged_windows(
    connection: &mut Connection,
    sql: &'static str,
    windows: &Windows,
) -> Result<u64> {
    let query = bind_rows!(sqlx::query(sql), windows, |window| [window.0.as_str(), window.1.as_str()]);
    let done = query.execute(connection).await.on_table("retrospectives")?;
    Ok(done.rows_affected())
}

/// Runs a statement that deletes rows of the runs in its parameters 1 to 3. Returns the number of deleted
/// rows.
async fn delete_by_runs(
    connection: &mut Connection,
    table: &'static str,
    sql: &'static str,
    keys: &RunKeys,
) -> Result<u64> {
    let query = bind_rows!(sqlx::query(sql), keys, |run| [run.0.as_str(), run.1.as_str(), run.2]);
    let done = query.execute(connection).await.on_table(table)?;
    Ok(done.rows_affected())
}

async fn purge_journals(connection: &mut Connection, age_s: i64, limit: i64) -> Result<PurgeResult> {
    const JOURNALS: &str = concat!(
        "DELETE FROM journal WHERE (tenant, retrospective, number, stage) IN (
            SELECT one.tenant, one.retrospective, one.number, one.stage FROM journal AS one
            JOIN retrospectives AS whole ON whole.tenant = one.tenant AND whole.id = one.retrospective
            WHERE one.written_ms <= ",
        cutoff!(),
        " AND whole.state IN ('closed', 'failed', 'cancelled')
            ORDER BY one.written_ms LIMIT $2",
        skip_locked!("one"),
        ")"
    );
    const BATCHES: &str = concat!(
        "DELETE FROM mutation_batches WHERE (tenant, retrospective) IN (
            SELECT batch.tenant, batch.retrospective FROM mutation_batches AS batch
            JOIN retrospectives AS whole ON whole.tenant = batch.tenant AND whole.id = batch.retrospective
            WHERE batch.settled_ms <= ",
        cutoff!(),
        " AND whole.state IN ('closed', 'failed', 'cancelled')
            ORDER BY batch.settled_ms LIMIT $2",
        skip_locked!("batch"),
        ")"
    );
    const CALLS: &str = concat!(
        "DELETE FROM model_calls WHERE (tenant, retrospective, number, position) IN (
            SELECT one.tenant, one.retrospective, one.number, one.position FROM model_calls AS one
            JOIN retrospectives AS whole ON whole.tenant = one.tenant AND whole.id = one.retrospective
            WHERE one.written_ms <= ",
        cutoff!(),
        " AND whole.state IN ('closed', 'failed', 'cancelled')
            ORDER BY one.written_ms LIMIT $2",
        skip_locked!("one"),
        ")"
    );
    // A decision that is due may still need the answers.
    const REVIEW_CALLS: &str = concat!(
        "DELETE FROM review_calls WHERE (tenant, repo, number, position) IN (
            SELECT one.tenant, one.repo, one.number, one.position FROM review_calls AS one
            JOIN reviews ON reviews.tenant = one.tenant AND reviews.repo = one.repo AND reviews.number = one.number
            WHERE one.written_ms <= ",
        cutoff!(),
        " AND reviews.due_ms IS NULL
            ORDER BY one.written_ms LIMIT $2",
        skip_locked!("one"),
        ")"
    );
    let journals = delete_rows(connection, "journal", JOURNALS, age_s, limit).await?;
    let left = limit.saturating_sub_unsigned(journals);
    let batches = delete_rows(connection, "mutation_batches", BATCHES, age_s, left).await?;
    let left = left.saturating_sub_unsigned(batches);
    let calls = delete_rows(connection, "model_calls", CALLS, age_s, left).await?;
    let left = left.saturating_sub_unsigned(calls);
    let review_calls = delete_rows(connection, "review_calls", REVIEW_CALLS, age_s, left).await?;
    Ok(purged_rows(journals + batches + calls + review_calls, limit))
}

async fn purge_messages(connection: &mut Connection, age_s: i64, limit: i64) -> Result<PurgeResult> {
    const DELETE: &str = concat!(
        "DELETE FROM outbox WHERE sequence",
        any_selected!(
            "SELECT sequence FROM outbox WHERE sent_ms IS NOT NULL AND sent_ms <= ",
            cutoff!(),
            " ORDER BY sent_ms LIMIT $2",
            skip_locked!()
        )
    );
    Ok(purged_rows(delete_rows(connection, "outbox", DELETE, age_s, limit).await?, limit))
}

async fn purge_attempts(connection: &mut Connection, age_s: i64, limit: i64) -> Result<PurgeResult> {
    const DELETE: &str = concat!(
        "DELETE /* reads all: redelivered messages only */ FROM attempts WHERE (consumer, stream, sequence) IN (
            SELECT consumer, stream, sequence FROM attempts WHERE last_attempt_ms <= ",
        cutoff!(),
        " LIMIT $2",
        skip_locked!(),
        ")"
    );
    const DELETE_HISTORY: &str = concat!(
        "DELETE FROM attempt_history WHERE number",
        any_selected!(
            "SELECT number FROM attempt_history WHERE dead_letter IS NULL
                 AND coalesce(failed_ms, started_ms) <= ",
            cutoff!(),
            " LIMIT $2",
            skip_locked!()
        )
    );
    let counts = purged_rows(delete_rows(connection, "attempts", DELETE, age_s, limit).await?, limit);
    let history =
        purged_rows(delete_rows(connection, "attempt_history", DELETE_HISTORY, age_s, limit).await?, limit);
    Ok(PurgeResult { rows: counts.rows + history.rows, has_more: counts.has_more || history.has_more })
}

async fn delete_rows(
    connection: &mut Connection,
    table: &'static str,
    sql: &'static str,
    age_s: i64,
    limit: i64,
) -> Result<u64> {
    let done = sqlx::query(sql).bind(age_s).bind(limit).execute(connection).await.on_table(table)?;
    Ok(done.rows_affected())
}

/// Replaces inbox rows with digests, inserted in sorted order so that neighbouring rows share pages.
async fn purge_events(connection: &mut Connection, age_s: i64, limit: i64) -> Result<PurgeResult> {
    const PICK: &str = concat!(
        "DELETE FROM inbox WHERE (consumer, tenant, source, event_id) IN (
             SELECT consumer, tenant, source, event_id FROM inbox WHERE received_ms <= ",
        cutoff!(),
        " ORDER BY received_ms LIMIT $2",
        skip_locked!(),
        ") RETURNING consumer, tenant, source, event_id, content_hash"
    );
    const KEEP: &str = concat!(
        "INSERT INTO seen_events (digest, content_digest) SELECT ",
        from_hex!("digest"),
        ", ",
        from_hex!("content_digest"),
        " FROM ",
        rows_table!("seen", "$1" "digest", "$2" "content_digest"),
        " ORDER BY place ON CONFLICT (digest) DO NOTHING"
    );
    type Row = (String, String, ExactText, ExactText, String);
    let rows: Vec<Row> =
        sqlx::query_as(PICK).bind(age_s).bind(limit).fetch_all(&mut *connection).await.on_table("inbox")?;
    let purged = purged_rows(rows.len() as u64, limit);
    let mut digests = Vec::with_capacity(rows.len());
    for (consumer, tenant, source, id, hash) in rows {
        let (source, id) = (exact_string(source), exact_string(id));
        let tenant = at("inbox.tenant", &id).parse(&tenant)?;
        let digest = EventDigest::of_event(&consumer, &EventKey { tenant, source, id });
        digests.push((digest, ContentDigest::of_hash(&hash)));
    }
    digests.sort_unstable();
    let query = bind_rows!(sqlx::query(KEEP), digests, |seen| [
        format_event_digest(seen.0),
        format_content_digest(seen.1),
    ]);
    query.execute(connection).await.on_table("seen_events")?;
    Ok(purged)
}

/// Formats the digest of an event's identity in hexadecimal digits.
fn format_event_digest(digest: EventDigest) -> String {
    digest.0.simple().to_string()
}

/// Formats the digest of an event's content in hexadecimal digits.
fn format_content_digest(digest: ContentDigest) -> String {
    format!("{:016x}", u64::from_be_bytes(digest.0))
}

/// Returns the content digests of the events whose inbox rows were purged, each with its index in `events`.
pub(crate) async fn purged_events(
    connection: &mut Connection,
    consumer: &str,
    events: &[&EventKey],
) -> Result<Vec<(i64, ContentDigest)>> {
    const SEEN: &str = concat!(
        "SELECT requested.place - 1, seen_events.content_digest FROM ",
        rows_table!("requested", "$1" "digest"),
        lookup_join!(
            "seen_events",
            "content_digest",
            concat!("seen_events.digest = ", from_hex!("requested.digest"))
        )
    );
    let digest = |event: &&EventKey| format_event_digest(EventDigest::of_event(consumer, event));
    let digests: Vec<String> = events.iter().map(digest).collect();
    let query = bind_rows!(sqlx::query_as(SEEN), digests, |digest| [digest.as_str()]);
    let rows: Vec<(i64, Vec<u8>)> = query.fetch_all(connection).await.on_table("seen_events")?;
    let content = |(place, bytes): (i64, Vec<u8>)| {
        let content: [u8; 8] = bytes
            .as_slice()
            .try_into()
            .map_err(|error| at("seen_events.content_digest", place).damaged_error(error))?;
        Ok((place, ContentDigest(content)))
    };
    rows.into_iter().map(content).collect()
}
