//! Builds the report of a retrospective: one struct, which other crates render as JSON, Markdown or a table.

mod association;
mod focus;
mod outlier;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::calls::{MissedFailure, OperationStatistics, SummaryCoverage};
use crate::check::CheckConclusion;
use crate::finding::CheckedAnswer;
use crate::id::{Epoch, Ordinal, RetrospectiveId, RunId, Tenant, Workflow};
use crate::memory::{AppliedBatch, Change, Memory, MemoryListing, MutationOutcome, Proposal, list_memories};
use crate::model_use::TokenUsage;
use crate::pipeline::PipelineHashes;
use crate::policy::Policy;
use crate::pull_request::PullRequestOutcome;
use crate::retrospective::{Investigation, ManualRequest, Retrospective, RetrospectiveState};
use crate::run::RunOutcome;
use crate::sample::{Sample, SamplingPower, sampling_power};

pub use association::{ErrorAssociation, ErrorSignature, INVESTIGATED_RUNS_MAX, InvestigatedRun};
pub use focus::{FocusAnswer, FocusQuote, HEURISTICS};
pub use outlier::{HISTORY_RUNS_MAX, Outlier, RunSpending, SpendingMeasure};

/// Report of a retrospective: its runs, findings, mutations and changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Report {
    /// Id of the retrospective and of its report.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub id: RetrospectiveId,
    /// Tenant of the workflow.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub tenant: Tenant,
    /// Name of the workflow.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub workflow: Workflow,
    /// Epoch of the retrospective; 0 for a manual one.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub epoch: Epoch,
    /// Final state: `closed` or `failed`.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub ended: RetrospectiveState,
    /// Time that counted as the present in all decisions of the retrospective.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub as_of: Timestamp,
    /// First ordinal of the window; 0 for a manual retrospective.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub first: Ordinal,
    /// Last ordinal of the window; 0 for a manual retrospective.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub last: Ordinal,
    /// Seed, order and size of the sample, sufficient to draw it again.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub sample: Sample,
    /// Sampled runs, including replacements, in order of investigation.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub sampled: Vec<WindowRun>,
    /// Runs of the window that were not sampled, sorted by ordinal.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub unsampled: Vec<WindowRun>,
    /// Probabilities that a sample of this size shows patterns of various frequencies. Empty for a manual
    /// retrospective.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub power: Vec<SamplingPower>,
    /// Runs of the window whose cost, tokens or duration is far higher than that of the workflow's other
    /// runs, most extreme first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub outliers: Vec<Outlier>,
    /// Errors associated with failure in the newest investigated runs, most significant first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub associations: Vec<ErrorAssociation>,
    /// Investigations of the retrospective, in sequence.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub investigations: Vec<ReportedInvestigation>,
    /// All mutations, each with its outcome and reason.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub mutations: Vec<MutationOutcome>,
    /// All changes, in the order in which they were made.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub changes: Vec<Change>,
    /// Living memories of the workflow before the retrospective closed.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub before: MemoryListing,
    /// Memories of the workflow after the changes, including those that this retrospective deleted.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub after: MemoryListing,
    /// Policy under which the retrospective ran.
    #[serde(serialize_with = "crate::policy::serialize_stored")]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub policy: Policy,
    /// SHA-256 of the policy.
    pub policy_hash: String,
    /// Version of the pipeline under which the retrospective ran, and of its prompts; `None` if it was opened by a program
    /// that stored none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineHashes>,
    /// Name of the embedder that measured similarity.
    pub embedder: String,
    /// Time when the retrospective closed, by the writer's clock.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub closed_at: Timestamp,
    /// Sums of the attempts, duration and cost of all investigations.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub total: InvestigationTiming,
    /// Request that opened a manual retrospective; `None` for an automatic one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub manual_request: Option<ManualRequest>,
    /// Answer to the question of a manual retrospective; `None` if nobody asked, or no run was investigated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub focus: Option<FocusAnswer>,
    /// Proposals of a manual retrospective. The decisions on them are stored separately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub proposals: Vec<Proposal>,
    /// Calls of all runs of the window. `None` if they were not counted: for a manual or failed retrospective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallReport>,
}

/// Calls of all runs of a window, also of those that were not investigated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CallReport {
    /// Number of runs whose calls were counted.
    pub coverage: SummaryCoverage,
    /// Recurring failures that no memory which agents get is about, those in most runs first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<MissedFailure>,
    /// Statistics of the operations, those that failed most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OperationStatistics>,
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
    /// Conclusions of the CI runs that belong to the run, as known when the retrospective closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckConclusion>,
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
    /// Number of calls of a model, those included that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub model_calls: u32,
    /// Number of these calls whose price is not known, and which are missing from the cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_calls: u32,
    /// Tokens that the calls used.
    #[serde(default, skip_serializing_if = "TokenUsage::is_zero")]
    pub tokens: TokenUsage,
}

/// Reports without a model are stored as they were before there was one.
const fn is_zero(count: &u32) -> bool {
    *count == 0
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
    /// Parts of the answer that passed the mechanical checks, without contradictions, which are among the
    /// mutations of the report. Empty if the investigation gave no answer.
    #[serde(flatten)]
    pub checked: CheckedAnswer,
    /// Attempts, duration and cost of the investigation.
    pub timing: InvestigationTiming,
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
    pub(crate) calls: Option<&'a CallReport>,
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
        pipeline: retrospective.pipeline.clone(),
        embedder: inputs.embedder.to_owned(),
        closed_at: inputs.closed_at,
        total: total_timing(inputs.timings),
        manual_request: retrospective.manual_request.clone(),
        focus: focus::build_focus_answer(retrospective.manual_request.as_ref(), investigations),
        proposals: inputs.proposals.to_vec(),
        calls: inputs.calls.cloned(),
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
    let answer = one.result.as_ref().and_then(|result| result.checked_answer());
    let without_contradictions =
        |checked: &CheckedAnswer| CheckedAnswer { contradictions: Vec::new(), ..checked.clone() };
    ReportedInvestigation {
        number: one.number,
        ordinal: one.ordinal,
        run: one.run.clone(),
        replacement: one.replacement,
        result: one.result.as_ref().map_or("not ended", |result| result.as_str()).to_owned(),
        error: one.result.as_ref().and_then(|result| result.problem()).map(str::to_owned),
        checked: answer.map(|(checked, _)| without_contradictions(checked)).unwrap_or_default(),
        timing,
    }
}

fn total_timing(timings: &[InvestigationTiming]) -> InvestigationTiming {
    timings.iter().fold(InvestigationTiming::default(), |sum, one| InvestigationTiming {
        attempts: sum.attempts + one.attempts,
        duration_ms: sum.duration_ms + one.duration_ms,
        cost_usd: sum.cost_usd + one.cost_usd,
        model_calls: sum.model_calls + one.model_calls,
        unpriced_calls: sum.unpriced_calls + one.unpriced_calls,
        tokens: sum.tokens.add(one.tokens),
    })
}
