//! Retention: each call is one transaction over the oldest rows of a stage. What somebody else has in hand is skipped,
//! so that two at once share the work and never wait for each other.
//!
//! No workflow is locked: the windows that are gone through have closed, and nothing but retention touches the details
//! of a claimed run. A run that was not counted may come again at this very moment: its facts are deleted under a
//! condition that its new ones do not meet, and before its body, in the order in which a counter writes them.

use async_trait::async_trait;
use retro_core::id::EventKey;
use retro_core::keep::{ContentDigest, EventDigest};
use retro_core::run::BodyRef;
use retro_store::keep::Stage;
use retro_store::{PurgeRow, Purged, Result, RetentionStore};
use retro_store_sql::step::purging;
use retro_store_sql::{at, integer, json};
use sqlx::PgConnection;

use crate::answer::OnTable;
use crate::count::column;
use crate::open::commit;
use crate::{PostgresStore, now_ms};

/// Oldest age in seconds, a thousand years: older than that is as old as can be, and the product stays within 64 bits.
const AGE_MAX_S: u64 = 1_000 * 366 * 24 * 3600;
/// Retrospectives whose windows one call goes through; their windows usually hold a few dozen runs each.
const WINDOWS_PER_CALL: i64 = 100;

/// The end of an age given by parameter 1, as an SQL expression.
macro_rules! cutoff {
    () => {
        concat!(now_ms!(), " - $1::bigint * 1000")
    };
}

