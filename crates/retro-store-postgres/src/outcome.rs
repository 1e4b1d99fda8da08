//! What became of runs: the pull requests behind them.

use async_trait::async_trait;
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_core::outcome::RunOutcome;
use retro_core::report::WindowRun;
use retro_store::track::{LinkKey, RunLink};
use retro_store::{OutcomeStore, Result};
use retro_store_sql::integer;
use retro_store_sql::track::{LinkRow, OutcomeRow, link, noted, outcome};
use sqlx::PgConnection;

use crate::PostgresStore;
use crate::answer::OnTable;
use crate::count::column;

#[async_trait]
impl OutcomeStore for PostgresStore {
    async fn run_links(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        after: Option<&LinkKey>,
        limit: u32,
    ) -> Result<Vec<RunLink>> {
        // The first comparison is the one that an index answers.
        const LINKS: &str = "
            SELECT link.workflow, link.run_id, link.repo, link.number, pull_requests.facts
            FROM run_links AS link LEFT JOIN pull_requests USING (tenant, repo, number)
            WHERE link.tenant = $1 AND ($2::text IS NULL OR link.workflow = $2) AND link.run_id >= $3
                AND (link.run_id, link.workflow, link.repo, link.number) > ($3, $4, $5, $6)
            ORDER BY link.run_id, link.workflow, link.repo, link.number LIMIT $7";
        let (run, of, repo, number) = after.map_or(("", "", "", 0), |(run, of, one)| {
            (run.as_str(), of.as_str(), one.repo.as_str(), integer(one.number))
        });
        let rows: Vec<LinkRow> = sqlx::query_as(LINKS)
            .bind(tenant.as_str())
            .bind(workflow.map(Workflow::as_str))
            .bind(run)
            .bind(of)
            .bind(repo)
            .bind(number)
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on("run_links")?;
        rows.into_iter().map(|row| link(tenant, row)).collect()
    }
}

/// What became of a run, as it is known now, by pull request.
pub(crate) async fn outcomes_of(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    run: &str,
) -> Result<Vec<RunOutcome>> {
    const OF: &str = "
        SELECT link.repo, link.number, one.facts FROM run_links AS link
        JOIN pull_requests AS one ON one.tenant = link.tenant AND one.repo = link.repo AND one.number = link.number
        WHERE link.tenant = $1 AND link.workflow = $2 AND link.run_id = $3 ORDER BY link.repo, link.number";
    let rows: Vec<OutcomeRow> = sqlx::query_as(OF)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(run)
        .fetch_all(connection)
        .await
        .on("run_links")?;
    rows.into_iter().map(outcome).collect()
}

/// Notes for the runs of a window what is known of their pull requests.
pub(crate) async fn note_outcomes(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    window: &mut [WindowRun],
) -> Result<()> {
    const OF: &str = "
        SELECT link.run_id, link.repo, link.number, one.facts FROM run_links AS link
        JOIN pull_requests AS one ON one.tenant = link.tenant AND one.repo = link.repo AND one.number = link.number
        WHERE link.tenant = $1 AND link.workflow = $2 AND link.run_id = ANY($3::text[])
        ORDER BY link.run_id, link.repo, link.number";
    let rows = sqlx::query_as(OF)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(column(window, |one| one.run.as_str()))
        .fetch_all(connection)
        .await
        .on("run_links")?;
    noted(window, rows)
}
