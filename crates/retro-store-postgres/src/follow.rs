//! Following runs: which of them say where they belong, and how far each workflow was looked through.

use retro_core::id::WorkflowKey;
use retro_core::outcome::{PullRequestRef, RunReferences};
use retro_store::Result;
use retro_store_sql::count::RunWrite;
use retro_store_sql::integer;
use retro_store_sql::track::{again, pull_request, references};
use sqlx::PgConnection;

use crate::answer::OnTable;
use crate::count::column;

/// How far a workflow is followed, and how many runs were recorded in it.
pub(crate) async fn reached(connection: &mut PgConnection, key: &WorkflowKey) -> Result<(i64, i64)> {
    const REACHED: &str = "
        SELECT coalesce((SELECT number FROM following WHERE tenant = $1 AND workflow = $2), 0),
            coalesce((SELECT recorded FROM workflows WHERE tenant = $1 AND workflow = $2), 0)";
    let query = sqlx::query_as(REACHED).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    query.fetch_one(connection).await.on("following")
}

/// Notes how far it is followed.
pub(crate) async fn reach(connection: &mut PgConnection, key: &WorkflowKey, number: i64) -> Result<()> {
    const REACH: &str = "
        INSERT INTO following (tenant, workflow, number) VALUES ($1, $2, $3)
        ON CONFLICT (tenant, workflow) DO UPDATE SET number = excluded.number";
    let query = sqlx::query(REACH).bind(key.tenant.as_str()).bind(key.workflow.as_str()).bind(number);
    query.execute(connection).await.on("following").map(|_| ())
}

/// Place of arrival, run, and where it belongs.
pub(crate) type FollowedRun = (i64, String, RunReferences);

/// The runs after this place of arrival that still have details, in that order.
pub(crate) async fn runs_behind(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    reached: i64,
    limit: u32,
) -> Result<Vec<FollowedRun>> {
    const LOAD: &str = "
        SELECT runs.number, runs.run_id, run_facts.facts FROM runs JOIN run_facts USING (tenant, workflow, number)
        WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.number > $3 ORDER BY runs.number LIMIT $4";
    let rows: Vec<(i64, String, String)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(reached)
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .on("run_facts")?;
    let read =
        |(number, run, facts): (i64, String, String)| Ok((number, run, references(key, number, &facts)?));
    rows.into_iter().map(read).collect()
}

/// Keeps what runs say of where they belong, as it was said last.
pub(crate) async fn store_runs(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    runs: &[FollowedRun],
) -> Result<()> {
    const STORE: &str = "
        INSERT INTO followed_runs (tenant, run_id, workflow, repo, number, commit_id)
        SELECT $1, run_id, $2, repo, number, commit_id
        FROM unnest($3::text[], $4::text[], $5::bigint[], $6::text[]) AS new (run_id, repo, number, commit_id)
        ON CONFLICT (tenant, run_id, workflow)
        DO UPDATE SET repo = excluded.repo, number = excluded.number, commit_id = excluded.commit_id";
    sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(column(runs, |(_, run, _)| run.as_str()))
        .bind(column(runs, |(_, _, says)| says.repo.as_deref()))
        .bind(column(runs, |(_, _, says)| says.number.map(integer)))
        .bind(column(runs, |(_, _, says)| says.commit.as_deref()))
        .execute(connection)
        .await
        .on("followed_runs")
        .map(|_| ())
}

/// The pull requests that have ended and to which one of these runs belongs.
pub(crate) async fn ended_behind(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    runs: &[FollowedRun],
) -> Result<Vec<PullRequestRef>> {
    let runs: Vec<&str> = runs.iter().map(|(_, run, _)| run.as_str()).collect();
    ended_of(connection, key, &runs).await
}

async fn ended_of(
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
        .on("run_links")?;
    rows.into_iter().map(|(repo, number)| pull_request(repo, number)).collect()
}

/// Has runs followed once more that were followed before and say something else now, with those that came after them: a
/// higher attempt may name the pull request that an earlier one did not know yet. Their workflows are locked.
pub(crate) async fn follow_again(connection: &mut PgConnection, writes: &[RunWrite<'_>]) -> Result<()> {
    const AGAIN: &str = "
        UPDATE following SET number = asked.number
        FROM unnest($1::text[], $2::text[], $3::bigint[]) AS asked (tenant, workflow, number)
        WHERE following.tenant = asked.tenant AND following.workflow = asked.workflow
            AND following.number > asked.number";
    let places: Vec<_> = again(writes).into_iter().collect();
    if places.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(AGAIN)
        .bind(column(&places, |((tenant, _), _)| *tenant))
        .bind(column(&places, |((_, workflow), _)| *workflow))
        .bind(column(&places, |(_, number)| integer(*number)));
    query.execute(connection).await.on("following").map(|_| ())
}
