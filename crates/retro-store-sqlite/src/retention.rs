//! Purges old rows. Each call is one transaction over the oldest rows of a retention stage: it selects them
//! by an index on their age, and deletes their details by key.

use async_trait::async_trait;
use retro_core::id::EventKey;
use retro_core::retention::{ContentDigest, EventDigest};
use retro_core::run::BodyRef;
use retro_store::retention::RetentionStage;
use retro_store::{PurgeResult, Result, RetentionStore, RetentionTotal};
use retro_store_sql::commit_label::purge_commit_label;
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::convert::{self, OnTable, at, to_i64};
use crate::open::commit;
use crate::{SqliteStore, now_ms};

/// Maximum age, in seconds: a thousand years. Keeps the age in milliseconds within 64 bits.
const AGE_MAX_S: u64 = 1_000 * 366 * 24 * 3600;
/// Maximum number of windows processed per call; a window usually has a few dozen runs.
const WINDOWS_PER_CALL: u32 = 100;

/// SQL expression for the latest time, in Unix milliseconds, at which a row is old enough to purge. Parameter
/// 1 is the age in seconds.
macro_rules! cutoff {
    () => {
        concat!(now_ms!(), " - ?1 * 1000")
    };
}

#[async_trait]
impl RetentionStore for SqliteStore {
    async fn purge_stage(&self, stage: RetentionStage, older_than_s: u64, limit: u32) -> Result<PurgeResult> {
        let age_s = to_i64(older_than_s.min(AGE_MAX_S));
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

async fn record_purged(connection: &mut SqliteConnection, stage: RetentionStage, rows: u64) -> Result<()> {
    const ADD: &str = concat!(
        "INSERT INTO retention_totals (stage, deleted_rows, last_deleted_ms) VALUES (?1, ?2, ",
        now_ms!(),
        ") ON CONFLICT (stage) DO UPDATE
             SET deleted_rows = deleted_rows + excluded.deleted_rows,
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
fn purged_rows(rows: u64, limit: u32) -> PurgeResult {
    PurgeResult { rows, has_more: rows >= u64::from(limit) }
}

/// Lists at most [`WINDOWS_PER_CALL`] closed retrospectives that are old enough and whose windows still have
/// rows of a stage.
async fn list_windows(
    connection: &mut SqliteConnection,
    sql: &'static str,
    age_s: i64,
) -> Result<Vec<(String, String)>> {
    sqlx::query_as(sql)
        .bind(age_s)
        .bind(WINDOWS_PER_CALL)
        .fetch_all(connection)
        .await
        .on_table("retrospectives")
}

/// SQL query for the runs to purge: runs in the windows of parameter 1 that no open manual retrospective has
/// sampled. Open manual retrospectives are found by their pending investigations, which are few and indexed.
macro_rules! of_windows {
    ($details:literal) => {
        concat!(
            "SELECT details.tenant, details.workflow, details.number FROM json_each(?1) AS window
             CROSS JOIN retrospectives AS closed ON closed.tenant = window.value ->> 0 AND closed.id = window.value ->> 1
             CROSS JOIN runs ON runs.tenant = closed.tenant AND runs.workflow = closed.workflow
                 AND runs.ordinal BETWEEN closed.first_ordinal AND closed.last_ordinal
             CROSS JOIN ", $details, " AS details ON details.tenant = runs.tenant
                 AND details.workflow = runs.workflow AND details.number = runs.number
             WHERE (runs.tenant, runs.workflow, runs.ordinal) NOT IN (
                 SELECT requested.tenant, requested.workflow, sampled.value FROM investigations AS one
                 JOIN retrospectives AS requested ON requested.tenant = one.tenant AND requested.id = one.retrospective
                     AND requested.state = 'investigating' AND requested.epoch < 0,
                     json_each(requested.sample, '$.order') AS sampled
                 WHERE one.result IS NULL)
             LIMIT ?2"
        )
    };
}

/// SQL statement that advances the purge stage of the windows in parameter 1 that have no rows left in the
/// details table.
macro_rules! mark_windows {
    ($details:literal, $from:literal, $to:literal) => {
        concat!(
            "UPDATE retrospectives SET deleted_details = ", $to, " WHERE deleted_details = ", $from, "
             AND (tenant, id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
             AND NOT EXISTS (
                 SELECT 1 FROM runs JOIN ", $details, " AS details USING (tenant, workflow, number)
                 WHERE runs.tenant = retrospectives.tenant AND runs.workflow = retrospectives.workflow
                     AND runs.ordinal BETWEEN retrospectives.first_ordinal AND retrospectives.last_ordinal)"
        )
    };
}

/// Keys of runs: tenant, workflow and arrival number.
type RunKeys = Vec<(String, String, i64)>;

async fn purge_bodies(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<PurgeResult> {
    // Only automatic retrospectives: a manual one claims no runs, so its runs may still wait in a window.
    const WINDOWS: &str = concat!(
        "SELECT tenant, id FROM retrospectives
         WHERE state = 'closed' AND deleted_details = 0 AND epoch > 0 AND state_ms <= ",
        cutoff!(),
        " ORDER BY state_ms LIMIT ?2"
    );
    const DROPPED: &str = "
        UPDATE run_facts SET body = ?2 WHERE (tenant, workflow, number) IN
            (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1))";
    let windows = list_windows(connection, WINDOWS, age_s).await?;
    let picked = pick_runs(connection, of_windows!("run_bodies"), &windows, limit).await?;
    sqlx::query(DROPPED)
        .bind(convert::to_json(&picked))
        .bind(convert::to_json(&BodyRef::Dropped))
        .execute(&mut *connection)
        .await
        .on_table("run_facts")?;
    delete_bodies(connection, &picked).await?;
    let marked = mark_purged_windows(connection, mark_windows!("run_bodies", "0", "1"), &windows).await?;
    let rows = picked.len() as u64;
    let left = u32::try_from(u64::from(limit).saturating_sub(rows)).unwrap_or(limit);
    let uncounted = purge_uncounted(connection, age_s, left).await?;
    // Marked windows make room for further ones, so more may be due even below the limit.
    Ok(PurgeResult { rows: rows + uncounted, has_more: marked > 0 || rows + uncounted >= u64::from(limit) })
}

/// Purges the facts and bodies of uncounted runs, and keeps their identities. Returns the number of purged
/// runs.
async fn purge_uncounted(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<u64> {
    const PICK: &str = concat!(
        "SELECT tenant, workflow, number FROM run_facts WHERE uncounted_ms IS NOT NULL AND uncounted_ms <= ",
        cutoff!(),
        " ORDER BY uncounted_ms LIMIT ?2"
    );
    let picked: RunKeys = sqlx::query_as(PICK)
        .bind(age_s)
        .bind(limit)
        .fetch_all(&mut *connection)
        .await
        .on_table("run_facts")?;
    delete_bodies(connection, &picked).await?;
    delete_facts(connection, &picked).await
}

async fn purge_runs(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<PurgeResult> {
    const WINDOWS: &str = concat!(
        "SELECT tenant, id FROM retrospectives
         WHERE state = 'closed' AND deleted_details = 1 AND epoch > 0 AND state_ms <= ",
        cutoff!(),
        " ORDER BY state_ms LIMIT ?2"
    );
    const PRESENTATIONS: &str = "
        DELETE FROM presentations WHERE (tenant, workflow, run_id) IN (
            SELECT runs.tenant, runs.workflow, runs.run_id FROM json_each(?1) AS old
            CROSS JOIN runs ON runs.tenant = old.value ->> 0 AND runs.workflow = old.value ->> 1
                AND runs.number = old.value ->> 2)";
    let windows = list_windows(connection, WINDOWS, age_s).await?;
    let picked = pick_runs(connection, of_windows!("run_facts"), &windows, limit).await?;
    sqlx::query(PRESENTATIONS)
        .bind(convert::to_json(&picked))
        .execute(&mut *connection)
        .await
        .on_table("presentations")?;
    let rows = delete_facts(connection, &picked).await?;
    let marked = mark_purged_windows(connection, mark_windows!("run_facts", "1", "2"), &windows).await?;
    Ok(PurgeResult { rows, has_more: marked > 0 || rows >= u64::from(limit) })
}

async fn pick_runs(
    connection: &mut SqliteConnection,
    sql: &'static str,
    windows: &[(String, String)],
    limit: u32,
) -> Result<RunKeys> {
    sqlx::query_as(sql)
        .bind(convert::to_json(&windows))
        .bind(limit)
        .fetch_all(connection)
        .await
        .on_table("runs")
}

async fn mark_purged_windows(
    connection: &mut SqliteConnection,
    sql: &'static str,
    windows: &[(String, String)],
) -> Result<u64> {
    let done = sqlx::query(sql)
        .bind(convert::to_json(&windows))
        .execute(connection)
        .await
        .on_table("retrospectives")?;
    Ok(done.rows_affected())
}

async fn delete_bodies(connection: &mut SqliteConnection, picked: &RunKeys) -> Result<()> {
    const DELETE: &str = "
        DELETE FROM run_bodies WHERE rowid IN (
            SELECT old.rowid FROM json_each(?1) AS picked
            CROSS JOIN run_bodies AS old ON old.tenant = picked.value ->> 0
                AND old.workflow = picked.value ->> 1 AND old.number = picked.value ->> 2)";
    sqlx::query(DELETE).bind(convert::to_json(picked)).execute(connection).await.on_table("run_bodies")?;
    Ok(())
}

async fn delete_facts(connection: &mut SqliteConnection, picked: &RunKeys) -> Result<u64> {
    const DELETE: &str = "
        DELETE FROM run_facts WHERE rowid IN (
            SELECT old.rowid FROM json_each(?1) AS picked
            CROSS JOIN run_facts AS old ON old.tenant = picked.value ->> 0
                AND old.workflow = picked.value ->> 1 AND old.number = picked.value ->> 2)";
    let done =
        sqlx::query(DELETE).bind(convert::to_json(picked)).execute(connection).await.on_table("run_facts")?;
    Ok(done.rows_affected())
}

async fn purge_journals(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<PurgeResult> {
    const JOURNALS: &str = concat!(
        "DELETE FROM journal WHERE rowid IN (
            SELECT journal.rowid FROM journal JOIN retrospectives AS whole
                ON whole.tenant = journal.tenant AND whole.id = journal.retrospective
            WHERE written_ms <= ",
        cutoff!(),
        " AND whole.state IN ('closed', 'failed', 'cancelled') ORDER BY written_ms LIMIT ?2)"
    );
    const BATCHES: &str = concat!(
        "DELETE FROM mutation_batches WHERE rowid IN (
            SELECT batch.rowid FROM mutation_batches AS batch JOIN retrospectives AS whole
                ON whole.tenant = batch.tenant AND whole.id = batch.retrospective
            WHERE settled_ms <= ",
        cutoff!(),
        " AND whole.state IN ('closed', 'failed', 'cancelled') ORDER BY settled_ms LIMIT ?2)"
    );
    let journals = delete_rows(connection, "journal", JOURNALS, age_s, limit).await?;
    let left = u32::try_from(u64::from(limit).saturating_sub(journals)).unwrap_or(limit);
    let batches = delete_rows(connection, "mutation_batches", BATCHES, age_s, left).await?;
    Ok(purged_rows(journals + batches, limit))
}

async fn purge_messages(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<PurgeResult> {
    const DELETE: &str = concat!(
        "DELETE FROM outbox WHERE sequence IN (
            SELECT sequence FROM outbox WHERE sent_ms IS NOT NULL AND sent_ms <= ",
        cutoff!(),
        " ORDER BY sent_ms LIMIT ?2)"
    );
    Ok(purged_rows(delete_rows(connection, "outbox", DELETE, age_s, limit).await?, limit))
}

async fn purge_attempts(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<PurgeResult> {
    const DELETE: &str = concat!(
        "DELETE FROM attempts WHERE (consumer, stream, sequence) IN (
            SELECT consumer, stream, sequence FROM attempts WHERE last_attempt_ms <= ",
        cutoff!(),
        " LIMIT ?2)"
    );
    const DELETE_HISTORY: &str = concat!(
        "DELETE FROM attempt_history WHERE number IN (
            SELECT number FROM attempt_history WHERE dead_letter IS NULL AND coalesce(failed_ms, started_ms) <= ",
        cutoff!(),
        " LIMIT ?2)"
    );
    let counts = purged_rows(delete_rows(connection, "attempts", DELETE, age_s, limit).await?, limit);
    let history =
        purged_rows(delete_rows(connection, "attempt_history", DELETE_HISTORY, age_s, limit).await?, limit);
    Ok(PurgeResult { rows: counts.rows + history.rows, has_more: counts.has_more || history.has_more })
}

async fn delete_rows(
    connection: &mut SqliteConnection,
    table: &'static str,
    sql: &'static str,
    age_s: i64,
    limit: u32,
) -> Result<u64> {
    let done = sqlx::query(sql).bind(age_s).bind(limit).execute(connection).await.on_table(table)?;
    Ok(done.rows_affected())
}

/// Replaces inbox rows with digests, inserted in sorted order so that neighbouring rows share pages.
async fn purge_events(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<PurgeResult> {
    const PICK: &str = concat!(
        "SELECT consumer, tenant, source, event_id, content_hash FROM inbox WHERE received_ms <= ",
        cutoff!(),
        " ORDER BY received_ms LIMIT ?2"
    );
    const KEEP: &str = "
        INSERT INTO seen_events (digest, content_digest)
        SELECT substr(?1, key * 24 + 1, 16), substr(?1, key * 24 + 17, 8) FROM json_each(?2) WHERE true
        ON CONFLICT (digest) DO NOTHING";
    const FORGET: &str = "
        DELETE FROM inbox WHERE (consumer, tenant, source, event_id) IN
            (SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?1))";
    type Row = (String, String, String, String, String);
    let rows: Vec<Row> =
        sqlx::query_as(PICK).bind(age_s).bind(limit).fetch_all(&mut *connection).await.on_table("inbox")?;
    let mut digests = Vec::with_capacity(rows.len());
    for (consumer, tenant, source, id, hash) in &rows {
        let tenant = at("inbox.tenant", id).parse(tenant)?;
        let event = EventKey { tenant, source: source.clone(), id: id.clone() };
        digests.push((EventDigest::of_event(consumer, &event), ContentDigest::of_hash(hash)));
    }
    digests.sort_unstable();
    let packed: Vec<u8> = digests
        .iter()
        .flat_map(|(event, content)| [event.0.as_bytes().as_slice(), &content.0].concat())
        .collect();
    let places: Value = (0..digests.len()).collect();
    sqlx::query(KEEP)
        .bind(packed)
        .bind(places.to_string())
        .execute(&mut *connection)
        .await
        .on_table("seen_events")?;
    let keys: Value = rows.iter().map(|(a, b, c, d, _)| json!([a, b, c, d])).collect();
    let done = sqlx::query(FORGET).bind(keys.to_string()).execute(connection).await.on_table("inbox")?;
    at("inbox", "a batch").check_rows_affected(done.rows_affected(), rows.len())?;
    Ok(purged_rows(rows.len() as u64, limit))
}

/// Returns the content digests of the events whose inbox rows were purged, each with its index in `events`.
pub(crate) async fn purged_events(
    connection: &mut SqliteConnection,
    consumer: &str,
    events: &[&EventKey],
) -> Result<Vec<(i64, ContentDigest)>> {
    const SEEN: &str = "
        SELECT requested.key, seen_events.content_digest FROM json_each(?2) AS requested
        CROSS JOIN seen_events ON seen_events.digest = substr(?1, requested.key * 16 + 1, 16)";
    let digest = |event: &&EventKey| EventDigest::of_event(consumer, event).0.into_bytes();
    let requested: Vec<u8> = events.iter().flat_map(digest).collect();
    let places: Value = (0..events.len()).collect();
    let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(SEEN)
        .bind(requested)
        .bind(places.to_string())
        .fetch_all(connection)
        .await
        .on_table("seen_events")?;
    let content = |(place, bytes): (i64, Vec<u8>)| {
        let content: [u8; 8] = bytes
            .as_slice()
            .try_into()
            .map_err(|error| at("seen_events.content_digest", place).damaged_error(error))?;
        Ok((place, ContentDigest(content)))
    };
    rows.into_iter().map(content).collect()
}
