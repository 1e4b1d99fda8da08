//! What the runs of a workflow called: statistics of the operations, and recurring failures that agents are not
//! told about.
//!
//! | Command | File | Operation |
//! |---|---|---|
//! | `retro workflows stats` | `statistics` | [`find_workflow_statistics`] |
//! | `retro workflows missed` | `missed` | [`find_missed_failures`] |
//!
//! The names of tools and the errors are text from runs. `describe` makes them printable; a report in Markdown
//! escapes the same sentences.

pub(crate) mod describe;
mod missed;
mod routes;
mod statistics;

use retro_core::id::WorkflowKey;
use retro_http::Api;
use retro_store::{OperatorStore, Result};
use utoipa_axum::routes;

use crate::http::ApiState;

pub use missed::{CountedWindow, ExplainedFailure, MissedFailures, find_missed_failures};
pub use statistics::{
    NewestRuns, RecentRuns, STATISTICS_RUNS_DEFAULT, STATISTICS_RUNS_MAX, UnreadableReason,
    WorkflowStatistics, find_workflow_statistics,
};

/// Adds the routes about the calls of a workflow.
pub(crate) fn add_read_routes(api: Api<ApiState>) -> Api<ApiState> {
    api.routes(routes!(routes::get_workflow_statistics)).routes(routes!(routes::get_missed_failures))
}

/// Returns `true` if the tenant has the workflow.
async fn is_known_workflow(store: &dyn OperatorStore, key: &WorkflowKey) -> Result<bool> {
    Ok(store.list_workflows(&key.tenant).await?.iter().any(|row| row.key == *key))
}

#[cfg(test)]
mod tests;
