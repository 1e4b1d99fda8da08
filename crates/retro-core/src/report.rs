//! Builds the report of a retrospective: one struct, which other crates render as JSON, Markdown or a table.

mod association;
mod outlier;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::finding::{CheckedAnswer, Fault, Finding, TransientError, VerdictRecord};
use crate::id::{Epoch, MemoryId, Ordinal, RetrospectiveId, RunId, Tenant, Workflow};
use crate::learn::{AppliedBatch, MutationOutcome};
use crate::manual::{ManualRequest, Proposal};
use crate::memory::{Change, Memory, MemoryScope, MemoryStatus};
use crate::outcome::PullRequestOutcome;
use crate::policy::Policy;
use crate::retrospective::{Investigation, Retrospective, RetrospectiveState};
use crate::run::RunOutcome;
use crate::sample::{Sample, SamplingPower, sampling_power};
use crate::weight::Weight;

pub use association::{ErrorAssociation, ErrorSignature, INVESTIGATED_RUNS_MAX, InvestigatedRun};
pub use outlier::{HISTORY_RUNS_MAX, Outlier, RunSpending, SpendingMeasure};

/// Maximum number of memories listed in each of `before` and `after`. The others are only counted.
pub const MEMORIES_LISTED_MAX: usize = 500;

/// Report of a retrospective: its runs, findings, mutations and changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Id of the retrospective and of its report.
    pub id: RetrospectiveId,
    /// Tenant of the workflow.
    pub tenant: Tenant,
    /// Name of the workflow.
    pub workflow: Workflow,
    /// Epoch of the retrospective; 0 for a manual one.
    pub epoch: Epoch,
    /// Final state: `closed` or `failed`.
    pub ended: RetrospectiveState,
    /// Time that counted as the present in all decisions of the retrospective.
    pub as_of: Timestamp,
    /// First ordinal of the window; 0 for a manual retrospective.
    pub first: Ordinal,
    /// Last ordinal of the window; 0 for a manual retrospective.
    pub last: Ordinal,
    /// Seed, order and size of the sample, sufficient to draw it again.
    pub sample: Sample,
    /// Sampled runs, including replacements, in order of investigation.
    pub sampled: Vec<WindowRun>,
    /// Runs of the window that were not sampled, sorted by ordinal.
    pub unsampled: Vec<WindowRun>,
    /// Probabilities that a sample of this size shows patterns of various frequencies. Empty for a manual
    /// retrospective.
    pub power: Vec<SamplingPower>,
    /// Runs of the window whose cost, tokens or duration is far higher than that of the workflow's other
    /// runs, most extreme first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outliers: Vec<Outlier>,
    /// Errors associated with failure in the newest investigated runs, most significant first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub associations: Vec<ErrorAssociation>,
    /// Investigations of the retrospective, in sequence.
    pub investigations: Vec<ReportedInvestigation>,
    /// All mutations, each with its outcome and reason.
    pub mutations: Vec<MutationOutcome>,
    /// All changes, in the order in which they were made.
    pub changes: Vec<Change>,
    /// Living memories of the workflow before the retrospective closed.
    pub before: MemoryListing,
    /// Memories of the workflow after the changes, including those that this retrospective deleted.
    pub after: MemoryListing,
    /// Policy under which the retrospective ran.
    #[serde(serialize_with = "crate::policy::serialize_stored")]
    pub policy: Policy,
    /// SHA-256 of the policy.
    pub policy_hash: String,
    /// Name of the embedder that measured similarity.
    pub embedder: String,
    /// Time when the retrospective closed, by the writer's clock.
    pub closed_at: Timestamp,
    /// Sums of the attempts, duration and cost of all investigations.
    pub total: InvestigationTiming,
    /// Request that opened a manual retrospective; `None` for an automatic one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual_request: Option<ManualRequest>,
    /// Proposals of a manual retrospective. The decisions on them are stored separately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<Proposal>,
}

/// A run of the window, as listed in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowRun {
    /// Ordinal of the run.
    pub ordinal: Ordinal,
    /// Id of the run.
    pub run: RunId,
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Outcomes of the run's pull requests as known when the retrospective closed, sorted by repository and
    /// number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_requests: Vec<PullRequestOutcome>,
}

