//! Following runs: which of them say where they belong, and how far each workflow was looked through.

use retro_core::id::WorkflowKey;
use retro_core::outcome::{PullRequestRef, RunReferences};
use retro_store::Result;
use retro_store_sql::count::RunWrite;
use retro_store_sql::track::{again, pull_request, references};
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::damage::{self, OnTable};

/// How far a workflow is followed, and how many runs were recorded in it.
pub(crate) async fn reached(connection: &mut SqliteConnection, key: &WorkflowKey) -> Result<(i64, i64)> {
    const REACHED: &str = "
        SELECT coalesce((SELECT number FROM following WHERE tenant = ?1 AND workflow = ?2), 0),
            coalesce((SELECT recorded FROM workflows WHERE tenant = ?1 AND workflow = ?2), 0)";
    let query = sqlx::query_as(REACHED).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    query.fetch_one(connection).await.on("following")
}

/// Notes how far it is followed.
pub(crate) async fn reach(connection: &mut SqliteConnection, key: &WorkflowKey, number: i64) -> Result<()> {
    const REACH: &str = "
        INSERT INTO following (tenant, workflow, number) VALUES (?1, ?2, ?3)
        ON CONFLICT (tenant, workflow) DO UPDATE SET number = excluded.number";
    let query = sqlx::query(REACH).bind(key.tenant.as_str()).bind(key.workflow.as_str()).bind(number);
    query.execute(connection).await.on("following").map(|_| ())
}

/// Place of arrival, run, and where it belongs.
pub(crate) type FollowedRun = (i64, String, RunReferences);

/// The runs after this place of arrival that still have details, in that order.
pub(crate) async fn runs_behind(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    reached: i64,
    limit: u32,
) -> Result<Vec<FollowedRun>> {
    const LOAD: &str = "
        SELECT runs.number, runs.run_id, run_facts.facts FROM runs JOIN run_facts USING (tenant, workflow, number)
        WHERE runs.tenant = ?1 AND runs.workflow = ?2 AND runs.number > ?3 ORDER BY runs.number LIMIT ?4";
    let rows: Vec<(i64, String, String)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(reached)
        .bind(limit)
        .fetch_all(connection)
        .await
        .on("run_facts")?;
    let read =
        |(number, run, facts): (i64, String, String)| Ok((number, run, references(key, number, &facts)?));
    rows.into_iter().map(read).collect()
}

/// Keeps what runs say of where they belong, as it was said last.
pub(crate) async fn store_runs(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    runs: &[FollowedRun],
) -> Result<()> {
    const STORE: &str = "
        INSERT INTO followed_runs (tenant, run_id, workflow, repo, number, commit_id)
        SELECT ?1, value ->> 0, ?2, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?3) WHERE true
        ON CONFLICT (tenant, run_id, workflow)
        DO UPDATE SET repo = excluded.repo, number = excluded.number, commit_id = excluded.commit_id";
    let rows: Value =
        runs.iter().map(|(_, run, says)| json!([run, says.repo, says.number, says.commit])).collect();
    let query = sqlx::query(STORE).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    query.bind(rows.to_string()).execute(connection).await.on("followed_runs").map(|_| ())
}

/// The pull requests that have ended and to which one of these runs belongs.
pub(crate) async fn ended_behind(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    runs: &[FollowedRun],
) -> Result<Vec<PullRequestRef>> {
    let runs: Vec<&str> = runs.iter().map(|(_, run, _)| run.as_str()).collect();
    ended_of(connection, key, &runs).await
}

async fn ended_of(
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
        .bind(damage::json(&runs))
        .fetch_all(connection)
        .await
        .on("run_links")?;
    rows.into_iter().map(|(repo, number)| pull_request(repo, number)).collect()
}

/// Has runs followed once more that were followed before and say something else now, with those that came after them: a
/// higher attempt may name the pull request that an earlier one did not know yet.
pub(crate) async fn follow_again(connection: &mut SqliteConnection, writes: &[RunWrite<'_>]) -> Result<()> {
    const AGAIN: &str = "
        UPDATE following SET number = asked.number
        FROM (SELECT value ->> 0 AS tenant, value ->> 1 AS workflow, value ->> 2 AS number FROM json_each(?1)) AS asked
        WHERE following.tenant = asked.tenant AND following.workflow = asked.workflow
            AND following.number > asked.number";
    let places = again(writes);
    if places.is_empty() {
        return Ok(());
    }
    let rows: Value =
        places.iter().map(|((tenant, workflow), number)| json!([tenant, workflow, number])).collect();
    sqlx::query(AGAIN).bind(rows.to_string()).execute(connection).await.on("following").map(|_| ())
}
