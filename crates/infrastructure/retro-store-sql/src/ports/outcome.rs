//! Reads the links from runs to pull requests, the outcomes of these pull requests, and the prompt versions in their
//! commits.

use async_trait::async_trait;
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_core::outcome::PromptRun;
use retro_core::pull_request::PullRequestOutcome;
use retro_core::report::WindowRun;
use retro_store::track::{RunLink, RunLinkKey};
use retro_store::{OutcomeStore, Result};

use super::dialect::{Connection, OnTable, Store, any_of, list_parameter, lookup_join};
use crate::rows::track::{
    CountedRunRow, LinkRow, OutcomeRow, RunOutcomeRow, attach_outcomes, link_from_row, outcome_from_row,
    prompt_runs,
};
use crate::to_i64;

#[async_trait]
impl OutcomeStore for Store {
    async fn list_run_links(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        after: Option<&RunLinkKey>,
        limit: u32,
    ) -> Result<Vec<RunLink>> {
        // `run_id >= …` is redundant, but only this comparison uses the index.
        const LINKS: &str = "
            SELECT link.workflow, link.run_id, link.repo, link.number, pull_requests.facts
            FROM run_links AS link LEFT JOIN pull_requests USING (tenant, repo, number)
            WHERE link.tenant = $1 AND ($2 IS NULL OR link.workflow = $2) AND link.run_id >= $3
                AND (link.run_id, link.workflow, link.repo, link.number) > ($3, $4, $5, $6)
            ORDER BY link.run_id, link.workflow, link.repo, link.number LIMIT $7";
        let (run, of, repo, number) = after.map_or(("", "", "", 0), |(run, of, one)| {
            (run.as_str(), of.as_str(), one.repo.as_str(), to_i64(one.number))
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
            .on_table("run_links")?;
        rows.into_iter().map(|row| link_from_row(tenant, row)).collect()
    }

    async fn list_prompt_runs(&self, key: &WorkflowKey, limit: u32) -> Result<Vec<PromptRun>> {
        const RUNS: &str = "
            SELECT runs.run_id, runs.received_ms, run_facts.facts FROM runs
            JOIN run_facts USING (tenant, workflow, number)
            WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.ordinal IS NOT NULL
            ORDER BY runs.ordinal DESC LIMIT $3";
        let mut snapshot = self.begin_snapshot().await?;
        let runs: Vec<CountedRunRow> = sqlx::query_as(RUNS)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(i64::from(limit))
            .fetch_all(&mut *snapshot)
            .await
            .on_table("runs")?;
        let ids: Vec<&str> = runs.iter().map(|(run, _, _)| run.as_str()).collect();
        let versions = list_commit_prompt_versions(&mut snapshot, key, &ids).await?;
        let links = list_outcomes_of_runs(&mut snapshot, key, &ids).await?;
        prompt_runs(key, runs, versions, links)
    }
}

/// Lists the known pull request outcomes of a run, sorted by pull request.
pub(crate) async fn list_outcomes_of(
    connection: &mut Connection,
    key: &WorkflowKey,
    run: &str,
) -> Result<Vec<PullRequestOutcome>> {
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
        .on_table("run_links")?;
    rows.into_iter().map(outcome_from_row).collect()
}

/// Lists the prompt versions in commits that name the runs, as rows of run id and version.
pub(crate) async fn list_commit_prompt_versions(
    connection: &mut Connection,
    key: &WorkflowKey,
    runs: &[&str],
) -> Result<Vec<(String, String)>> {
    const VERSIONS: &str = concat!(
        "SELECT run_id, prompt_version FROM run_prompt_versions
         WHERE tenant = $1 AND workflow = $2 AND run_id",
        any_of!("$3")
    );
    sqlx::query_as(VERSIONS)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(list_parameter(runs))
        .fetch_all(connection)
        .await
        .on_table("run_prompt_versions")
}

/// Attaches the known pull request outcomes to the runs of a window.
pub(crate) async fn attach_window_outcomes(
    connection: &mut Connection,
    key: &WorkflowKey,
    window: &mut [WindowRun],
) -> Result<()> {
    let runs: Vec<&str> = window.iter().map(|one| one.run.as_str()).collect();
    let rows = list_outcomes_of_runs(connection, key, &runs).await?;
    attach_outcomes(window, rows)
}

/// Lists the known pull requests of runs of a workflow, sorted by run and pull request.
async fn list_outcomes_of_runs(
    connection: &mut Connection,
    key: &WorkflowKey,
    runs: &[&str],
) -> Result<Vec<RunOutcomeRow>> {
    const OF: &str = concat!(
        "SELECT run_links.run_id, run_links.repo, run_links.number, pull_requests.facts FROM run_links",
        lookup_join!(
            "pull_requests",
            "facts",
            "pull_requests.tenant = run_links.tenant AND pull_requests.repo = run_links.repo
                AND pull_requests.number = run_links.number"
        ),
        " WHERE run_links.tenant = $1 AND run_links.workflow = $2 AND run_links.run_id",
        any_of!("$3"),
        " ORDER BY run_links.run_id, run_links.repo, run_links.number"
    );
    sqlx::query_as(OF)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(list_parameter(runs))
        .fetch_all(connection)
        .await
        .on_table("run_links")
}
