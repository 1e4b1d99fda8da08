//! Stores the pull request references of runs and the tracking position of each workflow.

use retro_core::id::WorkflowKey;
use retro_core::outcome::{PullRequestRef, RunReferences};
use retro_store::Result;
use retro_store_sql::count::RunWrite;
use retro_store_sql::track::{parse_references, pull_request_from_row, tracking_restart_points};
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::convert::{self, OnTable};

/// Returns the tracking position of a workflow and the number of its recorded runs; both are 0 for an unknown
/// workflow. The tracking position is the arrival number of the last tracked run.
pub(crate) async fn load_position(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
) -> Result<(i64, i64)> {
    const REACHED: &str = "
        SELECT coalesce((SELECT number FROM tracking_cursor WHERE tenant = ?1 AND workflow = ?2), 0),
            coalesce((SELECT recorded FROM workflows WHERE tenant = ?1 AND workflow = ?2), 0)";
    let query = sqlx::query_as(REACHED).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    query.fetch_one(connection).await.on_table("tracking_cursor")
}

/// Stores the tracking position of a workflow: the arrival number of the last tracked run.
pub(crate) async fn store_position(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    number: i64,
) -> Result<()> {
    const REACH: &str = "
        INSERT INTO tracking_cursor (tenant, workflow, number) VALUES (?1, ?2, ?3)
        ON CONFLICT (tenant, workflow) DO UPDATE SET number = excluded.number";
    let query = sqlx::query(REACH).bind(key.tenant.as_str()).bind(key.workflow.as_str()).bind(number);
    query.execute(connection).await.on_table("tracking_cursor").map(|_| ())
}

/// Run to track: arrival number, id, and references to a repository, pull request and commit.
pub(crate) type TrackedRun = (i64, String, RunReferences);

/// Lists at most `limit` runs after an arrival number whose facts are still stored, in order of arrival.
pub(crate) async fn list_runs_after(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    position: i64,
    limit: u32,
) -> Result<Vec<TrackedRun>> {
    const LOAD: &str = "
        SELECT runs.number, runs.run_id, run_facts.facts FROM runs JOIN run_facts USING (tenant, workflow, number)
        WHERE runs.tenant = ?1 AND runs.workflow = ?2 AND runs.number > ?3 ORDER BY runs.number LIMIT ?4";
    let rows: Vec<(i64, String, String)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(position)
        .bind(limit)
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
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    runs: &[TrackedRun],
) -> Result<()> {
    const STORE: &str = "
        INSERT INTO tracked_runs (tenant, run_id, workflow, repo, number, commit_id)
        SELECT ?1, value ->> 0, ?2, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?3) WHERE true
        ON CONFLICT (tenant, run_id, workflow)
        DO UPDATE SET repo = excluded.repo, number = excluded.number, commit_id = excluded.commit_id";
    let rows: Value =
        runs.iter().map(|(_, run, says)| json!([run, says.repo, says.number, says.commit])).collect();
    let query = sqlx::query(STORE).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    query.bind(rows.to_string()).execute(connection).await.on_table("tracked_runs").map(|_| ())
}

/// Returns the ended pull requests that are linked to at least one of the runs.
pub(crate) async fn ended_pull_requests(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    runs: &[TrackedRun],
) -> Result<Vec<PullRequestRef>> {
    let runs: Vec<&str> = runs.iter().map(|(_, run, _)| run.as_str()).collect();
    list_ended_pull_requests(connection, key, &runs).await
}

async fn list_ended_pull_requests(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    runs: &[&str],
) -> Result<Vec<PullRequestRef>> {
    const ENDED: &str = "
        SELECT DISTINCT link.repo, link.number FROM json_each(?3) AS requested
        CROSS JOIN run_links AS link ON link.run_id = requested.value
        JOIN pull_requests AS one ON one.tenant = link.tenant AND one.repo = link.repo AND one.number = link.number
        WHERE link.tenant = ?1 AND link.workflow = ?2 AND one.ended ORDER BY link.repo, link.number";
    let rows: Vec<(String, i64)> = sqlx::query_as(ENDED)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(convert::to_json(&runs))
        .fetch_all(connection)
        .await
        .on_table("run_links")?;
    rows.into_iter().map(|(repo, number)| pull_request_from_row(repo, number)).collect()
}

/// Rewinds tracking to before the first rewritten run of each workflow, because a higher attempt may name a
/// pull request that an earlier one did not.
pub(crate) async fn rewind_tracking(
    connection: &mut SqliteConnection,
    writes: &[RunWrite<'_>],
) -> Result<()> {
    const AGAIN: &str = "
        UPDATE tracking_cursor SET number = requested.number
        FROM (SELECT value ->> 0 AS tenant, value ->> 1 AS workflow, value ->> 2 AS number FROM json_each(?1))
            AS requested
        WHERE tracking_cursor.tenant = requested.tenant AND tracking_cursor.workflow = requested.workflow
            AND tracking_cursor.number > requested.number";
    let places = tracking_restart_points(writes);
    if places.is_empty() {
        return Ok(());
    }
    let rows: Value =
        places.iter().map(|((tenant, workflow), number)| json!([tenant, workflow, number])).collect();
    sqlx::query(AGAIN)
        .bind(rows.to_string())
        .execute(connection)
        .await
        .on_table("tracking_cursor")
        .map(|_| ())
}
