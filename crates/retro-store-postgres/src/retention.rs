//! Purges old rows. Each call is one transaction over the oldest rows of a retention stage. Rows locked by
//! others are skipped, so concurrent calls share the work and never wait for each other.
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
use retro_store_sql::commit_label::purge_commit_label;
use retro_store_sql::{at, to_i64, to_json};
use sqlx::PgConnection;

use crate::convert::OnTable;
use crate::count::map_column;
use crate::open::commit;
use crate::{PostgresStore, now_ms};

/// Maximum age, in seconds: a thousand years. Keeps the age in milliseconds within 64 bits.
const AGE_MAX_S: u64 = 1_000 * 366 * 24 * 3600;
/// Maximum number of windows processed per call; a window usually has a few dozen runs.
const WINDOWS_PER_CALL: i64 = 100;

/// SQL expression for the latest time, in Unix milliseconds, at which a row is old enough to purge. Parameter
/// 1 is the age in seconds.
macro_rules! cutoff {
    () => {
        concat!(now_ms!(), " - $1::bigint * 1000")
    };
}

#[async_trait]
impl RetentionStore for PostgresStore {
    async fn purge_stage(&self, stage: RetentionStage, older_than_s: u64, limit: u32) -> Result<PurgeResult> {
        let (age_s, limit) = (to_i64(older_than_s.min(AGE_MAX_S)), i64::from(limit));
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

async fn record_purged(connection: &mut PgConnection, stage: RetentionStage, rows: u64) -> Result<()> {
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

async fn list_windows(connection: &mut PgConnection, sql: &'static str, age_s: i64) -> Result<Windows> {
    sqlx::query_as(sql)
        .bind(age_s)
        .bind(WINDOWS_PER_CALL)
        .fetch_all(connection)
        .await
        .on_table("retrospectives")
}

/// SQL query for the runs to purge: runs in the windows of parameters 1 and 2 that no open manual
/// retrospective has sampled. Open manual retrospectives are found by their pending investigations, which are
/// few and indexed.
macro_rules! of_windows {
    ($details:literal) => {
        concat!(
            "SELECT details.tenant, details.workflow, details.number
             FROM unnest($1::text[], $2::text[]) AS requested (tenant, id)
             JOIN retrospectives AS closed ON closed.tenant = requested.tenant AND closed.id = requested.id
             JOIN runs ON runs.tenant = closed.tenant AND runs.workflow = closed.workflow
                 AND runs.ordinal BETWEEN closed.first_ordinal AND closed.last_ordinal
             JOIN ",
            $details,
            " AS details ON details.tenant = runs.tenant
                 AND details.workflow = runs.workflow AND details.number = runs.number
             WHERE NOT EXISTS (
                 SELECT FROM investigations AS one
                 JOIN retrospectives AS requested ON requested.tenant = one.tenant AND requested.id = one.retrospective
                     AND requested.state = 'investigating' AND requested.epoch < 0
                 WHERE one.result IS NULL AND requested.tenant = runs.tenant AND requested.workflow = runs.workflow
                     AND (requested.sample::jsonb -> 'order') @> to_jsonb(runs.ordinal))
             LIMIT $3"
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
            " AND (tenant, id) IN (SELECT * FROM unnest($1::text[], $2::text[]))
             AND NOT EXISTS (
                 SELECT FROM runs JOIN ",
            $details,
            " AS details USING (tenant, workflow, number)
                 WHERE runs.tenant = retrospectives.tenant AND runs.workflow = retrospectives.workflow
                     AND runs.ordinal BETWEEN retrospectives.first_ordinal AND retrospectives.last_ordinal)"
        )
    };
}

async fn purge_bodies(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<PurgeResult> {
    // Only automatic retrospectives: a manual one claims no runs, so its runs may still wait in a window.
    const WINDOWS: &str = concat!(
        "SELECT tenant, id FROM retrospectives
         WHERE state = 'closed' AND deleted_details = 0 AND epoch > 0 AND state_ms <= ",
        cutoff!(),
        " ORDER BY state_ms LIMIT $2 FOR UPDATE SKIP LOCKED"
    );
    const DROPPED: &str = "
        UPDATE run_facts SET body = $4
        FROM unnest($1::text[], $2::text[], $3::bigint[]) AS old (tenant, workflow, number)
        WHERE run_facts.tenant = old.tenant AND run_facts.workflow = old.workflow
            AND run_facts.number = old.number";
    let windows = list_windows(connection, WINDOWS, age_s).await?;
    let picked = pick_runs(connection, of_windows!("run_bodies"), &windows, limit).await?;
    of_runs(DROPPED, &picked)
        .bind(to_json(&BodyRef::Dropped))
        .execute(&mut *connection)
        .await
        .on_table("run_facts")?;
    delete_bodies(connection, &picked).await?;
    let marked = mark_purged_windows(connection, mark_windows!("run_bodies", "0", "1"), &windows).await?;
    let rows = picked.len() as u64;
    let uncounted = purge_uncounted(connection, age_s, limit.saturating_sub_unsigned(rows)).await?;
    // Marked windows make room for further ones, so more may be due even below the limit.
    Ok(PurgeResult { rows: rows + uncounted, has_more: marked > 0 || to_i64(rows + uncounted) >= limit })
}

/// Purges the facts and bodies of uncounted runs, and keeps their identities. Returns the number of purged
/// runs.
async fn purge_uncounted(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<u64> {
    // The outer condition on the age is checked again on the locked row, which may have new facts by now.
    const FACTS: &str = concat!(
        "DELETE FROM run_facts WHERE uncounted_ms <= ",
        cutoff!(),
        " AND (tenant, workflow, number) IN (
             SELECT tenant, workflow, number FROM run_facts WHERE uncounted_ms IS NOT NULL AND uncounted_ms <= ",
        cutoff!(),
        " ORDER BY uncounted_ms LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING tenant, workflow, number"
    );
    let gone: RunKeys = sqlx::query_as(FACTS)
        .bind(age_s)
        .bind(limit)
        .fetch_all(&mut *connection)
        .await
        .on_table("run_facts")?;
    delete_bodies(connection, &gone).await?;
    Ok(gone.len() as u64)
}

async fn purge_runs(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<PurgeResult> {
    const WINDOWS: &str = concat!(
        "SELECT tenant, id FROM retrospectives
         WHERE state = 'closed' AND deleted_details = 1 AND epoch > 0 AND state_ms <= ",
        cutoff!(),
        " ORDER BY state_ms LIMIT $2 FOR UPDATE SKIP LOCKED"
    );
    const PRESENTATIONS: &str = "
        DELETE FROM presentations
        USING unnest($1::text[], $2::text[], $3::bigint[]) AS old (tenant, workflow, number)
        JOIN runs ON runs.tenant = old.tenant AND runs.workflow = old.workflow AND runs.number = old.number
        WHERE presentations.tenant = runs.tenant AND presentations.workflow = runs.workflow
            AND presentations.run_id = runs.run_id";
    const FACTS: &str = "
        DELETE FROM run_facts USING unnest($1::text[], $2::text[], $3::bigint[]) AS old (tenant, workflow, number)
        WHERE run_facts.tenant = old.tenant AND run_facts.workflow = old.workflow
            AND run_facts.number = old.number";
    let windows = list_windows(connection, WINDOWS, age_s).await?;
    let picked = pick_runs(connection, of_windows!("run_facts"), &windows, limit).await?;
    of_runs(PRESENTATIONS, &picked).execute(&mut *connection).await.on_table("presentations")?;
    let gone = of_runs(FACTS, &picked).execute(&mut *connection).await.on_table("run_facts")?;
    let rows = gone.rows_affected();
    let marked = mark_purged_windows(connection, mark_windows!("run_facts", "1", "2"), &windows).await?;
    Ok(PurgeResult { rows, has_more: marked > 0 || to_i64(rows) >= limit })
}

async fn pick_runs(
    connection: &mut PgConnection,
    sql: &'static str,
    windows: &Windows,
    limit: i64,
) -> Result<RunKeys> {
    sqlx::query_as(sql)
        .bind(map_column(windows, |(tenant, _)| tenant.as_str()))
        .bind(map_column(windows, |(_, id)| id.as_str()))
        .bind(limit)
        .fetch_all(connection)
        .await
        .on_table("runs")
}

async fn mark_purged_windows(
    connection: &mut PgConnection,
    sql: &'static str,
    windows: &Windows,
) -> Result<u64> {
    let done = sqlx::query(sql)
        .bind(map_column(windows, |(tenant, _)| tenant.as_str()))
        .bind(map_column(windows, |(_, id)| id.as_str()))
        .execute(connection)
        .await
        .on_table("retrospectives")?;
    Ok(done.rows_affected())
}

type Statement<'a> = sqlx::query::Query<'a, sqlx::Postgres, sqlx::postgres::PgArguments>;

/// Builds a statement with the keys of runs bound to its first three parameters.
fn of_runs<'a>(sql: &'static str, keys: &'a RunKeys) -> Statement<'a> {
    sqlx::query(sql)
        .bind(map_column(keys, |(tenant, ..)| tenant.as_str()))
        .bind(map_column(keys, |(_, workflow, _)| workflow.as_str()))
        .bind(map_column(keys, |(.., number)| *number))
}

async fn delete_bodies(connection: &mut PgConnection, keys: &RunKeys) -> Result<()> {
    const DELETE: &str = "
        DELETE FROM run_bodies USING unnest($1::text[], $2::text[], $3::bigint[]) AS old (tenant, workflow, number)
        WHERE run_bodies.tenant = old.tenant AND run_bodies.workflow = old.workflow
            AND run_bodies.number = old.number";
    of_runs(DELETE, keys).execute(connection).await.on_table("run_bodies").map(|_| ())
}

async fn purge_journals(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<PurgeResult> {
    const JOURNALS: &str = concat!(
        "DELETE FROM journal WHERE (tenant, retrospective, number, stage) IN (
            SELECT one.tenant, one.retrospective, one.number, one.stage FROM journal AS one
            JOIN retrospectives AS whole ON whole.tenant = one.tenant AND whole.id = one.retrospective
            WHERE one.written_ms <= ",
        cutoff!(),
        " AND whole.state IN ('closed', 'failed', 'cancelled')
            ORDER BY one.written_ms LIMIT $2 FOR UPDATE OF one SKIP LOCKED)"
    );
    const BATCHES: &str = concat!(
        "DELETE FROM mutation_batches WHERE (tenant, retrospective) IN (
            SELECT batch.tenant, batch.retrospective FROM mutation_batches AS batch
            JOIN retrospectives AS whole ON whole.tenant = batch.tenant AND whole.id = batch.retrospective
            WHERE batch.settled_ms <= ",
        cutoff!(),
        " AND whole.state IN ('closed', 'failed', 'cancelled')
            ORDER BY batch.settled_ms LIMIT $2 FOR UPDATE OF batch SKIP LOCKED)"
    );
    let journals = delete_rows(connection, "journal", JOURNALS, age_s, limit).await?;
    let left = limit.saturating_sub_unsigned(journals);
    let batches = delete_rows(connection, "mutation_batches", BATCHES, age_s, left).await?;
    Ok(purged_rows(journals + batches, limit))
}

async fn purge_messages(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<PurgeResult> {
    const DELETE: &str = concat!(
        "DELETE FROM outbox WHERE sequence IN (
            SELECT sequence FROM outbox WHERE sent_ms IS NOT NULL AND sent_ms <= ",
        cutoff!(),
        " ORDER BY sent_ms LIMIT $2 FOR UPDATE SKIP LOCKED)"
    );
    Ok(purged_rows(delete_rows(connection, "outbox", DELETE, age_s, limit).await?, limit))
}

async fn purge_attempts(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<PurgeResult> {
    const DELETE: &str = concat!(
        "DELETE FROM attempts WHERE (consumer, stream, sequence) IN (
            SELECT consumer, stream, sequence FROM attempts WHERE last_attempt_ms <= ",
        cutoff!(),
        " LIMIT $2 FOR UPDATE SKIP LOCKED)"
    );
    const DELETE_HISTORY: &str = concat!(
        "DELETE FROM attempt_history WHERE number IN (
            SELECT number FROM attempt_history WHERE dead_letter IS NULL AND coalesce(failed_ms, started_ms) <= ",
        cutoff!(),
        " LIMIT $2 FOR UPDATE SKIP LOCKED)"
    );
    let counts = purged_rows(delete_rows(connection, "attempts", DELETE, age_s, limit).await?, limit);
    let history =
        purged_rows(delete_rows(connection, "attempt_history", DELETE_HISTORY, age_s, limit).await?, limit);
    Ok(PurgeResult { rows: counts.rows + history.rows, has_more: counts.has_more || history.has_more })
}

async fn delete_rows(
    connection: &mut PgConnection,
    table: &'static str,
    sql: &'static str,
    age_s: i64,
    limit: i64,
) -> Result<u64> {
    let done = sqlx::query(sql).bind(age_s).bind(limit).execute(connection).await.on_table(table)?;
    Ok(done.rows_affected())
}

/// Replaces inbox rows with digests, inserted in sorted order so that neighbouring rows share pages.
async fn purge_events(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<PurgeResult> {
    const PICK: &str = concat!(
        "DELETE FROM inbox WHERE (consumer, tenant, source, event_id) IN (
             SELECT consumer, tenant, source, event_id FROM inbox WHERE received_ms <= ",
        cutoff!(),
        " ORDER BY received_ms LIMIT $2 FOR UPDATE SKIP LOCKED)
         RETURNING consumer, tenant, source, event_id, content_hash"
    );
    const KEEP: &str = "
        INSERT INTO seen_events (digest, content_digest)
        SELECT digest, content_digest FROM unnest($1::bytea[], $2::bytea[]) AS seen (digest, content_digest)
        ON CONFLICT (digest) DO NOTHING";
    type Row = (String, String, Vec<u8>, Vec<u8>, String);
    let rows: Vec<Row> =
        sqlx::query_as(PICK).bind(age_s).bind(limit).fetch_all(&mut *connection).await.on_table("inbox")?;
    let mut digests = Vec::with_capacity(rows.len());
    for (consumer, tenant, source, id, hash) in &rows {
        // Not lossy in practice: the column was written from a UTF-8 string.
        let id = String::from_utf8_lossy(id).into_owned();
        let tenant = at("inbox.tenant", &id).parse(tenant)?;
        let event = EventKey { tenant, source: String::from_utf8_lossy(source).into_owned(), id };
        digests.push((EventDigest::of_event(consumer, &event), ContentDigest::of_hash(hash)));
    }
    digests.sort_unstable();
    sqlx::query(KEEP)
        .bind(map_column(&digests, |(event, _)| event.0.as_bytes().as_slice()))
        .bind(map_column(&digests, |(_, content)| content.0.as_slice()))
        .execute(connection)
        .await
        .on_table("seen_events")?;
    Ok(purged_rows(rows.len() as u64, limit))
}

/// Returns the content digests of the events whose inbox rows were purged, each with its index in `events`.
pub(crate) async fn purged_events(
    connection: &mut PgConnection,
    consumer: &str,
    events: &[&EventKey],
) -> Result<Vec<(i64, ContentDigest)>> {
    const SEEN: &str = "
        SELECT requested.place - 1, seen_events.content_digest
        FROM unnest($1::bytea[]) WITH ORDINALITY AS requested (digest, place)
        JOIN seen_events ON seen_events.digest = requested.digest";
    let digest = |event: &&EventKey| EventDigest::of_event(consumer, event).0.into_bytes();
    let digests: Vec<[u8; 16]> = events.iter().map(digest).collect();
    let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(SEEN)
        .bind(map_column(&digests, |digest| digest.as_slice()))
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
