//! Stores the pull request references of runs and the tracking position of each workflow.

use retro_core::id::WorkflowKey;
use retro_core::outcome::{PullRequestRef, RunReferences};
use retro_store::Result;
use retro_store_sql::count::RunWrite;
use retro_store_sql::to_i64;
use retro_store_sql::track::{parse_references, pull_request_from_row, tracking_restart_points};
use sqlx::PgConnection;

use crate::convert::OnTable;
use crate::count::map_column;

/// Returns the tracking position of a workflow and the number of its recorded runs; both are 0 for an unknown
/// workflow. The tracking position is the arrival number of the last tracked run.
pub(crate) async fn load_position(connection: &mut PgConnection, key: &WorkflowKey) -> Result<(i64, i64)> {
    const REACHED: &str = "
        SELECT coalesce((SELECT number FROM tracking_cursor WHERE tenant = $1 AND workflow = $2), 0),
            coalesce((SELECT recorded FROM workflows WHERE tenant = $1 AND workflow = $2), 0)";
    let query = sqlx::query_as(REACHED).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    query.fetch_one(connection).await.on_table("tracking_cursor")
}

/// Stores the tracking position of a workflow: the arrival number of the last tracked run.
pub(crate) async fn store_position(
    connection: &mut PgConnection,
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
    connection: &mut PgConnection,
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
    connection: &mut PgConnection,
    key: &WorkflowKey,
    runs: &[TrackedRun],
) -> Result<()> {
    const STORE: &str = "
        INSERT INTO tracked_runs (tenant, run_id, workflow, repo, number, commit_id)
        SELECT $1, run_id, $2, repo, number, commit_id
        FROM unnest($3::text[], $4::text[], $5::bigint[], $6::text[]) AS new (run_id, repo, number, commit_id)
        ON CONFLICT (tenant, run_id, workflow)
        DO UPDATE SET repo = excluded.repo, number = excluded.number, commit_id = excluded.commit_id";
    sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(map_column(runs, |(_, run, _)| run.as_str()))
        .bind(map_column(runs, |(_, _, says)| says.repo.as_deref()))
        .bind(map_column(runs, |(_, _, says)| says.number.map(to_i64)))
        .bind(map_column(runs, |(_, _, says)| says.commit.as_deref()))
        .execute(connection)
        .await
        .on_table("tracked_runs")
        .map(|_| ())
}

/// Returns the ended pull requests that are linked to at least one of the runs.
pub(crate) async fn ended_pull_requests(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    runs: &[TrackedRun],
) -> Result<Vec<PullRequestRef>> {
    let runs: Vec<&str> = runs.iter().map(|(_, run, _)| run.as_str()).collect();
    list_ended_pull_requests(connection, key, &runs).await
}

async fn list_ended_pull_requests(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    runs: &[&str],
) -> Result<Vec<PullRequestRef>> {
    const ENDED: &str = "
        SELECT DISTINCT link.repo, link.number FROM run_links AS link
        JOIN pull_requests AS one ON one.tenant = link.tenant AND one.repo = link.repo AND one.number = link.number
        WHERE link.tenant = $1 AND link.workflow = $2 AND link.run_id = ANY($3::text[]) AND one.ended
        ORDER BY link.repo, link.number";
    let rows: Vec<(String, i64)> = sqlx::query_as(ENDED)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(runs)
        .fetch_all(connection)
        .await
        .on_table("run_links")?;
    rows.into_iter().map(|(repo, number)| pull_request_from_row(repo, number)).collect()
}

/// Rewinds tracking to before the first rewritten run of each workflow, because a higher attempt may name a
/// pull request that an earlier one did not. The workflows are locked.
pub(crate) async fn rewind_tracking(connection: &mut PgConnection, writes: &[RunWrite<'_>]) -> Result<()> {
    const AGAIN: &str = "
        UPDATE tracking_cursor SET number = requested.number
        FROM unnest($1::text[], $2::text[], $3::bigint[]) AS requested (tenant, workflow, number)
        WHERE tracking_cursor.tenant = requested.tenant AND tracking_cursor.workflow = requested.workflow
            AND tracking_cursor.number > requested.number";
    let places: Vec<_> = tracking_restart_points(writes).into_iter().collect();
    if places.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(AGAIN)
        .bind(map_column(&places, |((tenant, _), _)| *tenant))
        .bind(map_column(&places, |((_, workflow), _)| *workflow))
        .bind(map_column(&places, |(_, number)| to_i64(*number)));
    query.execute(connection).await.on_table("tracking_cursor").map(|_| ())
}
