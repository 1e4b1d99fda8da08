//! Retention: each call is one transaction over the oldest rows of a stage. What is to be purged is picked first, by an
//! index on its age, and named row by row in what follows: nothing that came meanwhile can slip in.

use async_trait::async_trait;
use retro_core::id::EventKey;
use retro_core::keep::{ContentDigest, EventDigest};
use retro_core::run::BodyRef;
use retro_store::keep::Stage;
use retro_store::{PurgeRow, Purged, Result, RetentionStore};
use retro_store_sql::step::purging;
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::damage::{self, OnTable, at, integer};
use crate::open::commit;
use crate::{SqliteStore, now_ms};

/// Oldest age in seconds, a thousand years: older than that is as old as can be, and the product stays within 64 bits.
const AGE_MAX_S: u64 = 1_000 * 366 * 24 * 3600;
/// Retrospectives whose windows one call goes through; their windows usually hold a few dozen runs each.
const WINDOWS_PER_CALL: u32 = 100;

/// The end of an age given by parameter 1, as an SQL expression.
macro_rules! cutoff {
    () => {
        concat!(now_ms!(), " - ?1 * 1000")
    };
}

#[async_trait]
impl RetentionStore for SqliteStore {
    async fn purge(&self, stage: Stage, older_than_s: u64, limit: u32) -> Result<Purged> {
        let age_s = integer(older_than_s.min(AGE_MAX_S));
        let mut transaction = self.write().await?;
        let purged = match stage {
            Stage::Bodies => bodies(&mut transaction, age_s, limit).await?,
            Stage::Journals => journals(&mut transaction, age_s, limit).await?,
            Stage::Runs => runs(&mut transaction, age_s, limit).await?,
            Stage::Events => events(&mut transaction, age_s, limit).await?,
            Stage::Messages => messages(&mut transaction, age_s, limit).await?,
            Stage::Attempts => attempts(&mut transaction, age_s, limit).await?,
        };
        if purged == Purged::default() {
            return Ok(purged);
        }
        remember(&mut transaction, stage, purged.rows).await?;
        commit(transaction, purging(stage)).await?;
        Ok(purged)
    }

    async fn purges(&self) -> Result<Vec<PurgeRow>> {
        const LOAD: &str = "SELECT stage, purged, last_ms FROM purges WHERE purged > 0 ORDER BY stage";
        let rows: Vec<(String, i64, i64)> =
            sqlx::query_as(LOAD).fetch_all(self.reader()).await.on("purges")?;
        let row = |(stage, purged, last): (String, i64, i64)| {
            let place = at("purges", &stage);
            let (stage, purged, last) = (place.word(&stage)?, place.unsigned(purged)?, place.millis(last)?);
            Ok(PurgeRow { stage, purged, last })
        };
        rows.into_iter().map(row).collect()
    }
}

async fn remember(connection: &mut SqliteConnection, stage: Stage, rows: u64) -> Result<()> {
    const ADD: &str = concat!(
        "INSERT INTO purges (stage, purged, last_ms) VALUES (?1, ?2, ",
        now_ms!(),
        ") ON CONFLICT (stage) DO UPDATE SET purged = purged + excluded.purged, last_ms = excluded.last_ms"
    );
    sqlx::query(ADD).bind(stage.as_str()).bind(integer(rows)).execute(connection).await.on("purges")?;
    Ok(())
}

/// What is purged of a call's rows.
fn up_to(rows: u64, limit: u32) -> Purged {
    Purged { rows, more: rows >= u64::from(limit) }
}

/// Closed retrospectives of so long ago whose windows still have what a stage purges.
async fn windows(
    connection: &mut SqliteConnection,
    sql: &'static str,
    age_s: i64,
) -> Result<Vec<(String, String)>> {
    sqlx::query_as(sql).bind(age_s).bind(WINDOWS_PER_CALL).fetch_all(connection).await.on("retrospectives")
}

/// What is written where a run's details are picked: its window is among those in parameter 1, and no open
/// retrospective that a person asked for has it in its sample. Such a one has an investigation waiting, of which there
/// are few and which are found by an index.
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
                 SELECT asked.tenant, asked.workflow, sampled.value FROM investigations AS one
                 JOIN retrospectives AS asked ON asked.tenant = one.tenant AND asked.id = one.retrospective
                     AND asked.state = 'investigating' AND asked.epoch < 0,
                     json_each(asked.sample, '$.order') AS sampled
                 WHERE one.result IS NULL)
             LIMIT ?2"
        )
    };
}

