//! Stores and loads runs: identities in a narrow table, facts and bodies in tables of their own.

use retro_core::id::Ordinal;
use retro_core::report::WindowRun;
use retro_core::retrospective::Retrospective;
use retro_core::run::RunFacts;
use retro_core::sample::Sample;
use retro_store::{Result, StoredBody};
use retro_store_sql::body::{body_ref, stored_body};
use retro_store_sql::count::RunWrite;
use retro_store_sql::run::{check_window_complete, window_run_from_row};
use retro_store_sql::{at, to_i64, to_json};
use sqlx::PgConnection;

use crate::convert::OnTable;
use crate::count::map_column;
use crate::now_ms;
use crate::tracked_runs::rewind_tracking;

/// Stores runs with their facts and bodies, replacing those of known runs. No run may occur twice in
/// `writes`.
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
    rewind_tracking(connection, writes).await
}

async fn store_identities(connection: &mut PgConnection, writes: &[RunWrite<'_>]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO runs (tenant, workflow, run_id, number, ordinal, attempt, intake_sequence, received_ms)
         SELECT new.*, ",
        now_ms!(),
        " FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
             $7::bigint[]) AS new
         ON CONFLICT (tenant, workflow, run_id) DO UPDATE
         SET ordinal = excluded.ordinal, attempt = excluded.attempt"
    );
    let done = sqlx::query(STORE)
        .bind(map_column(writes, RunWrite::tenant))
        .bind(map_column(writes, RunWrite::workflow))
        .bind(map_column(writes, |write| write.incoming.arrival.run.run_id.as_str()))
        .bind(map_column(writes, |write| to_i64(write.number)))
        .bind(map_column(writes, |write| write.ordinal.map(to_i64)))
        .bind(map_column(writes, |write| i64::from(write.incoming.arrival.run.attempt)))
        .bind(map_column(writes, |write| to_i64(write.incoming.position)))
        .execute(connection)
        .await
        .on_table("runs")?;
    at("runs", "a batch").check_rows_affected(done.rows_affected(), writes.len())
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
        .bind(map_column(writes, RunWrite::tenant))
        .bind(map_column(writes, RunWrite::workflow))
        .bind(map_column(writes, |write| to_i64(write.number)))
        .bind(map_column(writes, |write| to_json(&write.incoming.arrival.run)))
        .bind(map_column(writes, |write| to_json(&body_ref(&write.incoming.body))))
        .bind(map_column(writes, |write| write.ordinal.is_none()))
        .bind(map_column(writes, RunWrite::trace_text))
        .execute(connection)
        .await
        .on_table("run_facts")?;
    at("run_facts", "a batch").check_rows_affected(done.rows_affected(), writes.len())
}

/// Deletes the stored bodies of known runs, because their new attempt may have no body.
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
        .bind(map_column(&known, |write| write.tenant()))
        .bind(map_column(&known, |write| write.workflow()))
        .bind(map_column(&known, |write| to_i64(write.number)))
        .execute(connection)
        .await
        .on_table("run_bodies")?;
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
        .bind(map_column(&with_body, |(write, _)| write.tenant()))
        .bind(map_column(&with_body, |(write, _)| write.workflow()))
        .bind(map_column(&with_body, |(write, _)| to_i64(write.number)))
        .bind(map_column(&with_body, |(_, (offset, length))| &bodies[*offset..offset + length]))
        .execute(connection)
        .await
        .on_table("run_bodies")?;
    at("run_bodies", "a batch").check_rows_affected(done.rows_affected(), with_body.len())
}

/// Loads the facts and body of the run with the given ordinal in the retrospective's workflow.
pub(crate) async fn load_run_at(
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
        .bind(to_i64(ordinal))
        .fetch_optional(connection)
        .await
        .on_table("run_facts")?;
    let (facts, body, stored) = row.ok_or_else(|| place.damaged_error("the run has no facts"))?;
    Ok((place.parse_json(&facts)?, stored_body(&body, stored.as_deref())))
}

/// Lists the ordinals of a retrospective's window in ascending order. Fails if an ordinal is missing.
pub(crate) async fn list_window_ordinals(
    connection: &mut PgConnection,
    retrospective: &Retrospective,
) -> Result<Vec<Ordinal>> {
    const LOAD: &str = "
        SELECT ordinal FROM runs
        WHERE tenant = $1 AND workflow = $2 AND ordinal BETWEEN $3 AND $4 ORDER BY ordinal";
    let found: Vec<i64> = sqlx::query_scalar(LOAD)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.key.workflow.as_str())
        .bind(to_i64(retrospective.first))
        .bind(to_i64(retrospective.last))
        .fetch_all(connection)
        .await
        .on_table("runs")?;
    check_window_complete(retrospective, found.len())?;
    found.into_iter().map(|ordinal| at("runs.ordinal", &retrospective.key).parse_unsigned(ordinal)).collect()
}

/// Lists the runs of a retrospective's window or, for a manual retrospective, the named runs, sorted by
/// ordinal. Fails if a run is missing.
pub(crate) async fn list_window_runs(
    connection: &mut PgConnection,
    retrospective: &Retrospective,
    sample: &Sample,
) -> Result<Vec<WindowRun>> {
    // Select the facts as a whole: Postgres cannot extract parts of JSON that contains an escaped NUL.
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
    let Retrospective { key, first, last, manual_request, .. } = retrospective;
    let of = |sql: &'static str| sqlx::query_as(sql).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = match manual_request {
        None => of(WINDOW).bind(to_i64(*first)).bind(to_i64(*last)),
        Some(_) => of(NAMED).bind(map_column(&sample.order, |ordinal| to_i64(*ordinal))),
    };
    let rows: Vec<(i64, String, String)> = query.fetch_all(connection).await.on_table("run_facts")?;
    check_window_complete(retrospective, rows.len())?;
    rows.iter().map(|row| window_run_from_row(retrospective, row)).collect()
}
