//! Reads the conclusions of CI runs that belong to runs of agents.

use std::collections::BTreeMap;

use retro_core::check::{CheckConclusion, list_checks};
use retro_core::id::{RunId, Workflow, WorkflowKey};
use retro_core::report::WindowRun;
use retro_core::run::RunFacts;
use retro_store::Result;

use super::dialect::{Connection, OnTable, any_of, list_parameter};
use crate::at;
use crate::to_i64;

/// Maximum number of CI runs that are read at once. What exceeds it is left out, beginning with the last runs by id.
const ROWS_MAX: u64 = 5000;

/// Lists the conclusions that belong to each of the runs.
pub(crate) async fn list_checks_of(
    connection: &mut Connection,
    key: &WorkflowKey,
    runs: &[&str],
) -> Result<BTreeMap<String, Vec<CheckConclusion>>> {
    // CI runs are looked up in the tables behind `run_links`: the view would be computed for the whole tenant where it
    // is joined. Each of the three ways has an index. A run that names a commit is found by it even if no event has
    // said which pull request has that commit. The name of a CI run's workflow contains its repository; the core looks
    // closer.
    const CHECKS: &str = concat!(
        "WITH linked (run_id, repo, number) AS (
            SELECT run_id, repo, number FROM run_links WHERE tenant = $1 AND workflow = $2 AND run_id",
        any_of!("$3"),
        "), found (run_id, workflow, check_run) AS (
            SELECT own.run_id, ci.workflow, ci.run_id FROM tracked_runs AS own
            JOIN tracked_runs AS ci ON ci.tenant = own.tenant AND ci.commit_id = own.commit_id
            WHERE own.tenant = $1 AND own.workflow = $2 AND own.run_id",
        any_of!("$3"),
        " AND lower(ci.workflow) LIKE '%' || ci.repo || '/%'
            UNION
            SELECT linked.run_id, ci.workflow, ci.run_id FROM linked
            JOIN tracked_runs AS ci ON ci.tenant = $1 AND ci.repo = linked.repo AND ci.number = linked.number
            WHERE lower(ci.workflow) LIKE '%' || ci.repo || '/%'
            UNION
            SELECT linked.run_id, ci.workflow, ci.run_id FROM linked
            JOIN pull_request_commits AS head
                ON head.tenant = $1 AND head.repo = linked.repo AND head.number = linked.number
            JOIN tracked_runs AS ci ON ci.tenant = $1 AND ci.commit_id = head.commit_id AND ci.repo = head.repo
            WHERE lower(ci.workflow) LIKE '%' || ci.repo || '/%'
        )
        SELECT found.run_id, own.commit_id, found.workflow, found.check_run, run_facts.facts FROM found
        JOIN tracked_runs AS own ON own.tenant = $1 AND own.run_id = found.run_id AND own.workflow = $2
        JOIN runs ON runs.tenant = $1 AND runs.workflow = found.workflow AND runs.run_id = found.check_run
        JOIN run_facts ON run_facts.tenant = $1 AND run_facts.workflow = runs.workflow
            AND run_facts.number = runs.number
        WHERE NOT (found.workflow = $2 AND found.check_run = found.run_id)
        ORDER BY found.run_id, found.workflow, found.check_run LIMIT $4"
    );
    type CheckRow = (String, Option<String>, String, String, String);
    let rows: Vec<CheckRow> = sqlx::query_as(CHECKS)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(list_parameter(runs))
        .bind(to_i64(ROWS_MAX))
        .fetch_all(connection)
        .await
        .on_table("tracked_runs")?;
    type Candidates = (Option<String>, Vec<(Workflow, RunId, RunFacts)>);
    let mut candidates: BTreeMap<String, Candidates> = BTreeMap::new();
    for (run, commit, workflow, check, facts) in rows {
        let place = at("run_facts.facts", format!("{workflow}/{check}"));
        let candidate = (place.parse(&workflow)?, place.parse(&check)?, place.parse_json(&facts)?);
        candidates.entry(run).or_insert_with(|| (commit, Vec::new())).1.push(candidate);
    }
    let listed =
        candidates.into_iter().map(|(run, (commit, of_run))| (run, list_checks(commit.as_deref(), of_run)));
    Ok(listed.filter(|(_, checks)| !checks.is_empty()).collect())
}

/// Attaches the known conclusions to the runs of a window.
pub(crate) async fn attach_window_checks(
    connection: &mut Connection,
    key: &WorkflowKey,
    window: &mut [WindowRun],
) -> Result<()> {
    let runs: Vec<&str> = window.iter().map(|one| one.run.as_str()).collect();
    let mut checks = list_checks_of(connection, key, &runs).await?;
    for one in window {
        one.checks = checks.remove(one.run.as_str()).unwrap_or_default();
    }
    Ok(())
}
