//! Statistics of what the newest runs of a workflow called.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use retro_core::calls::{
    CallSummary, OPERATIONS_MAX, OperationStatistics, SUMMARY_VERSION, StoredSummary, SummaryContent,
    SummaryCoverage, compute_statistics,
};
use retro_core::id::{Workflow, WorkflowKey};
use retro_store::{OperatorStore, Result};
use serde::Serialize;
use utoipa::ToSchema;

use super::describe::{OPERATION_HEAD, describe_coverage, operation_cells};
use crate::text::{self, format_count};
use crate::text_table::render_table;

/// Default number of newest runs in the statistics: twenty windows of ten runs.
pub const STATISTICS_RUNS_DEFAULT: u32 = 200;

/// Maximum number of runs whose summaries are read. A summary has at most 8 KiB, so these are at most 16 MiB.
pub const STATISTICS_RUNS_MAX: u32 = 2000;

/// Length of the period that is counted besides the newest runs.
const RECENT_PERIOD: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Maximum number of reasons listed for runs that could not be read, and the length of each in characters.
const REASONS_MAX: usize = 3;
const REASON_CHARS_MAX: usize = 200;

/// What the newest runs of a workflow called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct WorkflowStatistics {
    /// The workflow.
    #[schema(value_type = String)]
    pub workflow: Workflow,
    /// The newest runs with a summary.
    pub newest: NewestRuns,
    /// The runs that finished in the last 7 days.
    pub last_7_days: RecentRuns,
}

/// What the newest runs with a summary called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct NewestRuns {
    /// Number of runs, and of those whose calls were counted.
    #[serde(flatten)]
    pub coverage: SummaryCoverage,
    /// Number of runs with a summary of another version of the program, which is not counted.
    pub other_version: u32,
    /// Most frequent reasons why runs could not be read, at most three.
    pub unreadable_reasons: Vec<UnreadableReason>,
    /// Statistics of the operations, those that failed most first.
    pub operations: Vec<OperationStatistics>,
}

/// Reason why the bodies of runs could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct UnreadableReason {
    /// The reason.
    pub reason: String,
    /// Number of runs with it.
    pub runs: u32,
}

/// What the runs that finished lately called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RecentRuns {
    /// Beginning of the period, RFC 3339.
    #[schema(value_type = String)]
    pub since: Timestamp,
    /// Number of runs that finished in the period, and of those whose calls were counted.
    #[serde(flatten)]
    pub coverage: SummaryCoverage,
    /// Number of runs that are left out, because it is not known when they finished.
    pub without_time: u32,
    /// `true` if older runs of the period were not read, because there are too many.
    pub truncated: bool,
    /// Statistics of the operations, those that failed most first.
    pub operations: Vec<OperationStatistics>,
}

/// Loads the statistics of the newest `runs` runs of a workflow that have a summary, and of those that finished
/// in the 7 days before `now`. Returns `None` if the workflow is unknown.
pub async fn find_workflow_statistics(
    store: &dyn OperatorStore,
    key: &WorkflowKey,
    runs: u32,
    now: Timestamp,
) -> Result<Option<WorkflowStatistics>> {
    let summaries = store.list_call_summaries(key, STATISTICS_RUNS_MAX).await?;
    if summaries.is_empty() && !super::known::is_known_workflow(store, key).await? {
        return Ok(None);
    }
    Ok(Some(WorkflowStatistics::from_summaries(key.workflow.clone(), &summaries, runs, now)))
}

impl WorkflowStatistics {
    /// Computes the statistics of summaries, which are sorted by age, newest first. At most
    /// [`STATISTICS_RUNS_MAX`] were read.
    pub(super) fn from_summaries(
        workflow: Workflow,
        summaries: &[StoredSummary],
        runs: u32,
        now: Timestamp,
    ) -> Self {
        let newest = summaries.get(..runs as usize).unwrap_or(summaries);
        Self {
            workflow,
            newest: NewestRuns::from_summaries(newest),
            last_7_days: RecentRuns::from_summaries(summaries, now),
        }
    }

    /// Renders the statistics for a terminal that is `columns` wide.
    pub fn render_text(&self, columns: u16) -> String {
        let workflow = text::single_line(self.workflow.as_str());
        if self.newest.coverage.runs == 0 {
            return format!(
                "no run of {workflow} has a summary yet: a retrospective makes those of its window\n"
            );
        }
        format!(
            "Newest runs of {workflow}\n\n{}\nLast 7 days, since {}\n\n{}",
            self.newest.render_text(columns),
            text::format_timestamp(self.last_7_days.since),
            self.last_7_days.render_text(columns)
        )
    }
}

