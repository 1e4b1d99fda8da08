//! Runs: narrow identities, facts, and bodies apart.

use retro_core::id::Ordinal;
use retro_core::report::WindowRun;
use retro_core::retrospective::Retrospective;
use retro_core::run::RunFacts;
use retro_core::sample::Sample;
use retro_store::{Result, StoredBody};
use retro_store_sql::body::{body_ref, stored_body};
use retro_store_sql::count::RunWrite;
use retro_store_sql::run::{whole, window_run};
use retro_store_sql::{at, integer, json};
use sqlx::PgConnection;

use crate::answer::OnTable;
use crate::count::column;
use crate::follow::follow_again;
use crate::now_ms;

/// Writes runs with their facts and bodies; a known run's are replaced. No run may stand twice in `writes`.
pub(crate) async fn store_runs(
    connection: &mut PgConnection,
    writes: &[RunWrite<'_>],
    bodies: &[u8],
) -> Result<()> {
    if writes.is_empty() {
        return Ok(());
    }
    store_identities(connection, writes).await?;
    store_facts(connection, writes).await?;
    forget_bodies(connection, writes).await?;
    store_bodies(connection, writes, bodies).await?;
    follow_again(connection, writes).await
}

async fn store_identities(connection: &mut PgConnection, writes: &[RunWrite<'_>]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO runs (tenant, workflow, run_id, number, ordinal, attempt, position, received_ms)
         SELECT new.*, ",
        now_ms!(),
        " FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
             $7::bigint[]) AS new
         ON CONFLICT (tenant, workflow, run_id) DO UPDATE
         SET ordinal = excluded.ordinal, attempt = excluded.attempt"
    );
    let done = sqlx::query(STORE)
        .bind(column(writes, RunWrite::tenant))
        .bind(column(writes, RunWrite::workflow))
        .bind(column(writes, |write| write.incoming.arrival.run.run_id.as_str()))
        .bind(column(writes, |write| integer(write.number)))
        .bind(column(writes, |write| write.ordinal.map(integer)))
        .bind(column(writes, |write| i64::from(write.incoming.arrival.run.attempt)))
        .bind(column(writes, |write| integer(write.incoming.position)))
        .execute(connection)
        .await
        .on("runs")?;
    at("runs", "a batch").touched(done.rows_affected(), writes.len())
}

async fn store_facts(connection: &mut PgConnection, writes: &[RunWrite<'_>]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO run_facts (tenant, workflow, number, facts, body, trace, uncounted_ms)
         SELECT tenant, workflow, number, facts, body, trace, CASE WHEN uncounted THEN ",
        now_ms!(),
        " END FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bool[],
             $7::text[]) AS new (tenant, workflow, number, facts, body, uncounted, trace)
         ON CONFLICT (tenant, workflow, number) DO UPDATE
         SET facts = excluded.facts, body = excluded.body, trace = excluded.trace, uncounted_ms = excluded.uncounted_ms"
    );
    let done = sqlx::query(STORE)
        .bind(column(writes, RunWrite::tenant))
        .bind(column(writes, RunWrite::workflow))
        .bind(column(writes, |write| integer(write.number)))
        .bind(column(writes, |write| json(&write.incoming.arrival.run)))
        .bind(column(writes, |write| json(&body_ref(&write.incoming.body))))
        .bind(column(writes, |write| write.ordinal.is_none()))
        .bind(column(writes, RunWrite::trace))
        .execute(connection)
        .await
        .on("run_facts")?;
    at("run_facts", "a batch").touched(done.rows_affected(), writes.len())
}

