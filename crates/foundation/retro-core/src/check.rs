//! Conclusions of CI runs, as far as they belong to the run of an agent.
//!
//! A finished GitHub workflow is recorded as a run of the workflow `host/owner/name/file`, and linked to pull requests
//! like any other. What it concludes is about a commit: it belongs to the agent's runs that name the same commit, and to
//! those of the same pull request that name none. Nothing is stored for it, so the order of arrival does not matter.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{RunId, Workflow};
use crate::pull_request::normalize_commit;
use crate::run::{RunFacts, RunOutcome};

/// Maximum number of conclusions that are listed for one run. A repository has a handful of CI workflows.
pub const CHECKS_NOTED_MAX: usize = 16;

/// Conclusion of the newest run of a CI workflow that belongs to a run of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CheckConclusion {
    /// Name of the CI workflow, such as `github.com/acme/shop/ci.yml`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub workflow: Workflow,
    /// Id of the CI run.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub run: RunId,
    /// Attempt of the CI run that concluded.
    pub attempt: u32,
    /// Outcome of the CI run.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub outcome: RunOutcome,
    /// Time at which the CI run finished; `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub finished_at: Option<Timestamp>,
}

/// Returns `true` if the run is one of a CI workflow.
pub fn is_ci_run(workflow: &Workflow, facts: &RunFacts) -> bool {
    facts.repo.as_deref().is_some_and(|repo| is_ci_workflow(workflow, repo))
}

/// Returns `true` if this is a CI workflow of the repository, by the name that the bridge gives such a workflow,
/// `host/owner/name/file`: no workflow engine names its workflow after a host and the repository of the run. `repo` may
/// begin with the host.
pub fn is_ci_workflow(workflow: &Workflow, repo: &str) -> bool {
    let name = workflow.as_str();
    let is_below = |name: &str| {
        name.get(..repo.len()).is_some_and(|start| start.eq_ignore_ascii_case(repo))
            && name[repo.len()..].starts_with('/')
    };
    let begins_with_host = |text: &str| text.split_once('/').is_some_and(|(host, _)| host.contains('.'));
    // Either the repository names its host, or the workflow has one before it.
    (begins_with_host(repo) && is_below(name))
        || name.split_once('/').is_some_and(|(host, rest)| host.contains('.') && is_below(rest))
}

/// Lists the conclusions that belong to a run, among the runs that share its commit or its pull request: of each CI
/// workflow the newest, sorted by workflow, at most [`CHECKS_NOTED_MAX`]. `commit` is the commit that the run names.
pub fn list_checks(
    commit: Option<&str>,
    candidates: impl IntoIterator<Item = (Workflow, RunId, RunFacts)>,
) -> Vec<CheckConclusion> {
    let commit = commit.map(normalize_commit);
    let belongs = |facts: &RunFacts| match (&commit, &facts.commit) {
        (Some(own), Some(checked)) => *own == normalize_commit(checked),
        // The run, or CI, says only which pull request it belongs to.
        _ => true,
    };
    let mut newest: Vec<CheckConclusion> = Vec::new();
    for (workflow, run, facts) in candidates {
        if !is_ci_run(&workflow, &facts) || !belongs(&facts) {
            continue;
        }
        let RunFacts { attempt, outcome, finished_at, .. } = facts;
        let check = CheckConclusion { workflow, run, attempt, outcome, finished_at };
        let is_newer = |known: &CheckConclusion| {
            (check.finished_at, check.attempt, &check.run) > (known.finished_at, known.attempt, &known.run)
        };
        match newest.iter_mut().find(|known| known.workflow == check.workflow) {
            Some(known) if is_newer(known) => *known = check,
            Some(_) => {}
            None => newest.push(check),
        }
    }
    newest.sort_by(|a, b| a.workflow.cmp(&b.workflow));
    newest.truncate(CHECKS_NOTED_MAX);
    newest
}

#[cfg(test)]
mod tests;
