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
mod known;
mod missed;
mod routes;
mod statistics;

use retro_http::Api;
use utoipa_axum::routes;

use crate::http::ApiState;

pub(crate) use known::is_known_workflow;
pub use missed::{CountedWindow, ExplainedFailure, MissedFailures, find_missed_failures};
pub use statistics::{
    NewestRuns, RecentRuns, STATISTICS_RUNS_DEFAULT, STATISTICS_RUNS_MAX, UnreadableReason,
    WorkflowStatistics, find_workflow_statistics,
};

/// Adds the routes about the calls of a workflow.
pub(crate) fn add_read_routes(api: Api<ApiState>) -> Api<ApiState> {
    api.routes(routes!(routes::get_workflow_statistics)).routes(routes!(routes::get_missed_failures))
}

#[cfg(test)]
mod tests;
