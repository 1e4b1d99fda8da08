//! Stores and loads the call summaries of runs.
//!
//! A summary is looked up by the key of its run, one lookup for each run. The plan of a plain join, made while
//! the table was small, would read the summaries of all workflows later.

use std::collections::BTreeMap;

use retro_core::calls::{CONTRAST_RUNS, SUMMARIES_KEPT, SUMMARY_VERSION, StoredSummary, WindowSummaries};
use retro_core::id::WorkflowKey;
use retro_core::retrospective::Retrospective;
use retro_core::run::RunFacts;
use retro_store::{Result, RunToSummarize};

use super::dialect::{Connection, OnTable, bind_rows, from_hex, lookup_join, rows_table};
use crate::rows::body::stored_body;
use crate::rows::summary::{
    NextSummaries, PendingRun, StoredColumns, SummaryRow, choose_next, stored_summary_from_row,
};
use crate::{at, to_i64};

/// SQL statement that writes summaries of runs of one window; `$on_conflict` ends it for a run that has one. Its
/// parameters are the tenant, the workflow, the first and the last ordinal, and the columns of [`SummaryRow`].
macro_rules! write_summaries {
    ($on_conflict:literal) => {
        concat!(
            "INSERT INTO call_summaries
                 (tenant, workflow, run_id, attempt, version, attempts_begun, problem, summary)
             SELECT $1, $2, new.run_id, new.attempt, new.version, new.attempts_begun, new.problem, ",
            from_hex!("new.summary_hex"),
            " FROM ",
            rows_table!(
                "new", "$5" "run_id", "$6" "attempt", "$7" "version", "$8" "attempts_begun", "$9" "problem",
                "$10" "summary_hex"
            ),
            " WHERE (SELECT runs.ordinal FROM runs WHERE runs.tenant = $1 AND runs.workflow = $2
                 AND runs.run_id = new.run_id) BETWEEN $3 AND $4
             ON CONFLICT (tenant, workflow, run_id) DO UPDATE
             SET attempt = excluded.attempt, version = excluded.version, problem = excluded.problem,
                 summary = excluded.summary",
            $on_conflict
        )
    };
}

/// Returns the first ordinal of a window whose run is summarised. The window of a long backlog is longer than
/// what is kept, and reading all of it at once would take too much memory.
fn first_summarised(retrospective: &Retrospective) -> i64 {
    to_i64(retrospective.first.max((retrospective.last + 1).saturating_sub(SUMMARIES_KEPT)))
}

/// Begins at most `limit` summaries of a window. Gives up those that were begun too often, and those of runs
/// whose facts cannot be read.
pub(crate) async fn begin_summaries(
    connection: &mut Connection,
    retrospective: &Retrospective,
    limit: u32,
) -> Result<Vec<RunToSummarize>> {
    const BEGIN: &str = write_summaries!(", attempts_begun = excluded.attempts_begun");
    // Ends, because each pass that begins no summary gives up at least one run of the window.
    loop {
        let pending = list_pending(connection, retrospective, limit).await?;
        let NextSummaries { begun, given_up: mut rows } = choose_next(pending);
        rows.extend(begun.iter().map(|(run, _)| run.begin()));
        let written = write_rows(connection, BEGIN, retrospective, &rows).await?;
        at("call_summaries", retrospective.id).check_rows_affected(written, rows.len())?;
        if !begun.is_empty() || rows.is_empty() {
            return attach_bodies(connection, &retrospective.key, begun).await;
        }
    }
}

/// Lists runs of a window whose summary is missing or outdated, in the order of their ordinals.
async fn list_pending(
    connection: &mut Connection,
    retrospective: &Retrospective,
    limit: u32,
) -> Result<Vec<PendingRun>> {
    const LOAD: &str = "
        SELECT pending.run_id, pending.number, pending.attempt, pending.begun,
            (SELECT facts FROM run_facts WHERE run_facts.tenant = $1 AND run_facts.workflow = $2
                AND run_facts.number = pending.number) AS facts,
            coalesce((SELECT body FROM run_facts WHERE run_facts.tenant = $1 AND run_facts.workflow = $2
                AND run_facts.number = pending.number), '') AS body
        FROM (SELECT runs.run_id, runs.number, runs.ordinal, runs.attempt, coalesce(
                (SELECT CASE
                    WHEN kept.problem IS NULL AND kept.summary IS NULL AND kept.attempt = runs.attempt
                        THEN kept.attempts_begun
                    WHEN kept.problem IS NULL AND kept.summary IS NULL THEN 0
                    WHEN kept.attempt < runs.attempt OR kept.version < $5 THEN 0
                    ELSE -1 END
                FROM call_summaries AS kept WHERE kept.tenant = runs.tenant
                    AND kept.workflow = runs.workflow AND kept.run_id = runs.run_id), 0) AS begun
            FROM runs WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.ordinal BETWEEN $3 AND $4)
            AS pending
        WHERE pending.begun >= 0 ORDER BY pending.ordinal LIMIT $6";
    sqlx::query_as(LOAD)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.key.workflow.as_str())
        .bind(first_summarised(retrospective))
        .bind(to_i64(retrospective.last))
        .bind(i64::from(SUMMARY_VERSION))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .on_table("call_summaries")
}

