//! How the runs of a workflow ended, by the version of the prompt that their agents were given.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use retro_core::id::{Workflow, WorkflowKey};
use retro_core::outcome::{PromptVersionTotals, total_prompt_versions};
use retro_http::{Api, Caller, PathId, Problem, QueryParams};
use retro_store::{OperatorStore, Result};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::calls::is_known_workflow;
use crate::http::{ApiError, ApiState, TEXT_COLUMNS, json_or_text};
use crate::text::{self, format_count};
use crate::text_table::{Layout, render_table};

/// Default number of newest runs in the table.
pub const PROMPT_RUNS_DEFAULT: u32 = 1000;

/// Maximum number of runs in the table. The facts of a run are a few kilobytes, so these are a few dozen megabytes.
pub const PROMPT_RUNS_MAX: u32 = 10_000;

/// Maximum number of versions in the table. An emitter that gives every run a version of its own does not need one.
const VERSIONS_MAX: usize = 100;

/// Runs of a workflow by the version of their prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PromptVersions {
    /// The workflow.
    #[schema(value_type = String)]
    pub workflow: Workflow,
    /// Number of newest counted runs that are totalled, of those whose facts are still stored.
    pub runs: u64,
    /// The versions, that of the newest run first; runs without a known version last.
    pub versions: Vec<PromptVersionTotals>,
    /// Number of further versions, which are left out.
    pub omitted: u64,
}

/// Totals the newest `runs` counted runs of a workflow by the version of their prompt. Returns `None` if the workflow
/// is unknown.
pub async fn find_prompt_versions(
    store: &dyn OperatorStore,
    key: &WorkflowKey,
    runs: u32,
) -> Result<Option<PromptVersions>> {
    let runs = store.list_prompt_runs(key, runs).await?;
    if runs.is_empty() && !is_known_workflow(store, key).await? {
        return Ok(None);
    }
    let mut versions = total_prompt_versions(&runs);
    let omitted = versions.len().saturating_sub(VERSIONS_MAX) as u64;
    versions.truncate(VERSIONS_MAX);
    Ok(Some(PromptVersions { workflow: key.workflow.clone(), runs: runs.len() as u64, versions, omitted }))
}

impl PromptVersions {
    /// Renders the table, with what it does not say.
    pub fn render(&self, layout: impl Into<Layout>) -> String {
        let workflow = text::single_line(self.workflow.as_str());
        if self.runs == 0 {
            return format!("no facts of a counted run of {workflow} are stored\n");
        }
        if self.versions.iter().all(|row| row.version.is_none()) {
            let runs = format_count(self.runs, "run");
            return format!(
                "none of the newest {runs} of {workflow} names the version of its prompt: emit `prompt_version`, or \
                 let `retro git install-hook` write it into commits\n"
            );
        }
        let head = [
            "prompt",
            "runs",
            "succeeded",
            "failed",
            "success",
            "tokens",
            "PRs",
            "changes",
            "merged",
            "closed",
            "reverted",
            "last run",
        ];
        let rows = self.versions.iter().map(version_cells).collect();
        let table = render_table(layout, head, rows);
        let omitted = match self.omitted {
            0 => String::new(),
            more => format!("{} not shown. ", format_count(more, "older version")),
        };
        format!(
            "{table}\n{omitted}Success is the share of runs that say how they ended; tokens are the median. The columns \
             from PRs on count runs: with a pull request, on which changes were requested, merged, closed unmerged, \
             reverted after the merge. Versions are not assigned by chance: other things changed with them, so a \
             difference is a comparison and no effect.\n"
        )
    }
}

/// Returns the cells of a version. The share is of the runs that say how they ended.
fn version_cells(row: &PromptVersionTotals) -> [String; 12] {
    let share = (row.succeeded * 1000).checked_div(row.succeeded + row.failed);
    [
        row.version.as_deref().map_or_else(|| "not known".to_owned(), text::single_line),
        row.runs.to_string(),
        row.succeeded.to_string(),
        row.failed.to_string(),
        share.map_or_else(String::new, |share| format!("{}.{} %", share / 10, share % 10)),
        row.tokens_median.map_or_else(String::new, |tokens| tokens.to_string()),
        row.with_pull_request.to_string(),
        row.changes_requested.to_string(),
        row.merged.to_string(),
        row.closed_unmerged.to_string(),
        row.reverted.to_string(),
        row.last_at.strftime("%Y-%m-%d").to_string(),
    ]
}

