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
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::convert::{self, OnTable, at, to_i64};
use crate::now_ms;
use crate::tracked_runs::rewind_tracking;

/// Stores runs with their facts and bodies, replacing those of known runs. No run may occur twice in
/// `writes`.
pub(crate) async fn store_runs(
    connection: &mut SqliteConnection,
    writes: &[RunWrite<'_>],
    bodies: &[u8],
) -> Result<()> {
    if writes.is_empty() {
        return Ok(());
    }
    store_identities(connection, writes).await?;
    store_facts(connection, writes).await?;
    store_bodies(connection, writes, bodies).await?;
    rewind_tracking(connection, writes).await
}

async fn store_identities(connection: &mut SqliteConnection, writes: &[RunWrite<'_>]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO runs (tenant, workflow, run_id, number, ordinal, attempt, intake_sequence, received_ms)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, ",
        now_ms!(),
        " FROM json_each(?1) WHERE true
         ON CONFLICT (tenant, workflow, run_id) DO UPDATE
         SET ordinal = excluded.ordinal, attempt = excluded.attempt"
    );
    let row = |write: &RunWrite<'_>| {
        let run = &write.incoming.arrival.run;
        let (id, attempt) = (run.run_id.as_str(), run.attempt);
        let position = write.incoming.position;
        json!([write.tenant(), write.workflow(), id, write.number, write.ordinal, attempt, position])
    };
    let rows: Value = writes.iter().map(row).collect();
    let done = sqlx::query(STORE).bind(rows.to_string()).execute(connection).await.on_table("runs")?;
    at("runs", "a batch").check_rows_affected(done.rows_affected(), writes.len())
}

async fn store_facts(connection: &mut SqliteConnection, writes: &[RunWrite<'_>]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO run_facts (tenant, workflow, number, facts, body, trace, uncounted_ms)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 6,
             CASE WHEN value ->> 5 THEN ",
        now_ms!(),
        " END FROM json_each(?1) WHERE true
         ON CONFLICT (tenant, workflow, number) DO UPDATE
         SET facts = excluded.facts, body = excluded.body, trace = excluded.trace, uncounted_ms = excluded.uncounted_ms"
    );
    let row = |write: &RunWrite<'_>| {
        let (facts, body) = (
            convert::to_json(&write.incoming.arrival.run),
            convert::to_json(&body_ref(&write.incoming.body)),
        );
        let uncounted = write.ordinal.is_none();
        json!([write.tenant(), write.workflow(), write.number, facts, body, uncounted, write.trace_text()])
    };
    let rows: Value = writes.iter().map(row).collect();
    let done = sqlx::query(STORE).bind(rows.to_string()).execute(connection).await.on_table("run_facts")?;
    at("run_facts", "a batch").check_rows_affected(done.rows_affected(), writes.len())
}

/// Stores the bodies of runs, passed as one concatenated parameter from which each row takes its slice.
async fn store_bodies(
    connection: &mut SqliteConnection,
    writes: &[RunWrite<'_>],
    bodies: &[u8],
) -> Result<()> {
    const FORGET: &str = "
        DELETE FROM run_bodies WHERE rowid IN (
            SELECT old.rowid FROM json_each(?1) AS known
            CROSS JOIN run_bodies AS old ON old.tenant = known.value ->> 0
                AND old.workflow = known.value ->> 1 AND old.number = known.value ->> 2)";
    const STORE: &str = "
        INSERT INTO run_bodies (tenant, workflow, number, trajectory)
        SELECT value ->> 0, value ->> 1, value ->> 2, substr(?2, (value ->> 3) + 1, value ->> 4)
        FROM json_each(?1)";
    let known = writes.iter().filter(|write| write.known);
    let known: Vec<Value> =
        known.map(|write| json!([write.tenant(), write.workflow(), write.number])).collect();
    if !known.is_empty() {
        let known = Value::from(known).to_string();
        sqlx::query(FORGET).bind(known).execute(&mut *connection).await.on_table("run_bodies")?;
    }
    let row = |write: &RunWrite<'_>| {
        let (offset, length) = write.body?;
        Some(json!([write.tenant(), write.workflow(), write.number, offset, length]))
    };
    let rows: Vec<Value> = writes.iter().filter_map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let expected = rows.len();
    let rows = Value::from(rows).to_string();
    let done = sqlx::query(STORE).bind(rows).bind(bodies).execute(connection).await.on_table("run_bodies")?;
    at("run_bodies", "a batch").check_rows_affected(done.rows_affected(), expected)
}

/// Loads the facts and body of the run with the given ordinal in the retrospective's workflow. Fails if the
/// facts are missing.
pub(crate) async fn load_run_at(
    connection: &mut SqliteConnection,
    retrospective: &Retrospective,
    ordinal: Ordinal,
) -> Result<(RunFacts, StoredBody)> {
    const LOAD: &str = "
        SELECT run_facts.facts, run_facts.body, run_bodies.trajectory FROM runs
        JOIN run_facts USING (tenant, workflow, number)
        LEFT JOIN run_bodies USING (tenant, workflow, number)
        WHERE runs.tenant = ?1 AND runs.workflow = ?2 AND runs.ordinal = ?3";
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
    connection: &mut SqliteConnection,
    retrospective: &Retrospective,
) -> Result<Vec<Ordinal>> {
    const LOAD: &str = "
        SELECT ordinal FROM runs
        WHERE tenant = ?1 AND workflow = ?2 AND ordinal BETWEEN ?3 AND ?4 ORDER BY ordinal";
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
    connection: &mut SqliteConnection,
    retrospective: &Retrospective,
    sample: &Sample,
) -> Result<Vec<WindowRun>> {
    const WINDOW: &str = "
        SELECT runs.ordinal, runs.run_id, run_facts.facts FROM runs
        JOIN run_facts USING (tenant, workflow, number)
        WHERE runs.tenant = ?1 AND runs.workflow = ?2 AND runs.ordinal BETWEEN ?3 AND ?4
        ORDER BY runs.ordinal";
    const NAMED: &str = "
        SELECT runs.ordinal, runs.run_id, run_facts.facts FROM runs
        JOIN run_facts USING (tenant, workflow, number)
        WHERE runs.tenant = ?1 AND runs.workflow = ?2 AND runs.ordinal IN (SELECT value FROM json_each(?3))
        ORDER BY runs.ordinal";
    let Retrospective { key, first, last, manual_request, .. } = retrospective;
    let of = |sql: &'static str| sqlx::query_as(sql).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = match manual_request {
        None => of(WINDOW).bind(to_i64(*first)).bind(to_i64(*last)),
        Some(_) => of(NAMED).bind(convert::to_json(&sample.order)),
    };
    let rows: Vec<(i64, String, String)> = query.fetch_all(connection).await.on_table("run_facts")?;
    check_window_complete(retrospective, rows.len())?;
    rows.iter().map(|row| window_run_from_row(retrospective, row)).collect()
}