/// Earlier runs and investigations of a workflow, for comparison with the window.
#[derive(Debug, Clone, Default)]
pub struct WorkflowHistory {
    /// Spending of the newest counted runs, up to the end of the window, at most [`HISTORY_RUNS_MAX`].
    pub spending: Vec<RunSpending>,
    /// Newest runs that earlier closed retrospectives investigated, at most [`INVESTIGATED_RUNS_MAX`].
    pub investigated_runs: Vec<InvestigatedRun>,
}

/// Attempts, duration and cost of an investigation.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct InvestigationTiming {
    /// Number of attempts that were started.
    pub attempts: u32,
    /// Milliseconds from the last claim of the investigation to its end; 0 if it has not ended.
    pub duration_ms: u64,
    /// Model cost in US dollars; 0 if no model was used.
    pub cost_usd: f64,
}

/// An investigation, as shown in a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportedInvestigation {
    /// 1-based position of the investigation in its retrospective.
    pub number: u32,
    /// Ordinal of the run.
    pub ordinal: Ordinal,
    /// Id of the run.
    pub run: RunId,
    /// `true` if this investigation replaced one that failed.
    pub replacement: bool,
    /// Result of the investigation: `found`, `nothing`, `invalid`, `failed`, `body_gone`, or `not ended` if
    /// it has no result.
    pub result: String,
    /// Reason why the investigation gave no answer; `None` if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Patterns found, each with a quote from the run.
    pub findings: Vec<Finding>,
    /// Verdicts on the memories that were presented to the run, with quotes.
    pub verdicts: Vec<VerdictRecord>,
    /// Turn at which a failed run probably went wrong; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Errors that passed when the identical call was repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transients: Vec<TransientError>,
    /// Number of entries of the answer that failed the mechanical checks and were dropped.
    pub dropped: u32,
    /// Attempts, duration and cost of the investigation.
    pub timing: InvestigationTiming,
}

/// Memories of a workflow at one time, counted by status and listed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryListing {
    /// Number of memories in each status.
    pub by_status: BTreeMap<MemoryStatus, u32>,
    /// Memories by descending weight, at most [`MEMORIES_LISTED_MAX`].
    pub listed: Vec<MemoryLine>,
}

/// One memory in a list of memories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLine {
    /// Id of the memory.
    pub id: MemoryId,
    /// Scope in which the memory applies.
    pub scope: MemoryScope,
    /// Status of the memory.
    pub status: MemoryStatus,
    /// Weight of the memory.
    pub weight: Weight,
    /// Title of the lesson.
    pub title: String,
}

/// Arguments of [`build_report`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportInputs<'a> {
    pub(crate) retrospective: &'a Retrospective,
    pub(crate) ended: RetrospectiveState,
    pub(crate) sample: &'a Sample,
    pub(crate) window: &'a [WindowRun],
    pub(crate) investigations: &'a [Investigation],
    pub(crate) history: &'a WorkflowHistory,
    pub(crate) timings: &'a [InvestigationTiming],
    pub(crate) applied: &'a AppliedBatch,
    pub(crate) before: &'a [Memory],
    pub(crate) after: &'a [Memory],
    pub(crate) proposals: &'a [Proposal],
    pub(crate) embedder: &'a str,
    pub(crate) closed_at: Timestamp,
}

