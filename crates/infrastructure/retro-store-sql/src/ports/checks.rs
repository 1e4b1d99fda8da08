//! Reads the conclusions of CI runs that belong to runs of agents.
//!
//! CI runs are looked up by the commit and the pull requests of each run, in the tables behind the view `run_links`: where
//! the view is joined, it is computed for the whole tenant.

use std::collections::{BTreeMap, BTreeSet};

use retro_core::check::{CheckConclusion, is_ci_workflow, list_checks};
use retro_core::id::WorkflowKey;
use retro_core::pull_request::PullRequestOutcome;
use retro_core::report::WindowRun;
use retro_core::run::RunFacts;
use retro_store::Result;

use super::dialect::{Connection, OnTable, bind_rows, lookup_join, rows_table};
use crate::{at, to_i64};

/// Maximum number of CI runs that are looked up at once. A window has a few for each of its runs.
const CHECKS_MAX: u64 = 5000;

/// Run of an agent with what its CI runs are found by.
#[derive(Default)]
struct CheckedRun {
    commit: Option<String>,
    pull_requests: BTreeSet<(String, i64)>,
    /// Workflow and id of each CI run.
    found: BTreeSet<(String, String)>,
}

/// Lists the conclusions that belong to each of the runs, which are given with their pull requests. At most
/// [`CHECKS_MAX`] CI runs are looked up in each way, so the last runs of a window with more may lack some.
pub(crate) async fn list_checks_of(
    connection: &mut Connection,
    key: &WorkflowKey,
    runs: impl IntoIterator<Item = (&str, &[PullRequestOutcome])>,
) -> Result<BTreeMap<String, Vec<CheckConclusion>>> {
    let mut checked: BTreeMap<String, CheckedRun> = BTreeMap::new();
    for (run, pull_requests) in runs {
        let named = pull_requests.iter().map(|one| &one.pull_request);
        let pull_requests = named.map(|one| (one.repo.clone(), to_i64(one.number))).collect();
        checked.insert(run.to_owned(), CheckedRun { pull_requests, ..CheckedRun::default() });
    }
    load_references(connection, key, &mut checked).await?;
    find_by_commit(connection, key, &mut checked).await?;
    find_by_pull_request(connection, key, &mut checked).await?;
    let facts = load_check_facts(connection, key, &checked).await?;
    let mut listed = BTreeMap::new();
    for (run, CheckedRun { commit, found, .. }) in checked {
        let mut candidates = Vec::new();
        for (workflow, check) in found {
            let place = at("run_facts.facts", format!("{workflow}/{check}"));
            let Some(facts) = facts.get(&(workflow.clone(), check.clone())) else { continue };
            let facts: RunFacts = place.parse_json(facts)?;
            candidates.push((place.parse(&workflow)?, place.parse(&check)?, facts));
        }
        let checks = list_checks(commit.as_deref(), candidates);
        if !checks.is_empty() {
            listed.insert(run, checks);
        }
    }
    Ok(listed)
}

/// Attaches the known conclusions to the runs of a window, whose pull requests are attached.
pub(crate) async fn attach_window_checks(
    connection: &mut Connection,
    key: &WorkflowKey,
    window: &mut [WindowRun],
) -> Result<()> {
    let runs = window.iter().map(|one| (one.run.as_str(), one.pull_requests.as_slice()));
    let mut checks = list_checks_of(connection, key, runs).await?;
    for one in window {
        one.checks = checks.remove(one.run.as_str()).unwrap_or_default();
    }
    Ok(())
}

/// Row of a run's references: run, repository, number of the pull request, commit.
type ReferencesRow = (String, Option<String>, Option<i64>, Option<String>);

/// Adds the commits that the runs name, and the pull requests that they name and of which no event has arrived.
async fn load_references(
    connection: &mut Connection,
    key: &WorkflowKey,
    checked: &mut BTreeMap<String, CheckedRun>,
) -> Result<()> {
    const OWN: &str = concat!(
        "SELECT requested.run_id, tracked_runs.repo, tracked_runs.number, tracked_runs.commit_id FROM ",
        rows_table!("requested", "$3" "run_id"),
        lookup_join!(
            "tracked_runs",
            "repo, number, commit_id",
            "tracked_runs.tenant = $1 AND tracked_runs.run_id = requested.run_id AND tracked_runs.workflow = $2"
        )
    );
    let query = sqlx::query_as(OWN).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = bind_rows!(query, checked, |one| [one.0.as_str()]);
    let rows: Vec<ReferencesRow> = query.fetch_all(connection).await.on_table("tracked_runs")?;
    for (run, repo, number, commit) in rows {
        let Some(one) = checked.get_mut(&run) else { continue };
        one.commit = commit;
        one.pull_requests.extend(repo.zip(number));
    }
    Ok(())
}

/// Row of a CI run, or of another run that shares a commit or pull request: run of the agent, workflow, repository, run.
type SharingRow = (String, String, Option<String>, String);

