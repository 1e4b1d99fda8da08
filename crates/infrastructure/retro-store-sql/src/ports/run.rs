//! Stores and loads runs: identities in a narrow table, facts and bodies in tables of their own.

use retro_core::id::Ordinal;
use retro_core::report::WindowRun;
use retro_core::retrospective::Retrospective;
use retro_core::run::RunFacts;
use retro_core::sample::Sample;
use retro_store::{Result, StoredBody};

use super::bodies::store_bodies;
use super::dialect::{Connection, OnTable, any_of, bind_rows, now_ms, number_list_parameter, rows_table};
use super::repositories::store_visibilities;
use super::retention::{delete_details, is_of_runs};
use super::tracked_runs::rewind_tracking;
use crate::rows::body::{body_ref, stored_body};
use crate::rows::count::RunWrite;
use crate::rows::run::{check_window_complete, window_run_from_row};
use crate::{at, to_i64, to_json};

/// Stores runs with their facts and bodies, replacing those of known runs. No run may occur twice in
/// `writes`.
pub(crate) async fn store_runs(connection: &mut Connection, writes: &[RunWrite<'_>]) -> Result<()> {
    if writes.is_empty() {
        return Ok(());
    }
    store_identities(connection, writes).await?;
    forget_details(connection, writes).await?;
    store_facts(connection, writes).await?;
    store_bodies(connection, writes).await?;
    store_visibilities(connection, writes).await?;
    rewind_tracking(connection, writes).await
}

/// Stores the identities of runs: inserts those of new runs, and updates those of known ones. An insertion that also
/// updates would look up each new run once more.
async fn store_identities(connection: &mut Connection, writes: &[RunWrite<'_>]) -> Result<()> {
    const INSERT: &str = concat!(
        "INSERT INTO runs (tenant, workflow, run_id, number, ordinal, attempt, intake_sequence, received_ms)
         SELECT tenant, workflow, run_id, number, ordinal, attempt, intake_sequence, ",
        now_ms!(),
        " FROM ",
        rows_table!(
            "new", "$1" "tenant", "$2" "workflow", "$3" "run_id", "$4" "number", "$5" "ordinal",
            "$6" "attempt", "$7" "intake_sequence"
        )
    );
    const UPDATE: &str = concat!(
        "UPDATE runs SET ordinal = new.ordinal, attempt = new.attempt FROM ",
        rows_table!("new", "$1" "tenant", "$2" "workflow", "$3" "run_id", "$4" "ordinal", "$5" "attempt"),
        " WHERE runs.tenant = new.tenant AND runs.workflow = new.workflow AND runs.run_id = new.run_id"
    );
    let (known, new): (Vec<_>, Vec<_>) = writes.iter().partition(|write| write.known);
    let mut stored = 0;
    if !new.is_empty() {
        let query = bind_rows!(sqlx::query(INSERT), new, |write| [
            write.tenant(),
            write.workflow(),
            write.incoming.arrival.run.run_id.as_str(),
            to_i64(write.number),
            write.ordinal.map(to_i64),
            i64::from(write.incoming.arrival.run.attempt),
            to_i64(write.incoming.arrival.position),
        ]);
        stored += query.execute(&mut *connection).await.on_table("runs")?.rows_affected();
    }
    if !known.is_empty() {
        let query = bind_rows!(sqlx::query(UPDATE), known, |write| [
            write.tenant(),
            write.workflow(),
            write.incoming.arrival.run.run_id.as_str(),
            write.ordinal.map(to_i64),
            i64::from(write.incoming.arrival.run.attempt),
        ]);
        stored += query.execute(connection).await.on_table("runs")?.rows_affected();
    }
    at("runs", "a batch").check_rows_affected(stored, writes.len())
}

async fn store_facts(connection: &mut Connection, writes: &[RunWrite<'_>]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO run_facts (tenant, workflow, number, facts, body, trace, uncounted_ms)
         SELECT tenant, workflow, number, facts, body, trace, CASE WHEN uncounted THEN ",
        now_ms!(),
        " END FROM ",
        rows_table!(
            "new", "$1" "tenant", "$2" "workflow", "$3" "number", "$4" "facts", "$5" "body",
            "$6" "uncounted", "$7" "trace"
        )
    );
    let query = bind_rows!(sqlx::query(STORE), writes, |write| [
        write.tenant(),
        write.workflow(),
        to_i64(write.number),
        to_json(&write.incoming.arrival.run),
        to_json(&body_ref(&write.incoming.body)),
        write.ordinal.is_none(),
        write.trace_text(),
    ]);
    let done = query.execute(connection).await.on_table("run_facts")?;
    at("run_facts", "a batch").check_rows_affected(done.rows_affected(), writes.len())
}

/// Deletes the stored facts and bodies of known runs, which those of their new attempt replace.
async fn forget_details(connection: &mut Connection, writes: &[RunWrite<'_>]) -> Result<()> {
    const FORGET_FACTS: &str = delete_details!("run_facts");
    const FORGET_BODIES: &str = delete_details!("run_bodies");
    let known: Vec<&RunWrite<'_>> = writes.iter().filter(|write| write.known).collect();
    if known.is_empty() {
        return Ok(());
    }
    for (sql, table) in [(FORGET_FACTS, "run_facts"), (FORGET_BODIES, "run_bodies")] {
        let query = bind_rows!(sqlx::query(sql), known, |write| [
            write.tenant(),
            write.workflow(),
            to_i64(write.number),
        ]);
        query.execute(&mut *connection).await.on_table(table)?;
    }
    Ok(())
}

/// Loads the facts and body of the run with the given ordinal in the retrospective's workflow. Fails if the
/// facts are missing.
pub(crate) async fn load_run_at(
    connection: &mut Connection,
    retrospective: &Retrospective,
    ordinal: Ordinal,
) -> Result<(RunFacts, StoredBody)> {
    let found = find_run_at(connection, retrospective, ordinal).await?;
    let place = at("run_facts.facts", format!("{}, ordinal {ordinal}", retrospective.key));
    found.ok_or_else(|| place.damaged_error("the run has no facts"))
}

/// Finds a run as [`load_run_at`] loads it. Returns `None` if its facts are missing.
pub(crate) async fn find_run_at(
    connection: &mut Connection,
    retrospective: &Retrospective,
    ordinal: Ordinal,
) -> Result<Option<(RunFacts, StoredBody)>> {
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
    let Some((facts, body, stored)) = row else { return Ok(None) };
    Ok(Some((place.parse_json(&facts)?, stored_body(&body, stored.as_deref()))))
}

/// Lists the ordinals of a retrospective's window in ascending order. Fails if an ordinal is missing.
pub(crate) async fn list_window_ordinals(
    connection: &mut Connection,
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
    connection: &mut Connection,
    retrospective: &Retrospective,
    sample: &Sample,
) -> Result<Vec<WindowRun>> {
    // Select the facts as a whole: Postgres cannot extract parts of JSON that contains an escaped NUL.
    const WINDOW: &str = "
        SELECT runs.ordinal, runs.run_id, run_facts.facts FROM runs
        JOIN run_facts USING (tenant, workflow, number)
        WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.ordinal BETWEEN $3 AND $4
        ORDER BY runs.ordinal";
    const NAMED: &str = concat!(
        "SELECT runs.ordinal, runs.run_id, run_facts.facts FROM runs
         JOIN run_facts USING (tenant, workflow, number)
         WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.ordinal",
        any_of!("$3"),
        " ORDER BY runs.ordinal"
    );
    let Retrospective { key, first, last, manual_request, .. } = retrospective;
    let of = |sql: &'static str| sqlx::query_as(sql).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = match manual_request {
        None => of(WINDOW).bind(to_i64(*first)).bind(to_i64(*last)),
        Some(_) => of(NAMED).bind(number_list_parameter(sample.order.iter().map(|ordinal| to_i64(*ordinal)))),
    };
    let rows: Vec<(i64, String, String)> = query.fetch_all(connection).await.on_table("run_facts")?;
    check_window_complete(retrospective, rows.len())?;
    rows.iter().map(|row| window_run_from_row(retrospective, row)).collect()
}