impl NewestRuns {
    fn from_summaries(summaries: &[StoredSummary]) -> Self {
        let (mut readable, mut reasons) = (Vec::new(), BTreeMap::new());
        for stored in summaries {
            match &stored.content {
                SummaryContent::Summary(summary) => readable.push(summary),
                SummaryContent::Unreadable(reason) => {
                    *reasons.entry(text::truncate(reason, REASON_CHARS_MAX)).or_insert(0) += 1;
                }
            }
        }
        let unreadable = reasons.values().sum();
        let (coverage, operations) = count_readable(&readable);
        let mut reasons: Vec<_> =
            reasons.into_iter().map(|(reason, runs)| UnreadableReason { reason, runs }).collect();
        // A stable sort: reasons of equally many runs stay in alphabetical order.
        reasons.sort_by_key(|one| Reverse(one.runs));
        reasons.truncate(REASONS_MAX);
        Self {
            other_version: coverage.runs - coverage.counted,
            coverage: SummaryCoverage { runs: coverage.runs + unreadable, unreadable, ..coverage },
            unreadable_reasons: reasons,
            operations,
        }
    }

    fn render_text(&self, columns: u16) -> String {
        let reason = |one: &UnreadableReason| {
            let runs = format_count(one.runs.into(), "run");
            format!("• {runs} not read: {}\n", text::single_line(&one.reason))
        };
        let reasons: String = self.unreadable_reasons.iter().map(reason).collect();
        format!(
            "{}\n{reasons}\n{}",
            describe_coverage(self.coverage),
            render_operations(&self.operations, columns)
        )
    }
}

impl RecentRuns {
    fn from_summaries(summaries: &[StoredSummary], now: Timestamp) -> Self {
        let since = now.checked_sub(RECENT_PERIOD).unwrap_or(Timestamp::MIN);
        let timed = summaries.iter().filter_map(|stored| match &stored.content {
            SummaryContent::Summary(summary) => Some((summary.finished_at?, summary)),
            SummaryContent::Unreadable(_) => None,
        });
        let timed: Vec<_> = timed.collect();
        // A clock of an emitter may be wrong: a run of the future must not count as recent for ever.
        let is_recent = |at: Timestamp| (since..=now).contains(&at);
        let recent: Vec<_> =
            timed.iter().filter(|(at, _)| is_recent(*at)).map(|(_, summary)| *summary).collect();
        let (coverage, operations) = count_readable(&recent);
        Self {
            since,
            coverage,
            without_time: to_number(summaries.len() - timed.len()),
            truncated: summaries.len() >= STATISTICS_RUNS_MAX as usize
                && timed.last().is_some_and(|(at, _)| is_recent(*at)),
            operations,
        }
    }

    fn render_text(&self, columns: u16) -> String {
        let mut notes = describe_coverage(self.coverage);
        if self.without_time > 0 {
            let runs = format_count(self.without_time.into(), "run");
            notes.push_str(&format!(" Left out: {runs} without a time."));
        }
        if self.truncated {
            notes.push_str(&format!(" Only the newest {STATISTICS_RUNS_MAX} runs were read."));
        }
        format!("{notes}\n\n{}", render_operations(&self.operations, columns))
    }
}

/// Counts the summaries of this version of the program; the others only as runs.
fn count_readable(summaries: &[&CallSummary]) -> (SummaryCoverage, Vec<OperationStatistics>) {
    let counted: Vec<_> =
        summaries.iter().copied().filter(|summary| summary.version == SUMMARY_VERSION).collect();
    let coverage = SummaryCoverage {
        runs: to_number(summaries.len()),
        counted: to_number(counted.len()),
        unreadable: 0,
        uncounted_calls: counted.iter().fold(0, |sum, summary| sum.saturating_add(summary.uncounted_calls)),
    };
    (coverage, compute_statistics(counted))
}

fn to_number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn render_operations(operations: &[OperationStatistics], columns: u16) -> String {
    if operations.is_empty() {
        return "no calls\n".to_owned();
    }
    let table = render_table(columns, OPERATION_HEAD, operations.iter().map(operation_cells).collect());
    let at_limit = operations.len() >= OPERATIONS_MAX;
    let note = if at_limit { "further operations failed less or were called less\n" } else { "" };
    format!("{table}{note}")
}