/// Adds the route.
pub(crate) fn add_read_routes(api: Api<ApiState>) -> Api<ApiState> {
    api.routes(routes!(get_prompt_versions))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct PromptsQuery {
    /// Number of newest counted runs [default: 1000].
    #[param(minimum = 1, maximum = 10000)]
    runs: Option<u32>,
}

/// Returns how the newest runs of a workflow and their pull requests ended, by the version of the prompt. Versions are
/// not assigned by chance, so a difference is no effect.
#[utoipa::path(get, path = "/v1/workflows/{workflow}/prompts", tag = "people", params(("workflow" = String, Path, description = "the name of the workflow"), PromptsQuery), responses((status = 200, content((PromptVersions = "application/json"), (String = "text/plain")))))]
async fn get_prompt_versions(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(name): PathId<String>,
    QueryParams(query): QueryParams<PromptsQuery>,
    headers: HeaderMap,
) -> std::result::Result<Response, ApiError> {
    let workflow =
        Workflow::new(name).map_err(|error| Problem::invalid_field("workflow", error.to_string()))?;
    let key = WorkflowKey { tenant, workflow };
    let runs = query.runs.unwrap_or(PROMPT_RUNS_DEFAULT);
    if !(1..=PROMPT_RUNS_MAX).contains(&runs) {
        let detail = format!("{runs} is not between 1 and {PROMPT_RUNS_MAX}");
        return Err(Problem::invalid_field("runs", detail).into());
    }
    let found = find_prompt_versions(&*operator.store, &key, runs).await?;
    let found = found.ok_or_else(|| Problem::not_found("workflow", &key.workflow))?;
    Ok(json_or_text(&headers, "Prompt versions", &found, |found| found.render(TEXT_COLUMNS)))
}

#[cfg(test)]
mod tests {
    use retro_core::id::{RunId, Tenant};
    use retro_core::outcome::PromptRun;
    use retro_core::run::RunOutcome;

    use super::*;
    use crate::world::World;

    fn run_of(nth: i64, version: Option<&str>) -> PromptRun {
        PromptRun {
            run: RunId::new(nth.to_string()).expect("a name"),
            received_at: jiff::Timestamp::from_second(1_795_000_000 + nth).expect("a time"),
            outcome: if nth % 2 == 0 { RunOutcome::Success } else { RunOutcome::Failure },
            event_version: version.map(str::to_owned),
            commit_versions: std::collections::BTreeSet::new(),
            tokens: Some(1000),
            pull_requests: Vec::new(),
        }
    }

    async fn find(runs: Vec<PromptRun>) -> PromptVersions {
        let world = World { prompt_runs: runs, ..World::default() };
        let key = WorkflowKey {
            tenant: Tenant::default_tenant(),
            workflow: Workflow::new("ship").expect("a name"),
        };
        find_prompt_versions(&world, &key, 200).await.expect("reading").expect("runs")
    }

    #[tokio::test]
    async fn the_table_says_that_a_difference_is_no_effect() {
        let found = find(vec![run_of(3, Some("2")), run_of(2, Some("1\u{1b}[2J")), run_of(1, None)]).await;
        let shown = found.render(Layout::Markdown);
        assert!(shown.contains("| 2 | 1 | 0 | 1 | 0.0 % | 1000 |"), "{shown}");
        assert!(shown.contains("| not known |") && shown.contains("no effect"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }

    #[tokio::test]
    async fn without_any_version_the_answer_says_how_to_name_one() {
        let shown = find(vec![run_of(1, None)]).await.render(Layout::Markdown);
        assert!(shown.contains("prompt_version"), "{shown}");
    }

    #[tokio::test]
    async fn a_version_for_each_run_does_not_make_an_endless_table() {
        let runs = (0..150).map(|nth| run_of(nth, Some(&format!("v{nth}")))).collect();
        let found = find(runs).await;
        assert_eq!((found.versions.len(), found.omitted), (VERSIONS_MAX, 50));
        assert!(found.render(Layout::Markdown).contains("50 older versions not shown"));
    }
}
