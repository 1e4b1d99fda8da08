//! Recurring failures of a workflow that agents are not told about.

use jiff::Timestamp;
use retro_core::calls::{MissedFailure, SummaryCoverage};
use retro_core::id::{Epoch, RetrospectiveId, Workflow, WorkflowKey};
use retro_core::report::Report;
use retro_core::retrospective::RetrospectiveState;
use retro_store::{OperatorStore, Result, RetrospectiveRow};
use serde::Serialize;
use utoipa::ToSchema;

use super::describe::{describe_coverage, describe_failure, describe_frequency, explain_reason};
use crate::http::LIST_MAX;
use crate::text;

/// Numbers of newest retrospectives among which a closed automatic one is searched. Open, failed and manual ones
/// are rare, so the first page nearly always has it.
const SEARCH_PAGES: [u32; 2] = [20, LIST_MAX];

/// Recurring failures of a workflow that no memory which agents get is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct MissedFailures {
    /// The workflow.
    #[schema(value_type = String)]
    pub workflow: Workflow,
    /// Window in which they were counted; null if no retrospective has counted calls yet.
    #[schema(required = true)]
    pub counted: Option<CountedWindow>,
    /// The failures, those in most runs first.
    pub failures: Vec<ExplainedFailure>,
}

/// Window of the newest closed automatic retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CountedWindow {
    /// Id of the retrospective.
    #[schema(value_type = String)]
    pub retrospective: RetrospectiveId,
    /// Number of the retrospective in its workflow.
    #[schema(value_type = u64)]
    pub epoch: Epoch,
    /// Time when it closed, RFC 3339. The reasons are those of this time.
    #[schema(value_type = String)]
    pub closed_at: Timestamp,
    /// Number of runs, and of those whose calls were counted.
    pub coverage: SummaryCoverage,
}

/// Failure without a memory, with a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ExplainedFailure {
    /// The failure and the reason.
    #[serde(flatten)]
    pub missed: MissedFailure,
    /// The reason in one sentence, with what a person can do.
    pub explanation: String,
}

/// Loads the failures without a memory from the report of a workflow's newest closed automatic retrospective.
/// Returns `None` if the workflow is unknown.
pub async fn find_missed_failures(
    store: &dyn OperatorStore,
    key: &WorkflowKey,
) -> Result<Option<MissedFailures>> {
    match find_newest_report(store, key).await? {
        Some(report) => Ok(Some(MissedFailures::from_report(&report))),
        None if super::known::is_known_workflow(store, key).await? => {
            Ok(Some(MissedFailures::not_counted(key.workflow.clone())))
        }
        None => Ok(None),
    }
}

async fn find_newest_report(store: &dyn OperatorStore, key: &WorkflowKey) -> Result<Option<Report>> {
    for limit in SEARCH_PAGES {
        let rows = store.list_retrospectives(&key.tenant, Some(&key.workflow), limit).await?;
        if let Some(row) = rows.iter().find(|row| is_closed_automatic(row)) {
            return store.find_report(&key.tenant, row.retrospective.id).await;
        }
        // A short page is the last one.
        if rows.len() < limit as usize {
            break;
        }
    }
    Ok(None)
}

fn is_closed_automatic(row: &RetrospectiveRow) -> bool {
    row.retrospective.state == RetrospectiveState::Closed && row.retrospective.manual_request.is_none()
}

impl MissedFailures {
    fn not_counted(workflow: Workflow) -> Self {
        Self { workflow, counted: None, failures: Vec::new() }
    }

    fn from_report(report: &Report) -> Self {
        let Some(calls) = &report.calls else { return Self::not_counted(report.workflow.clone()) };
        let explain = |missed: &MissedFailure| ExplainedFailure {
            missed: missed.clone(),
            explanation: explain_reason(&missed.reason, &report.tenant),
        };
        Self {
            workflow: report.workflow.clone(),
            counted: Some(CountedWindow {
                retrospective: report.id,
                epoch: report.epoch,
                closed_at: report.closed_at,
                coverage: calls.coverage,
            }),
            failures: calls.missed.iter().map(explain).collect(),
        }
    }

    /// Renders the failures for a terminal.
    pub fn render_text(&self) -> String {
        let workflow = text::single_line(self.workflow.as_str());
        let Some(counted) = &self.counted else {
            return format!("no retrospective of {workflow} has counted calls yet\n");
        };
        let one = |failure: &ExplainedFailure| {
            let about = &failure.missed.failure;
            let (name, frequency) = (describe_failure(about), describe_frequency(about));
            format!("• {name}\n  {frequency}\n  {}\n", failure.explanation)
        };
        let failures: Vec<_> = self.failures.iter().map(one).collect();
        let failures = if failures.is_empty() {
            "no recurring failure is without a memory\n".to_owned()
        } else {
            failures.join("\n")
        };
        format!(
            "Failures of {workflow} without a memory, as of retrospective {} ({})\n{}\n\n{failures}",
            counted.epoch,
            text::format_timestamp(counted.closed_at),
            describe_coverage(counted.coverage)
        )
    }
}