#[async_trait]
impl RetentionStore for PostgresStore {
    async fn purge(&self, stage: Stage, older_than_s: u64, limit: u32) -> Result<Purged> {
        let (age_s, limit) = (integer(older_than_s.min(AGE_MAX_S)), i64::from(limit));
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

async fn remember(connection: &mut PgConnection, stage: Stage, rows: u64) -> Result<()> {
    const ADD: &str = concat!(
        "INSERT INTO purges (stage, purged, last_ms) VALUES ($1, $2, ",
        now_ms!(),
        ") ON CONFLICT (stage) DO UPDATE SET purged = purges.purged + excluded.purged, last_ms = excluded.last_ms"
    );
    sqlx::query(ADD).bind(stage.as_str()).bind(integer(rows)).execute(connection).await.on("purges")?;
    Ok(())
}

/// What is purged of a call's rows.
fn up_to(rows: u64, limit: i64) -> Purged {
    Purged { rows, more: integer(rows) >= limit }
}

/// Closed retrospectives: tenants and ids.
type Windows = Vec<(String, String)>;
/// Rows of one run each: tenant, workflow, number.
type Keys = Vec<(String, String, i64)>;

async fn windows(connection: &mut PgConnection, sql: &'static str, age_s: i64) -> Result<Windows> {
    sqlx::query_as(sql).bind(age_s).bind(WINDOWS_PER_CALL).fetch_all(connection).await.on("retrospectives")
}

/// What is written where a run's details are picked: its window is among those in parameters 1 and 2, and no open
/// retrospective that a person asked for has it in its sample. Such a one has an investigation waiting, of which there
/// are few and which are found by an index.
macro_rules! of_windows {
    ($details:literal) => {
        concat!(
            "SELECT details.tenant, details.workflow, details.number
             FROM unnest($1::text[], $2::text[]) AS asked (tenant, id)
             JOIN retrospectives AS closed ON closed.tenant = asked.tenant AND closed.id = asked.id
             JOIN runs ON runs.tenant = closed.tenant AND runs.workflow = closed.workflow
                 AND runs.ordinal BETWEEN closed.first_ordinal AND closed.last_ordinal
             JOIN ",
            $details,
            " AS details ON details.tenant = runs.tenant
                 AND details.workflow = runs.workflow AND details.number = runs.number
             WHERE NOT EXISTS (
                 SELECT FROM investigations AS one
                 JOIN retrospectives AS asked ON asked.tenant = one.tenant AND asked.id = one.retrospective
                     AND asked.state = 'investigating' AND asked.epoch < 0
                 WHERE one.result IS NULL AND asked.tenant = runs.tenant AND asked.workflow = runs.workflow
                     AND (asked.sample::jsonb -> 'order') @> to_jsonb(runs.ordinal))
             LIMIT $3"
        )
    };
}

/// Marks the windows in parameters 1 and 2 of which nothing of a kind is left.
macro_rules! mark_windows {
    ($details:literal, $from:literal, $to:literal) => {
        concat!(
            "UPDATE retrospectives SET purged = ",
            $to,
            " WHERE purged = ",
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

async fn bodies(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<Purged> {
    // Only of automatic ones: another kind claims nothing, so its runs may wait in a window.
    const WINDOWS: &str = concat!(
        "SELECT tenant, id FROM retrospectives
         WHERE state = 'closed' AND purged = 0 AND epoch > 0 AND state_ms <= ",
        cutoff!(),
        " ORDER BY state_ms LIMIT $2 FOR UPDATE SKIP LOCKED"
    );
    const DROPPED: &str = "
        UPDATE run_facts SET body = $4
        FROM unnest($1::text[], $2::text[], $3::bigint[]) AS old (tenant, workflow, number)
        WHERE run_facts.tenant = old.tenant AND run_facts.workflow = old.workflow
            AND run_facts.number = old.number";
    let windows = windows(connection, WINDOWS, age_s).await?;
    let picked = pick(connection, of_windows!("run_bodies"), &windows, limit).await?;
    of_runs(DROPPED, &picked)
        .bind(json(&BodyRef::Dropped))
        .execute(&mut *connection)
        .await
        .on("run_facts")?;
    delete_bodies(connection, &picked).await?;
    let marked = mark(connection, mark_windows!("run_bodies", "0", "1"), &windows).await?;
    let rows = picked.len() as u64;
    let uncounted = uncounted(connection, age_s, limit.saturating_sub_unsigned(rows)).await?;
    Ok(Purged { rows: rows + uncounted, more: marked > 0 || integer(rows + uncounted) >= limit })
}

/// Everything but the identity of runs that were not counted.
async fn uncounted(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<u64> {
    const FACTS: &str = concat!(
        "DELETE FROM run_facts WHERE uncounted_ms <= ",
        cutoff!(),
        " AND (tenant, workflow, number) IN (
             SELECT tenant, workflow, number FROM run_facts WHERE uncounted_ms IS NOT NULL AND uncounted_ms <= ",
        cutoff!(),
        " ORDER BY uncounted_ms LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING tenant, workflow, number"
    );
    let gone: Keys =
        sqlx::query_as(FACTS).bind(age_s).bind(limit).fetch_all(&mut *connection).await.on("run_facts")?;
    delete_bodies(connection, &gone).await?;
    Ok(gone.len() as u64)
}

async fn runs(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<Purged> {
    const WINDOWS: &str = concat!(
        "SELECT tenant, id FROM retrospectives
         WHERE state = 'closed' AND purged = 1 AND epoch > 0 AND state_ms <= ",
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
    let windows = windows(connection, WINDOWS, age_s).await?;
    let picked = pick(connection, of_windows!("run_facts"), &windows, limit).await?;
    of_runs(PRESENTATIONS, &picked).execute(&mut *connection).await.on("presentations")?;
    let gone = of_runs(FACTS, &picked).execute(&mut *connection).await.on("run_facts")?;
    let rows = gone.rows_affected();
    let marked = mark(connection, mark_windows!("run_facts", "1", "2"), &windows).await?;
    Ok(Purged { rows, more: marked > 0 || integer(rows) >= limit })
}

async fn pick(
    connection: &mut PgConnection,
    sql: &'static str,
    windows: &Windows,
    limit: i64,
) -> Result<Keys> {
    sqlx::query_as(sql)
        .bind(column(windows, |(tenant, _)| tenant.as_str()))
        .bind(column(windows, |(_, id)| id.as_str()))
        .bind(limit)
        .fetch_all(connection)
        .await
        .on("runs")
}

async fn mark(connection: &mut PgConnection, sql: &'static str, windows: &Windows) -> Result<u64> {
    let done = sqlx::query(sql)
        .bind(column(windows, |(tenant, _)| tenant.as_str()))
        .bind(column(windows, |(_, id)| id.as_str()))
        .execute(connection)
        .await
        .on("retrospectives")?;
    Ok(done.rows_affected())
}

type Statement<'a> = sqlx::query::Query<'a, sqlx::Postgres, sqlx::postgres::PgArguments>;

/// A statement whose first three parameters are the keys of runs.
fn of_runs<'a>(sql: &'static str, keys: &'a Keys) -> Statement<'a> {
    sqlx::query(sql)
        .bind(column(keys, |(tenant, ..)| tenant.as_str()))
        .bind(column(keys, |(_, workflow, _)| workflow.as_str()))
        .bind(column(keys, |(.., number)| *number))
}

async fn delete_bodies(connection: &mut PgConnection, keys: &Keys) -> Result<()> {
    const DELETE: &str = "
        DELETE FROM run_bodies USING unnest($1::text[], $2::text[], $3::bigint[]) AS old (tenant, workflow, number)
        WHERE run_bodies.tenant = old.tenant AND run_bodies.workflow = old.workflow
            AND run_bodies.number = old.number";
    of_runs(DELETE, keys).execute(connection).await.on("run_bodies").map(|_| ())
}

async fn journals(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<Purged> {
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
    let journals = delete(connection, "journal", JOURNALS, age_s, limit).await?;
    let left = limit.saturating_sub_unsigned(journals);
    let batches = delete(connection, "mutation_batches", BATCHES, age_s, left).await?;
    Ok(up_to(journals + batches, limit))
}

async fn messages(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<Purged> {
    const DELETE: &str = concat!(
        "DELETE FROM outbox WHERE sequence IN (
            SELECT sequence FROM outbox WHERE sent_ms IS NOT NULL AND sent_ms <= ",
        cutoff!(),
        " ORDER BY sent_ms LIMIT $2 FOR UPDATE SKIP LOCKED)"
    );
    Ok(up_to(delete(connection, "outbox", DELETE, age_s, limit).await?, limit))
}

async fn attempts(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<Purged> {
    const DELETE: &str = concat!(
        "DELETE FROM attempts WHERE (consumer, stream, sequence) IN (
            SELECT consumer, stream, sequence FROM attempts WHERE last_ms <= ",
        cutoff!(),
        " LIMIT $2 FOR UPDATE SKIP LOCKED)"
    );
    const DELETE_HISTORY: &str = concat!(
        "DELETE FROM attempt_history WHERE number IN (
            SELECT number FROM attempt_history WHERE letter IS NULL AND coalesce(failed_ms, begun_ms) <= ",
        cutoff!(),
        " LIMIT $2 FOR UPDATE SKIP LOCKED)"
    );
    let counts = up_to(delete(connection, "attempts", DELETE, age_s, limit).await?, limit);
    let history = up_to(delete(connection, "attempt_history", DELETE_HISTORY, age_s, limit).await?, limit);
    Ok(Purged { rows: counts.rows + history.rows, more: counts.more || history.more })
}

async fn delete(
    connection: &mut PgConnection,
    table: &'static str,
    sql: &'static str,
    age_s: i64,
    limit: i64,
) -> Result<u64> {
    let done = sqlx::query(sql).bind(age_s).bind(limit).execute(connection).await.on(table)?;
    Ok(done.rows_affected())
}

/// Inbox rows become digests, which are written in their own order: neighbours share pages.
async fn events(connection: &mut PgConnection, age_s: i64, limit: i64) -> Result<Purged> {
    const PICK: &str = concat!(
        "DELETE FROM inbox WHERE (consumer, tenant, source, event_id) IN (
             SELECT consumer, tenant, source, event_id FROM inbox WHERE received_ms <= ",
        cutoff!(),
        " ORDER BY received_ms LIMIT $2 FOR UPDATE SKIP LOCKED)
         RETURNING consumer, tenant, source, event_id, content_hash"
    );
    const KEEP: &str = "
        INSERT INTO seen_events (digest, content)
        SELECT digest, content FROM unnest($1::bytea[], $2::bytea[]) AS seen (digest, content)
        ON CONFLICT (digest) DO NOTHING";
    type Row = (String, String, Vec<u8>, Vec<u8>, String);
    let rows: Vec<Row> =
        sqlx::query_as(PICK).bind(age_s).bind(limit).fetch_all(&mut *connection).await.on("inbox")?;
    let mut digests = Vec::with_capacity(rows.len());
    for (consumer, tenant, source, id, hash) in &rows {
        let id = String::from_utf8_lossy(id).into_owned();
        let tenant = at("inbox.tenant", &id).parse(tenant)?;
        let event = EventKey { tenant, source: String::from_utf8_lossy(source).into_owned(), id };
        digests.push((EventDigest::of(consumer, &event), ContentDigest::of(hash)));
    }
    digests.sort_unstable();
    sqlx::query(KEEP)
        .bind(column(&digests, |(event, _)| event.0.as_bytes().as_slice()))
        .bind(column(&digests, |(_, content)| content.0.as_slice()))
        .execute(connection)
        .await
        .on("seen_events")?;
    Ok(up_to(rows.len() as u64, limit))
}

/// The events that are known by their digests alone: place among those asked for, and what is left of the content.
pub(crate) async fn purged_events(
    connection: &mut PgConnection,
    consumer: &str,
    events: &[&EventKey],
) -> Result<Vec<(i64, ContentDigest)>> {
    const SEEN: &str = "
        SELECT asked.place - 1, seen_events.content
        FROM unnest($1::bytea[]) WITH ORDINALITY AS asked (digest, place)
        JOIN seen_events ON seen_events.digest = asked.digest";
    let digest = |event: &&EventKey| EventDigest::of(consumer, event).0.into_bytes();
    let digests: Vec<[u8; 16]> = events.iter().map(digest).collect();
    let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(SEEN)
        .bind(column(&digests, |digest| digest.as_slice()))
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
