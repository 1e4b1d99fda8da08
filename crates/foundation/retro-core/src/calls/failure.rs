//! Failures that recur over the runs of a window.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::summary::{ERROR_CHARS_MAX, StoredSummary, SummarizedError, SummaryContent};
use crate::id::{MemoryId, RunId, Step};

/// Maximum number of recurring failures that are counted: those in most runs.
pub const FAILURES_MAX: usize = 40;

/// Minimum number of independent witnesses of a failure that recurs.
const WITNESSES_MIN: usize = 2;

/// Failure that several runs of a window met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RecurringFailure {
    /// Step in which it occurred.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub step: Step,
    /// Tool that failed.
    pub tool: String,
    /// Error with its changing parts masked, shortened.
    pub error: String,
    /// Number of runs that met it.
    pub runs: u32,
    /// Number of independent witnesses behind those runs.
    pub witnesses: u32,
    /// Number of those runs in which a later call of the same operation worked.
    pub recovered: u32,
    /// Number of those runs that did not achieve their goal.
    pub failed_runs: u32,
    /// Number of those runs that were investigated.
    pub investigated: u32,
    /// Newest of those runs.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub last_run: RunId,
}

/// Recurring failure that agents are not told about, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MissedFailure {
    /// The failure.
    #[serde(flatten)]
    pub failure: RecurringFailure,
    /// Why no memory that agents get is about it.
    pub reason: MissedReason,
}

/// Why no memory that agents get is about a recurring failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum MissedReason {
    /// No run that met it was in the sample.
    NotSampled,
    /// No run that met it got past it.
    NotRecovered,
    /// It passes without a change: the identical call worked when it was repeated.
    Transient,
    /// A remedy is refuted: in many runs the identical call worked when it was repeated.
    Refuted {
        /// Number of the newest runs past the error that repeated the identical call.
        repeated: u32,
        /// Number of those that changed something.
        changed: u32,
    },
    /// Runs got past it, but no investigated one shows what they changed.
    NoRemedyFound,
    /// Its memory waits for another run that confirms it.
    Unconfirmed {
        /// The tentative memory.
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        memory: MemoryId,
    },
    /// Its memory is held for a person.
    Held {
        /// The held memory.
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        memory: MemoryId,
    },
    /// A person disabled its memory.
    Disabled {
        /// The disabled memory.
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        memory: MemoryId,
    },
    /// Its memory was deleted a short time ago and must not be learnt again.
    Suppressed {
        /// The deleted memory.
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        memory: MemoryId,
    },
    /// Its memory faded, so it is no longer handed out.
    Archived {
        /// The archived memory.
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        memory: MemoryId,
    },
}

impl RecurringFailure {
    /// Returns `true` if this is the failure that the cue of a lesson names. A count keeps only the beginning
    /// of a long error.
    pub fn is_about(&self, step: &Step, tool: &str, error: &str) -> bool {
        self.step == *step && self.tool == tool && error.chars().take(ERROR_CHARS_MAX).eq(self.error.chars())
    }
}

/// Runs with one failure while they are counted.
#[derive(Default)]
struct Sightings<'a> {
    runs: u32,
    witnesses: BTreeSet<&'a str>,
    recovered: u32,
    failed_runs: u32,
    investigated: u32,
    last_run: Option<&'a RunId>,
}

/// Finds the failures that at least two independent witnesses met: first those in most runs, at most
/// [`FAILURES_MAX`]. The summaries are sorted by ordinal.
pub(super) fn find_recurring_failures(
    summaries: &[StoredSummary],
    investigated: &BTreeSet<RunId>,
) -> Vec<RecurringFailure> {
    let mut found: BTreeMap<(&Step, &str, &str), Sightings<'_>> = BTreeMap::new();
    for stored in summaries {
        let SummaryContent::Summary(summary) = &stored.content else { continue };
        // One tool can return the same error to several programs.
        let mut errors: BTreeMap<(&Step, &str, &str), Vec<&SummarizedError>> = BTreeMap::new();
        for error in &summary.errors {
            let Some(operation) = summary.operations.get(usize::from(error.operation)) else { continue };
            errors.entry((&operation.step, &operation.tool, &error.error)).or_default().push(error);
        }
        for (key, errors) in errors {
            let sightings = found.entry(key).or_default();
            sightings.runs += 1;
            sightings.recovered += u32::from(errors.iter().all(|error| error.recovered));
            sightings.failed_runs += u32::from(summary.outcome.succeeded() == Some(false));
            sightings.investigated += u32::from(investigated.contains(&stored.run));
            sightings.last_run = Some(&stored.run);
            match &summary.witnesses[..] {
                [] => sightings.witnesses.extend([stored.run.as_str()]),
                named => sightings.witnesses.extend(named.iter().map(String::as_str)),
            }
        }
    }
    let mut failures: Vec<RecurringFailure> = found
        .into_iter()
        .filter(|(_, sightings)| sightings.witnesses.len() >= WITNESSES_MIN)
        .filter_map(|((step, tool, error), sightings)| {
            Some(RecurringFailure {
                step: step.clone(),
                tool: tool.to_owned(),
                error: error.to_owned(),
                runs: sightings.runs,
                witnesses: u32::try_from(sightings.witnesses.len()).unwrap_or(u32::MAX),
                recovered: sightings.recovered,
                failed_runs: sightings.failed_runs,
                investigated: sightings.investigated,
                last_run: sightings.last_run?.clone(),
            })
        })
        .collect();
    // A stable sort: failures of equally many runs stay in the order of their names.
    failures.sort_by_key(|failure| u32::MAX - failure.runs);
    failures.truncate(FAILURES_MAX);
    failures
}
