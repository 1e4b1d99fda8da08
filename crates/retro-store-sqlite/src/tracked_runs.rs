//! Stores which runs name a repository, pull request or commit, and up to which run each workflow is tracked.

use retro_core::id::WorkflowKey;
use retro_core::outcome::{PullRequestRef, RunReferences};
use retro_store::Result;
use retro_store_sql::count::RunWrite;
use retro_store_sql::track::{parse_references, pull_request_from_row, tracking_restart_points};
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::convert::{self, OnTable};

/// Returns the arrival number of the last tracked run of a workflow, and the number of its recorded runs. Both are 0
/// for an unknown workflow.
pub(crate) async fn load_position(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
) -> Result<(i64, i64)> {
    const REACHED: &str = "
        SELECT coalesce((SELECT number FROM following WHERE tenant = ?1 AND workflow = ?2), 0),
            coalesce((SELECT recorded FROM workflows WHERE tenant = ?1 AND workflow = ?2), 0)";
    let query = sqlx::query_as(REACHED).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    query.fetch_one(connection).await.on_table("following")
}

/// Stores the arrival number of the last tracked run of a workflow.
pub(crate) async fn store_position(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    number: i64,
) -> Result<()> {
    const REACH: &str = "
        INSERT INTO following (tenant, workflow, number) VALUES (?1, ?2, ?3)
        ON CONFLICT (tenant, workflow) DO UPDATE SET number = excluded.number";
    let query = sqlx::query(REACH).bind(key.tenant.as_str()).bind(key.workflow.as_str()).bind(number);
    query.execute(connection).await.on_table("following").map(|_| ())
}

/// A run to track: its arrival number, its id, and the repository, pull request and commit that it names.
pub(crate) type TrackedRun = (i64, String, RunReferences);

/// Lists the runs after this arrival number whose facts are still stored, in order of arrival, at most `limit`.
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
        INSERT INTO followed_runs (tenant, run_id, workflow, repo, number, commit_id)
        SELECT ?1, value ->> 0, ?2, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?3) WHERE true
        ON CONFLICT (tenant, run_id, workflow)
        DO UPDATE SET repo = excluded.repo, number = excluded.number, commit_id = excluded.commit_id";
    let rows: Value =
        runs.iter().map(|(_, run, says)| json!([run, says.repo, says.number, says.commit])).collect();
    let query = sqlx::query(STORE).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    query.bind(rows.to_string()).execute(connection).await.on_table("followed_runs").map(|_| ())
}

/// Returns the ended pull requests that at least one of these runs belongs to.
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
        SELECT DISTINCT link.repo, link.number FROM json_each(?3) AS asked
        CROSS JOIN run_links AS link ON link.run_id = asked.value
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

/// Moves the tracking position of a workflow back before the first of these runs if it was tracked already, because a
/// higher attempt may name a pull request that an earlier one did not.
pub(crate) async fn rewind_tracking(
    connection: &mut SqliteConnection,
    writes: &[RunWrite<'_>],
) -> Result<()> {
    const AGAIN: &str = "
        UPDATE following SET number = asked.number
        FROM (SELECT value ->> 0 AS tenant, value ->> 1 AS workflow, value ->> 2 AS number FROM json_each(?1)) AS asked
        WHERE following.tenant = asked.tenant AND following.workflow = asked.workflow
            AND following.number > asked.number";
    let places = tracking_restart_points(writes);
    if places.is_empty() {
        return Ok(());
    }
    let rows: Value =
        places.iter().map(|((tenant, workflow), number)| json!([tenant, workflow, number])).collect();
    sqlx::query(AGAIN).bind(rows.to_string()).execute(connection).await.on_table("following").map(|_| ())
}