async fn find_by_commit(
    connection: &mut Connection,
    key: &WorkflowKey,
    checked: &mut BTreeMap<String, CheckedRun>,
) -> Result<()> {
    const SHARING: &str = concat!(
        "SELECT requested.run_id, tracked_runs.workflow, tracked_runs.repo, tracked_runs.run_id FROM ",
        rows_table!("requested", "$3" "run_id", "$4" "commit_id"),
        lookup_join!(
            "tracked_runs",
            "workflow, repo, run_id",
            "tracked_runs.tenant = $1 AND tracked_runs.commit_id = requested.commit_id
                AND tracked_runs.commit_id IS NOT NULL"
        ),
        " LIMIT $2"
    );
    let named: Vec<(&str, &str)> =
        checked.iter().filter_map(|(run, one)| Some((run.as_str(), one.commit.as_deref()?))).collect();
    if named.is_empty() {
        return Ok(());
    }
    let query = sqlx::query_as(SHARING).bind(key.tenant.as_str()).bind(to_i64(CHECKS_MAX));
    let query = bind_rows!(query, named, |one| [one.0, one.1]);
    let rows: Vec<SharingRow> = query.fetch_all(connection).await.on_table("tracked_runs")?;
    keep_ci_runs(checked, rows);
    Ok(())
}

/// Finds the CI runs that name the same pull request, or one of its commits.
async fn find_by_pull_request(
    connection: &mut Connection,
    key: &WorkflowKey,
    checked: &mut BTreeMap<String, CheckedRun>,
) -> Result<()> {
    const BY_NUMBER: &str = concat!(
        "SELECT requested.run_id, tracked_runs.workflow, tracked_runs.repo, tracked_runs.run_id FROM ",
        rows_table!("requested", "$3" "run_id", "$4" "repo", "$5" "number"),
        lookup_join!(
            "tracked_runs",
            "workflow, repo, run_id",
            "tracked_runs.tenant = $1 AND tracked_runs.repo = requested.repo
                AND tracked_runs.number = requested.number AND tracked_runs.number IS NOT NULL"
        ),
        " LIMIT $2"
    );
    const BY_COMMIT: &str = concat!(
        "SELECT requested.run_id, tracked_runs.workflow, tracked_runs.repo, tracked_runs.run_id FROM ",
        rows_table!("requested", "$3" "run_id", "$4" "repo", "$5" "number"),
        lookup_join!(
            "pull_request_commits",
            "commit_id",
            "pull_request_commits.tenant = $1 AND pull_request_commits.repo = requested.repo
                AND pull_request_commits.number = requested.number"
        ),
        lookup_join!(
            "tracked_runs",
            "workflow, repo, run_id",
            "tracked_runs.tenant = $1 AND tracked_runs.commit_id = pull_request_commits.commit_id
                AND tracked_runs.commit_id IS NOT NULL AND tracked_runs.repo = requested.repo"
        ),
        " LIMIT $2"
    );
    let named: Vec<(&str, &str, i64)> = checked
        .iter()
        .flat_map(|(run, one)| {
            one.pull_requests.iter().map(move |(repo, number)| (run.as_str(), repo.as_str(), *number))
        })
        .collect();
    if named.is_empty() {
        return Ok(());
    }
    let mut sharing: Vec<SharingRow> = Vec::new();
    for sql in [BY_NUMBER, BY_COMMIT] {
        let query = sqlx::query_as(sql).bind(key.tenant.as_str()).bind(to_i64(CHECKS_MAX));
        let query = bind_rows!(query, named, |one| [one.0, one.1, one.2]);
        let rows: Vec<SharingRow> = query.fetch_all(&mut *connection).await.on_table("tracked_runs")?;
        sharing.extend(rows);
    }
    keep_ci_runs(checked, sharing);
    Ok(())
}

fn keep_ci_runs(checked: &mut BTreeMap<String, CheckedRun>, rows: Vec<SharingRow>) {
    for (run, workflow, repo, check) in rows {
        let is_ci =
            repo.zip(workflow.parse().ok()).is_some_and(|(repo, workflow)| is_ci_workflow(&workflow, &repo));
        if let Some(one) = checked.get_mut(&run).filter(|_| is_ci) {
            one.found.insert((workflow, check));
        }
    }
}

/// Loads the facts of the CI runs that were found, as far as they are still stored, by workflow and run.
async fn load_check_facts(
    connection: &mut Connection,
    key: &WorkflowKey,
    checked: &BTreeMap<String, CheckedRun>,
) -> Result<BTreeMap<(String, String), String>> {
    const FACTS: &str = concat!(
        "SELECT requested.workflow, requested.run_id, run_facts.facts FROM ",
        rows_table!("requested", "$2" "workflow", "$3" "run_id"),
        lookup_join!(
            "runs",
            "number",
            "runs.tenant = $1 AND runs.workflow = requested.workflow AND runs.run_id = requested.run_id"
        ),
        lookup_join!(
            "run_facts",
            "facts",
            "run_facts.tenant = $1 AND run_facts.workflow = requested.workflow AND run_facts.number = runs.number"
        )
    );
    let found: BTreeSet<&(String, String)> = checked.values().flat_map(|one| &one.found).collect();
    if found.is_empty() {
        return Ok(BTreeMap::new());
    }
    let query = sqlx::query_as(FACTS).bind(key.tenant.as_str());
    let query = bind_rows!(query, found, |one| [one.0.as_str(), one.1.as_str()]);
    let rows: Vec<(String, String, String)> = query.fetch_all(connection).await.on_table("run_facts")?;
    Ok(rows.into_iter().map(|(workflow, run, facts)| ((workflow, run), facts)).collect())
}