/// A known run may have had a body, and come without one now.
async fn forget_bodies(connection: &mut PgConnection, writes: &[RunWrite<'_>]) -> Result<()> {
    const FORGET: &str = "
        DELETE FROM run_bodies USING unnest($1::text[], $2::text[], $3::bigint[]) AS known (tenant, workflow, number)
        WHERE run_bodies.tenant = known.tenant AND run_bodies.workflow = known.workflow
            AND run_bodies.number = known.number";
    let known: Vec<&RunWrite<'_>> = writes.iter().filter(|write| write.known).collect();
    if known.is_empty() {
        return Ok(());
    }
    sqlx::query(FORGET)
        .bind(column(&known, |write| write.tenant()))
        .bind(column(&known, |write| write.workflow()))
        .bind(column(&known, |write| integer(write.number)))
        .execute(connection)
        .await
        .on("run_bodies")?;
    Ok(())
}

async fn store_bodies(connection: &mut PgConnection, writes: &[RunWrite<'_>], bodies: &[u8]) -> Result<()> {
    const STORE: &str = "
        INSERT INTO run_bodies (tenant, workflow, number, trajectory)
        SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[])";
    let with_body = writes.iter().filter_map(|write| Some((write, write.body?)));
    let with_body: Vec<(&RunWrite<'_>, (usize, usize))> = with_body.collect();
    if with_body.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(STORE)
        .bind(column(&with_body, |(write, _)| write.tenant()))
        .bind(column(&with_body, |(write, _)| write.workflow()))
        .bind(column(&with_body, |(write, _)| integer(write.number)))
        .bind(column(&with_body, |(_, (offset, length))| &bodies[*offset..offset + length]))
        .execute(connection)
        .await
        .on("run_bodies")?;
    at("run_bodies", "a batch").touched(done.rows_affected(), with_body.len())
}

/// The run of a window with this ordinal, and its body.
pub(crate) async fn run_at(
    connection: &mut PgConnection,
    retrospective: &Retrospective,
    ordinal: Ordinal,
) -> Result<(RunFacts, StoredBody)> {
    const LOAD: &str = "
        SELECT run_facts.facts, run_facts.body, run_bodies.trajectory FROM runs
        JOIN run_facts USING (tenant, workflow, number)
        LEFT JOIN run_bodies USING (tenant, workflow, number)
        WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.ordinal = $3";
    let key = &retrospective.key;
    let place = at("run_facts.facts", format!("{key}, ordinal {ordinal}"));
    let row: Option<(String, String, Option<Vec<u8>>)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(integer(ordinal))
        .fetch_optional(connection)
        .await
        .on("run_facts")?;
    let (facts, body, stored) = row.ok_or_else(|| place.damaged("the run has no facts"))?;
    Ok((place.json(&facts)?, stored_body(&body, stored.as_deref())))
}

/// The ordinals of a retrospective's window, in order; fails when one is missing.
pub(crate) async fn window_ordinals(
    connection: &mut PgConnection,
    retrospective: &Retrospective,
) -> Result<Vec<Ordinal>> {
    const LOAD: &str = "
        SELECT ordinal FROM runs
        WHERE tenant = $1 AND workflow = $2 AND ordinal BETWEEN $3 AND $4 ORDER BY ordinal";
    let found: Vec<i64> = sqlx::query_scalar(LOAD)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.key.workflow.as_str())
        .bind(integer(retrospective.first))
        .bind(integer(retrospective.last))
        .fetch_all(connection)
        .await
        .on("runs")?;
    whole(retrospective, found.len())?;
    found.into_iter().map(|ordinal| at("runs.ordinal", &retrospective.key).unsigned(ordinal)).collect()
}

/// The runs of a retrospective's window, or those that a manual one was asked for; by ordinal. Fails when one is
/// missing.
pub(crate) async fn window_runs(
    connection: &mut PgConnection,
    retrospective: &Retrospective,
    sample: &Sample,
) -> Result<Vec<WindowRun>> {
    // The facts whole: Postgres reads no JSON that holds a NUL anywhere.
    const WINDOW: &str = "
        SELECT runs.ordinal, runs.run_id, run_facts.facts FROM runs
        JOIN run_facts USING (tenant, workflow, number)
        WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.ordinal BETWEEN $3 AND $4
        ORDER BY runs.ordinal";
    const NAMED: &str = "
        SELECT runs.ordinal, runs.run_id, run_facts.facts FROM runs
        JOIN run_facts USING (tenant, workflow, number)
        WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.ordinal = ANY($3::bigint[])
        ORDER BY runs.ordinal";
    let Retrospective { key, first, last, asked, .. } = retrospective;
    let of = |sql: &'static str| sqlx::query_as(sql).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = match asked {
        None => of(WINDOW).bind(integer(*first)).bind(integer(*last)),
        Some(_) => of(NAMED).bind(column(&sample.order, |ordinal| integer(*ordinal))),
    };
    let rows: Vec<(i64, String, String)> = query.fetch_all(connection).await.on("run_facts")?;
    whole(retrospective, rows.len())?;
    rows.iter().map(|row| window_run(retrospective, row)).collect()
}
