//! Stores the pull request references of runs and the tracking position of each workflow.

use retro_core::id::WorkflowKey;
use retro_core::outcome::RunReferences;
use retro_core::pull_request::PullRequestRef;
use retro_store::Result;

use super::dialect::{Connection, OnTable, bind_rows, lookup_join, rows_table};
use crate::rows::count::RunWrite;
use crate::rows::track::{parse_references, pull_request_from_row, tracking_restart_points};
use crate::to_i64;

/// Returns the tracking position of a workflow and the number of its recorded runs; both are 0 for an unknown
/// workflow. The tracking position is the arrival number of the last tracked run.
pub(crate) async fn load_position(connection: &mut Connection, key: &WorkflowKey) -> Result<(i64, i64)> {
    const REACHED: &str = "
        SELECT coalesce((SELECT number FROM tracking_cursor WHERE tenant = $1 AND workflow = $2), 0),
            coalesce((SELECT recorded FROM workflows WHERE tenant = $1 AND workflow = $2), 0)";
    let query = sqlx::query_as(REACHED).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    query.fetch_one(connection).await.on_table("tracking_cursor")
}

/// Stores the tracking position of a workflow: the arrival number of the last tracked run.
pub(crate) async fn store_position(
    connection: &mut Connection,
    key: &WorkflowKey,
    number: i64,
) -> Result<()> {
    const REACH: &str = "
        INSERT INTO tracking_cursor (tenant, workflow, number) VALUES ($1, $2, $3)
        ON CONFLICT (tenant, workflow) DO UPDATE SET number = excluded.number";
    let query = sqlx::query(REACH).bind(key.tenant.as_str()).bind(key.workflow.as_str()).bind(number);
    query.execute(connection).await.on_table("tracking_cursor").map(|_| ())
}

/// Run to track: arrival number, id, and references to a repository, pull request and commit.
pub(crate) type TrackedRun = (i64, String, RunReferences);

/// Lists at most `limit` runs after an arrival number whose facts are still stored, in order of arrival.
pub(crate) async fn list_runs_after(
    connection: &mut Connection,
    key: &WorkflowKey,
    position: i64,
    limit: u32,
) -> Result<Vec<TrackedRun>> {
    const LOAD: &str = "
        SELECT runs.number, runs.run_id, run_facts.facts FROM runs JOIN run_facts USING (tenant, workflow, number)
        WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.number > $3 ORDER BY runs.number LIMIT $4";
    let rows: Vec<(i64, String, String)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(position)
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .on_table("run_facts")?;
    let read = |(number, run, facts): (i64, String, String)| {
        Ok((number, run, parse_references(key, number, &facts)?))
    };
    rows.into_iter().map(read).collect()
}

/// Stores the references of runs. The references of a later attempt replace those of an earlier one.
pub(crate) async fn store_runs(
    connection: &mut Connection,
    key: &WorkflowKey,
    runs: &[TrackedRun],
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO tracked_runs (tenant, run_id, workflow, repo, number, commit_id)
         SELECT $1, run_id, $2, repo, number, commit_id FROM ",
        rows_table!("new", "$3" "run_id", "$4" "repo", "$5" "number", "$6" "commit_id"),
        " WHERE true ON CONFLICT (tenant, run_id, workflow)
          DO UPDATE SET repo = excluded.repo, number = excluded.number, commit_id = excluded.commit_id"
    );
    let query = sqlx::query(STORE).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = bind_rows!(query, runs, |tracked| [
        tracked.1.as_str(),
        tracked.2.repo.as_deref(),
        tracked.2.number.map(to_i64),
        tracked.2.commit.as_deref(),
    ]);
    query.execute(connection).await.on_table("tracked_runs").map(|_| ())
}

/// Returns the ended pull requests that are linked to at least one of the runs.
pub(crate) async fn ended_pull_requests(
    connection: &mut Connection,
    key: &WorkflowKey,
    runs: &[TrackedRun],
) -> Result<Vec<PullRequestRef>> {
    const ENDED: &str = concat!(
        "SELECT DISTINCT run_links.repo, run_links.number FROM ",
        rows_table!("requested", "$3" "run_id"),
        lookup_join!(
            "run_links",
            "repo, number",
            "run_links.tenant = $1 AND run_links.workflow = $2 AND run_links.run_id = requested.run_id"
        ),
        " JOIN pull_requests AS one
              ON one.tenant = $1 AND one.repo = run_links.repo AND one.number = run_links.number
          WHERE one.ended ORDER BY run_links.repo, run_links.number"
    );
    let query = sqlx::query_as(ENDED).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = bind_rows!(query, runs, |tracked| [tracked.1.as_str()]);
    let rows: Vec<(String, i64)> = query.fetch_all(connection).await.on_table("run_links")?;
    rows.into_iter().map(|(repo, number)| pull_request_from_row(repo, number)).collect()
}

/// Rewinds tracking to before the first rewritten run of each workflow, because a higher attempt may name a
/// pull request that an earlier one did not. The workflows are locked.
pub(crate) async fn rewind_tracking(connection: &mut Connection, writes: &[RunWrite<'_>]) -> Result<()> {
    const AGAIN: &str = concat!(
        "UPDATE tracking_cursor SET number = requested.number FROM ",
        rows_table!("requested", "$1" "tenant", "$2" "workflow", "$3" "number"),
        " WHERE tracking_cursor.tenant = requested.tenant AND tracking_cursor.workflow = requested.workflow
              AND tracking_cursor.number > requested.number"
    );
    let places: Vec<_> = tracking_restart_points(writes).into_iter().collect();
    if places.is_empty() {
        return Ok(());
    }
    let query = bind_rows!(sqlx::query(AGAIN), places, |place| [place.0.0, place.0.1, to_i64(place.1)]);
    query.execute(connection).await.on_table("tracking_cursor").map(|_| ())
}