/// Builds the report of a retrospective that is being closed.
pub(crate) fn build_report(inputs: ReportInputs<'_>) -> Report {
    let ReportInputs { retrospective, sample, window, investigations, applied, .. } = inputs;
    let is_investigated = |run: &&WindowRun| investigations.iter().any(|one| one.ordinal == run.ordinal);
    let sampled =
        investigations.iter().filter_map(|one| window.iter().find(|run| run.ordinal == one.ordinal));
    let timing = |at: usize| inputs.timings.get(at).copied().unwrap_or_default();
    Report {
        id: retrospective.id,
        tenant: retrospective.key.tenant.clone(),
        workflow: retrospective.key.workflow.clone(),
        epoch: retrospective.epoch,
        ended: inputs.ended,
        as_of: retrospective.as_of,
        first: retrospective.first,
        last: retrospective.last,
        sample: sample.clone(),
        sampled: sampled.cloned().collect(),
        unsampled: window.iter().filter(|run| !is_investigated(run)).cloned().collect(),
        // The runs of a manual retrospective were chosen, not drawn.
        power: match retrospective.manual_request {
            None => sampling_power(retrospective.window_runs(), sample.size),
            Some(_) => Vec::new(),
        },
        outliers: outlier::find_outliers(&inputs.history.spending, retrospective.first),
        associations: association::find_associations(&collect_investigated_runs(inputs)),
        investigations: investigations
            .iter()
            .enumerate()
            .map(|(at, one)| report_investigation(one, timing(at)))
            .collect(),
        mutations: applied.outcomes.clone(),
        changes: applied.changes.clone(),
        before: list_memories(inputs.before),
        after: list_memories(inputs.after),
        policy: retrospective.policy.clone(),
        policy_hash: retrospective.policy.content_hash(),
        embedder: inputs.embedder.to_owned(),
        closed_at: inputs.closed_at,
        total: total_timing(inputs.timings),
        manual_request: retrospective.manual_request.clone(),
        proposals: inputs.proposals.to_vec(),
    }
}

/// Returns the runs that this retrospective and earlier ones investigated, at most [`INVESTIGATED_RUNS_MAX`].
/// Returns none for a manual retrospective, because its runs were not drawn at random and would bias the
/// frequencies.
fn collect_investigated_runs(inputs: ReportInputs<'_>) -> Vec<InvestigatedRun> {
    if inputs.retrospective.manual_request.is_some() {
        return Vec::new();
    }
    let own = inputs.investigations.iter().filter_map(|one| {
        let run = inputs.window.iter().find(|run| run.ordinal == one.ordinal)?;
        InvestigatedRun::from_investigation(one, run.outcome.succeeded()?)
    });
    own.chain(inputs.history.investigated_runs.iter().cloned()).take(INVESTIGATED_RUNS_MAX as usize).collect()
}

fn report_investigation(one: &Investigation, timing: InvestigationTiming) -> ReportedInvestigation {
    let answer =
        one.result.as_ref().and_then(|result| result.checked_answer()).map(|(checked, _)| checked.clone());
    let CheckedAnswer { findings, verdicts, fault, transients, contradictions: _, dropped } =
        answer.unwrap_or_default();
    ReportedInvestigation {
        number: one.number,
        ordinal: one.ordinal,
        run: one.run.clone(),
        replacement: one.replacement,
        result: one.result.as_ref().map_or("not ended", |result| result.as_str()).to_owned(),
        error: one.result.as_ref().and_then(|result| result.problem()).map(str::to_owned),
        findings,
        verdicts,
        fault,
        transients,
        dropped,
        timing,
    }
}

pub(crate) fn list_memories(all: &[Memory]) -> MemoryListing {
    let mut by_status = BTreeMap::new();
    for memory in all {
        *by_status.entry(memory.status).or_insert(0) += 1;
    }
    let mut sorted: Vec<_> = all.iter().collect();
    // The id breaks ties, or the report would depend on the order of rows.
    sorted.sort_by_key(|memory| (std::cmp::Reverse(memory.weight), memory.status, memory.id));
    sorted.truncate(MEMORIES_LISTED_MAX);
    MemoryListing { by_status, listed: sorted.into_iter().map(memory_line).collect() }
}

fn memory_line(memory: &Memory) -> MemoryLine {
    MemoryLine {
        id: memory.id,
        scope: memory.scope.clone(),
        status: memory.status,
        weight: memory.weight,
        title: memory.lesson.title.clone(),
    }
}

fn total_timing(timings: &[InvestigationTiming]) -> InvestigationTiming {
    timings.iter().fold(InvestigationTiming::default(), |sum, one| InvestigationTiming {
        attempts: sum.attempts + one.attempts,
        duration_ms: sum.duration_ms + one.duration_ms,
        cost_usd: sum.cost_usd + one.cost_usd,
    })
}