/// Marks the windows in parameter 1 of which nothing of a kind is left.
macro_rules! mark_windows {
    ($details:literal, $from:literal, $to:literal) => {
        concat!(
            "UPDATE retrospectives SET purged = ", $to, " WHERE purged = ", $from, "
             AND (tenant, id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
             AND NOT EXISTS (
                 SELECT 1 FROM runs JOIN ", $details, " AS details USING (tenant, workflow, number)
                 WHERE runs.tenant = retrospectives.tenant AND runs.workflow = retrospectives.workflow
                     AND runs.ordinal BETWEEN retrospectives.first_ordinal AND retrospectives.last_ordinal)"
        )
    };
}

/// The keys of rows of one run each.
type Keys = Vec<(String, String, i64)>;

async fn bodies(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<Purged> {
    // Only of automatic ones: another kind claims nothing, so its runs may wait in a window.
    const WINDOWS: &str = concat!(
        "SELECT tenant, id FROM retrospectives
         WHERE state = 'closed' AND purged = 0 AND epoch > 0 AND state_ms <= ",
        cutoff!(),
        " ORDER BY state_ms LIMIT ?2"
    );
    const DROPPED: &str = "
        UPDATE run_facts SET body = ?2 WHERE (tenant, workflow, number) IN
            (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1))";
    let windows = windows(connection, WINDOWS, age_s).await?;
    let picked = pick(connection, of_windows!("run_bodies"), &windows, limit).await?;
    sqlx::query(DROPPED)
        .bind(damage::json(&picked))
        .bind(damage::json(&BodyRef::Dropped))
        .execute(&mut *connection)
        .await
        .on("run_facts")?;
    delete_bodies(connection, &picked).await?;
    let marked = mark(connection, mark_windows!("run_bodies", "0", "1"), &windows).await?;
    let rows = picked.len() as u64;
    let left = u32::try_from(u64::from(limit).saturating_sub(rows)).unwrap_or(limit);
    let uncounted = uncounted(connection, age_s, left).await?;
    Ok(Purged { rows: rows + uncounted, more: marked > 0 || rows + uncounted >= u64::from(limit) })
}

/// Everything but the identity of runs that were not counted.
async fn uncounted(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<u64> {
    const PICK: &str = concat!(
        "SELECT tenant, workflow, number FROM run_facts WHERE uncounted_ms IS NOT NULL AND uncounted_ms <= ",
        cutoff!(),
        " ORDER BY uncounted_ms LIMIT ?2"
    );
    let picked: Keys =
        sqlx::query_as(PICK).bind(age_s).bind(limit).fetch_all(&mut *connection).await.on("run_facts")?;
    delete_bodies(connection, &picked).await?;
    delete_facts(connection, &picked).await
}

async fn runs(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<Purged> {
    const WINDOWS: &str = concat!(
        "SELECT tenant, id FROM retrospectives
         WHERE state = 'closed' AND purged = 1 AND epoch > 0 AND state_ms <= ",
        cutoff!(),
        " ORDER BY state_ms LIMIT ?2"
    );
    const PRESENTATIONS: &str = "
        DELETE FROM presentations WHERE (tenant, workflow, run_id) IN (
            SELECT runs.tenant, runs.workflow, runs.run_id FROM json_each(?1) AS old
            CROSS JOIN runs ON runs.tenant = old.value ->> 0 AND runs.workflow = old.value ->> 1
                AND runs.number = old.value ->> 2)";
    let windows = windows(connection, WINDOWS, age_s).await?;
    let picked = pick(connection, of_windows!("run_facts"), &windows, limit).await?;
    sqlx::query(PRESENTATIONS)
        .bind(damage::json(&picked))
        .execute(&mut *connection)
        .await
        .on("presentations")?;
    let rows = delete_facts(connection, &picked).await?;
    let marked = mark(connection, mark_windows!("run_facts", "1", "2"), &windows).await?;
    Ok(Purged { rows, more: marked > 0 || rows >= u64::from(limit) })
}

async fn pick(
    connection: &mut SqliteConnection,
    sql: &'static str,
    windows: &[(String, String)],
    limit: u32,
) -> Result<Keys> {
    sqlx::query_as(sql).bind(damage::json(&windows)).bind(limit).fetch_all(connection).await.on("runs")
}

async fn mark(
    connection: &mut SqliteConnection,
    sql: &'static str,
    windows: &[(String, String)],
) -> Result<u64> {
    let done =
        sqlx::query(sql).bind(damage::json(&windows)).execute(connection).await.on("retrospectives")?;
    Ok(done.rows_affected())
}

async fn delete_bodies(connection: &mut SqliteConnection, picked: &Keys) -> Result<()> {
    const DELETE: &str = "
        DELETE FROM run_bodies WHERE rowid IN (
            SELECT old.rowid FROM json_each(?1) AS picked
            CROSS JOIN run_bodies AS old ON old.tenant = picked.value ->> 0
                AND old.workflow = picked.value ->> 1 AND old.number = picked.value ->> 2)";
    sqlx::query(DELETE).bind(damage::json(picked)).execute(connection).await.on("run_bodies")?;
    Ok(())
}

async fn delete_facts(connection: &mut SqliteConnection, picked: &Keys) -> Result<u64> {
    const DELETE: &str = "
        DELETE FROM run_facts WHERE rowid IN (
            SELECT old.rowid FROM json_each(?1) AS picked
            CROSS JOIN run_facts AS old ON old.tenant = picked.value ->> 0
                AND old.workflow = picked.value ->> 1 AND old.number = picked.value ->> 2)";
    let done = sqlx::query(DELETE).bind(damage::json(picked)).execute(connection).await.on("run_facts")?;
    Ok(done.rows_affected())
}

async fn journals(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<Purged> {
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
    let journals = delete(connection, "journal", JOURNALS, age_s, limit).await?;
    let left = u32::try_from(u64::from(limit).saturating_sub(journals)).unwrap_or(limit);
    let batches = delete(connection, "mutation_batches", BATCHES, age_s, left).await?;
    Ok(up_to(journals + batches, limit))
}

async fn messages(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<Purged> {
    const DELETE: &str = concat!(
        "DELETE FROM outbox WHERE sequence IN (
            SELECT sequence FROM outbox WHERE sent_ms IS NOT NULL AND sent_ms <= ",
        cutoff!(),
        " ORDER BY sent_ms LIMIT ?2)"
    );
    Ok(up_to(delete(connection, "outbox", DELETE, age_s, limit).await?, limit))
}

async fn attempts(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<Purged> {
    const DELETE: &str = concat!(
        "DELETE FROM attempts WHERE (consumer, stream, sequence) IN (
            SELECT consumer, stream, sequence FROM attempts WHERE last_ms <= ",
        cutoff!(),
        " LIMIT ?2)"
    );
    const DELETE_HISTORY: &str = concat!(
        "DELETE FROM attempt_history WHERE number IN (
            SELECT number FROM attempt_history WHERE letter IS NULL AND coalesce(failed_ms, begun_ms) <= ",
        cutoff!(),
        " LIMIT ?2)"
    );
    let counts = up_to(delete(connection, "attempts", DELETE, age_s, limit).await?, limit);
    let history = up_to(delete(connection, "attempt_history", DELETE_HISTORY, age_s, limit).await?, limit);
    Ok(Purged { rows: counts.rows + history.rows, more: counts.more || history.more })
}

async fn delete(
    connection: &mut SqliteConnection,
    table: &'static str,
    sql: &'static str,
    age_s: i64,
    limit: u32,
) -> Result<u64> {
    let done = sqlx::query(sql).bind(age_s).bind(limit).execute(connection).await.on(table)?;
    Ok(done.rows_affected())
}

/// Inbox rows become digests, which are written in their own order: neighbours share pages.
async fn events(connection: &mut SqliteConnection, age_s: i64, limit: u32) -> Result<Purged> {
    const PICK: &str = concat!(
        "SELECT consumer, tenant, source, event_id, content_hash FROM inbox WHERE received_ms <= ",
        cutoff!(),
        " ORDER BY received_ms LIMIT ?2"
    );
    const KEEP: &str = "
        INSERT INTO seen_events (digest, content)
        SELECT substr(?1, key * 24 + 1, 16), substr(?1, key * 24 + 17, 8) FROM json_each(?2) WHERE true
        ON CONFLICT (digest) DO NOTHING";
    const FORGET: &str = "
        DELETE FROM inbox WHERE (consumer, tenant, source, event_id) IN
            (SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?1))";
    type Row = (String, String, String, String, String);
    let rows: Vec<Row> =
        sqlx::query_as(PICK).bind(age_s).bind(limit).fetch_all(&mut *connection).await.on("inbox")?;
    let mut digests = Vec::with_capacity(rows.len());
    for (consumer, tenant, source, id, hash) in &rows {
        let tenant = at("inbox.tenant", id).parse(tenant)?;
        let event = EventKey { tenant, source: source.clone(), id: id.clone() };
        digests.push((EventDigest::of(consumer, &event), ContentDigest::of(hash)));
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
        .on("seen_events")?;
    let keys: Value = rows.iter().map(|(a, b, c, d, _)| json!([a, b, c, d])).collect();
    let done = sqlx::query(FORGET).bind(keys.to_string()).execute(connection).await.on("inbox")?;
    at("inbox", "a batch").touched(done.rows_affected(), rows.len())?;
    Ok(up_to(rows.len() as u64, limit))
}

/// The events that are known by their digests alone: place among those asked for, and what is left of the content.
pub(crate) async fn purged_events(
    connection: &mut SqliteConnection,
    consumer: &str,
    events: &[&EventKey],
) -> Result<Vec<(i64, ContentDigest)>> {
    const SEEN: &str = "
        SELECT asked.key, seen_events.content FROM json_each(?2) AS asked
        CROSS JOIN seen_events ON seen_events.digest = substr(?1, asked.key * 16 + 1, 16)";
    let digest = |event: &&EventKey| EventDigest::of(consumer, event).0.into_bytes();
    let asked: Vec<u8> = events.iter().flat_map(digest).collect();
    let places: Value = (0..events.len()).collect();
    let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(SEEN)
        .bind(asked)
        .bind(places.to_string())
        .fetch_all(connection)
        .await
        .on("seen_events")?;
    let content = |(place, bytes): (i64, Vec<u8>)| {
        let content: [u8; 8] =
            bytes.as_slice().try_into().map_err(|error| at("seen_events.content", place).damaged(error))?;
        Ok((place, ContentDigest(content)))
    };
    rows.into_iter().map(content).collect()
}