async fn attach_bodies(
    connection: &mut Connection,
    key: &WorkflowKey,
    begun: Vec<(PendingRun, RunFacts)>,
) -> Result<Vec<RunToSummarize>> {
    const LOAD: &str = concat!(
        "SELECT run_bodies.number, run_bodies.trajectory FROM ",
        rows_table!("requested", "$3" "number"),
        lookup_join!(
            "run_bodies",
            "number, trajectory",
            "run_bodies.tenant = $1 AND run_bodies.workflow = $2 AND run_bodies.number = requested.number"
        )
    );
    let query = sqlx::query_as(LOAD).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = bind_rows!(query, begun, |one| [one.0.number]);
    let rows: Vec<(i64, Vec<u8>)> = query.fetch_all(connection).await.on_table("run_bodies")?;
    let bodies: BTreeMap<i64, Vec<u8>> = rows.into_iter().collect();
    let attach = |(pending, run): (PendingRun, RunFacts)| RunToSummarize {
        run,
        body: stored_body(&pending.body, bodies.get(&pending.number).map(Vec::as_slice)),
    };
    Ok(begun.into_iter().map(attach).collect())
}

/// Stores summaries of runs of a window, unless one of a newer version, or of a higher attempt at the run, is
/// stored.
pub(crate) async fn store_summaries(
    connection: &mut Connection,
    retrospective: &Retrospective,
    rows: &[SummaryRow],
) -> Result<()> {
    const STORE: &str = write_summaries!(
        " WHERE (excluded.version, excluded.attempt) >= (call_summaries.version, call_summaries.attempt)"
    );
    write_rows(connection, STORE, retrospective, rows).await.map(|_| ())
}

/// Runs a [`write_summaries`] statement. Returns the number of written rows.
async fn write_rows(
    connection: &mut Connection,
    sql: &'static str,
    retrospective: &Retrospective,
    rows: &[SummaryRow],
) -> Result<u64> {
    if rows.is_empty() {
        return Ok(0);
    }
    let query = sqlx::query(sql)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.key.workflow.as_str())
        .bind(first_summarised(retrospective))
        .bind(to_i64(retrospective.last));
    let query = bind_rows!(query, rows, |row| [
        row.run_id.as_str(),
        row.attempt,
        row.version,
        row.attempts_begun,
        row.problem.as_deref(),
        row.summary_hex.as_deref(),
    ]);
    let done = query.execute(connection).await.on_table("call_summaries")?;
    Ok(done.rows_affected())
}

/// Loads the stored summaries of a window, and of the runs claimed before it that a contrast reads, sorted by
/// ordinal.
pub(crate) async fn load_window(
    connection: &mut Connection,
    retrospective: &Retrospective,
) -> Result<WindowSummaries> {
    const LOAD: &str = concat!(
        "SELECT runs.ordinal, runs.run_id, call_summaries.problem, call_summaries.summary FROM runs",
        lookup_join!(
            "call_summaries",
            "problem, summary",
            "call_summaries.tenant = runs.tenant AND call_summaries.workflow = runs.workflow
             AND call_summaries.run_id = runs.run_id"
        ),
        " WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.ordinal BETWEEN $3 AND $4
             AND (call_summaries.problem IS NOT NULL OR call_summaries.summary IS NOT NULL)
         ORDER BY runs.ordinal"
    );
    let key = &retrospective.key;
    let first = first_summarised(retrospective);
    let contrasted = to_i64((retrospective.last + 1).saturating_sub(CONTRAST_RUNS as u64));
    let rows: Vec<StoredColumns> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(first.min(contrasted))
        .bind(to_i64(retrospective.last))
        .fetch_all(connection)
        .await
        .on_table("call_summaries")?;
    let stored = rows.into_iter().map(|row| stored_summary_from_row(key, row)).collect::<Result<Vec<_>>>()?;
    let (earlier, summaries) = stored.into_iter().partition(|one| to_i64(one.ordinal) < first);
    Ok(WindowSummaries {
        runs: u32::try_from(retrospective.window_runs()).unwrap_or(u32::MAX),
        summaries,
        earlier,
    })
}

/// Lists the newest stored summaries of a workflow, newest first. Reads those of the whole workflow, which are
/// about [`SUMMARIES_KEPT`].
pub(crate) async fn list_newest(
    connection: &mut Connection,
    key: &WorkflowKey,
    limit: u32,
) -> Result<Vec<StoredSummary>> {
    const LOAD: &str = concat!(
        "SELECT runs.ordinal, call_summaries.run_id, call_summaries.problem, call_summaries.summary
         FROM call_summaries",
        lookup_join!(
            "runs",
            "ordinal",
            "runs.tenant = call_summaries.tenant AND runs.workflow = call_summaries.workflow
             AND runs.run_id = call_summaries.run_id"
        ),
        " WHERE call_summaries.tenant = $1 AND call_summaries.workflow = $2
             AND (call_summaries.problem IS NOT NULL OR call_summaries.summary IS NOT NULL)
         ORDER BY runs.ordinal DESC LIMIT $3"
    );
    let rows: Vec<StoredColumns> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .on_table("call_summaries")?;
    rows.into_iter().map(|row| stored_summary_from_row(key, row)).collect()
}

/// Deletes the summaries of the runs that are more than [`SUMMARIES_KEPT`] ordinals older than the end of the
/// window of a closing retrospective.
pub(crate) async fn delete_old(connection: &mut Connection, retrospective: &Retrospective) -> Result<()> {
    const DELETE: &str = "
        DELETE FROM call_summaries WHERE tenant = $1 AND workflow = $2
            AND (SELECT runs.ordinal FROM runs WHERE runs.tenant = call_summaries.tenant
                AND runs.workflow = call_summaries.workflow AND runs.run_id = call_summaries.run_id) <= $3";
    // The last ordinal of a manual retrospective is 0.
    let Some(oldest) = retrospective.last.checked_sub(SUMMARIES_KEPT) else { return Ok(()) };
    sqlx::query(DELETE)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.key.workflow.as_str())
        .bind(to_i64(oldest))
        .execute(connection)
        .await
        .on_table("call_summaries")
        .map(|_| ())
}
