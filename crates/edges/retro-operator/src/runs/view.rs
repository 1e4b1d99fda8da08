//! Builds the view of one run from everything that is stored about it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use retro_core::check::CheckConclusion;
use retro_core::finding::{CheckedAnswer, Quote};
use retro_core::id::{Epoch, MemoryId, Ordinal, RetrospectiveId, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::inspection::{CountingReason, SamplingResult, explain_counting, explain_sampling};
use retro_core::pull_request::PullRequestOutcome;
use retro_core::retrospective::RetrospectiveState;
use retro_core::run::RunFacts;
use retro_store::{OperatorStore, Result, RunDetail, RunRetrospective};
use serde::Serialize;
use utoipa::ToSchema;

use super::memories::{RunMemoryView, memory_views};
use super::trajectory::{ReadTrajectory, RunPages, TrajectoryView, turn_of};
use crate::report::finding_kind_label;

/// One run with everything that is known about it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RunView {
    /// Workflow of the run.
    #[schema(value_type = String)]
    pub workflow: Workflow,
    /// Id of the run, given by the emitter.
    #[schema(value_type = String)]
    pub run: RunId,
    /// Ordinal of the run among the counted runs of its workflow; null if it is not counted.
    #[schema(required = true, value_type = Option<u64>)]
    pub ordinal: Option<Ordinal>,
    /// Highest attempt that was received.
    pub attempt: u32,
    /// Time at which the run was first stored.
    #[schema(value_type = String)]
    pub received_at: Timestamp,
    /// Facts of the run as reported by its event; null if retention has deleted them.
    #[schema(required = true, value_type = Option<Object>)]
    pub facts: Option<RunFacts>,
    /// Why the run is counted or not.
    pub counting: CountingReason,
    /// The retrospectives that claimed the run or looked at it, newest first. Empty if the run waits in the window, or
    /// is not counted.
    pub retrospectives: Vec<RunRetrospectiveView>,
    /// Memories and rules that the run met, or that chance withheld from it.
    pub memories: Vec<RunMemoryView>,
    /// Outcomes of the pull requests that the run is linked to.
    #[schema(value_type = Vec<Object>)]
    pub pull_requests: Vec<PullRequestOutcome>,
    /// Versions of the prompt in the commits that name the run; absent if no commit names one.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub commit_prompt_versions: BTreeSet<String>,
    /// Newest conclusion of each CI workflow about the commit or the pull request of the run.
    pub checks: Vec<CheckConclusion>,
    /// Turns with their calls, as far as they are shown.
    pub trajectory: TrajectoryView,
}

/// A retrospective and its look at one run.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RunRetrospectiveView {
    /// Id of the retrospective.
    #[schema(value_type = String)]
    pub id: RetrospectiveId,
    /// Number of the retrospective within its workflow; null for a manual one.
    #[schema(required = true, value_type = Option<u64>)]
    pub epoch: Option<Epoch>,
    /// State of the retrospective, such as `closed`.
    #[schema(value_type = String)]
    pub state: RetrospectiveState,
    /// First and last ordinal of the window; null for a manual retrospective, which claims none.
    #[schema(required = true, value_type = Option<Vec<u64>>)]
    pub window: Option<[Ordinal; 2]>,
    /// Whether the run was in the sample.
    pub sampling: SamplingResult,
    /// Result of the investigation: `found`, `nothing`, `invalid`, `failed` or `body_gone`; null if there is none yet.
    #[schema(required = true)]
    pub result: Option<String>,
    /// Why the investigation gave no answer; absent if it gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What was seen in the run.
    pub seen: Vec<SeenView>,
    /// Verdicts on the memories that the run met.
    pub verdicts: Vec<RunVerdictView>,
}

/// Something that an investigation saw in a run, with its quote.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SeenView {
    /// Kind: `repair`, `failure`, `retry loop`, `the agent's own advice`, `fault`, `passing error`, `contradiction` or
    /// `observed failure`.
    pub kind: String,
    /// What it is, in one sentence.
    pub title: String,
    /// Step of the workflow.
    pub step: String,
    /// The words it is based on.
    pub quote: QuoteView,
}

/// A quote with its place, in the emitter's own terms too.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct QuoteView {
    /// Quoted words.
    pub text: String,
    /// Place of the quote: part of the run, with 0-based indices of turn and call.
    #[schema(value_type = Object)]
    pub place: retro_core::trajectory::QuotePlace,
    /// Number that the emitter gave the quoted entry, such as `step_id` in ATIF; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// Step of the workflow that the quoted entry is part of; absent if the trajectory cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// A verdict on a memory that the run met.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RunVerdictView {
    /// Id of the memory, a UUID.
    #[schema(value_type = String)]
    pub memory: MemoryId,
    /// The lesson in one sentence; null if it is not known.
    #[schema(required = true)]
    pub title: Option<String>,
    /// Verdict: `harmed`, `helped`, `applied`, `ignored` or `cue not met`.
    pub verdict: String,
    /// Reason for the verdict.
    pub reason: String,
    /// The words it is based on; null if there are none.
    #[schema(required = true)]
    pub quote: Option<QuoteView>,
}

/// Error for a name that does not identify exactly one run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnresolvedRun {
    /// The tenant has no such run.
    #[error("there is no run {0} in this tenant")]
    Missing(RunId),
    /// Several workflows of the tenant have a run with this id.
    #[error("several workflows have a run {run}: {}; name one with --workflow", join(.workflows))]
    Ambiguous {
        /// Id of the run.
        run: RunId,
        /// Workflows that have it.
        workflows: Vec<Workflow>,
    },
}

fn join(workflows: &[Workflow]) -> String {
    workflows.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Finds a run of the tenant and returns everything that is known about it. Without `workflow`, every workflow of the
/// tenant is searched.
pub async fn find_run_view(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    run: &RunId,
    workflow: Option<&Workflow>,
    pages: RunPages,
) -> Result<std::result::Result<RunView, UnresolvedRun>> {
    let missing = || UnresolvedRun::Missing(run.clone());
    let mut workflows = store.find_run_workflows(tenant, run, workflow).await?;
    let workflow = match (workflows.pop(), workflows.is_empty()) {
        (None, _) => return Ok(Err(missing())),
        (Some(only), true) => only,
        (Some(last), false) => {
            workflows.push(last);
            return Ok(Err(UnresolvedRun::Ambiguous { run: run.clone(), workflows }));
        }
    };
    let key = WorkflowKey { tenant: tenant.clone(), workflow };
    let detail = store.load_run_detail(&key, run).await?;
    Ok(detail.map(|detail| build_view(detail, pages)).ok_or_else(missing))
}

fn build_view(detail: RunDetail, pages: RunPages) -> RunView {
    let trajectory = ReadTrajectory::from_body(&detail.body);
    let facts = detail.facts.map(|(facts, _)| facts);
    let memories = memory_views(&detail.memories, facts.as_ref());
    let titles = memories.iter().filter_map(|one| Some((one.memory, one.title.clone()?))).collect();
    let ordinal = detail.ordinal.unwrap_or_default();
    let looks: Vec<_> = detail
        .retrospectives
        .iter()
        .map(|one| retrospective_view(ordinal, one, &trajectory, &titles))
        .collect();
    let mut seen: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for one in looks.iter().flat_map(|look| &look.seen) {
        if let Some(turn) = turn_of(one.quote.place) {
            let line = format!("{}: {}", one.kind, one.title);
            let lines = seen.entry(turn).or_default();
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    RunView {
        counting: explain_counting(facts.as_ref(), detail.ordinal),
        workflow: detail.key.workflow,
        run: detail.run,
        ordinal: detail.ordinal,
        attempt: detail.attempt,
        received_at: detail.received_at,
        facts,
        retrospectives: looks,
        memories,
        pull_requests: detail.pull_requests,
        commit_prompt_versions: detail.commit_prompt_versions,
        checks: detail.checks,
        trajectory: trajectory.into_view(pages, &seen),
    }
}

fn retrospective_view(
    ordinal: Ordinal,
    look: &RunRetrospective,
    trajectory: &ReadTrajectory,
    titles: &BTreeMap<MemoryId, String>,
) -> RunRetrospectiveView {
    let RunRetrospective { retrospective, sample, investigation } = look;
    let automatic = retrospective.manual_request.is_none();
    let result = investigation.as_ref().and_then(|one| one.result.as_ref());
    let checked = result.and_then(|result| result.checked_answer()).map(|(checked, _)| checked);
    let verdict = |judged: &retro_core::finding::VerdictRecord| RunVerdictView {
        memory: judged.memory,
        title: titles.get(&judged.memory).cloned(),
        verdict: judged.verdict.as_str().to_owned(),
        reason: judged.reason.clone(),
        quote: judged.quote.as_ref().map(|quote| quote_view(quote, trajectory)),
    };
    RunRetrospectiveView {
        id: retrospective.id,
        epoch: automatic.then_some(retrospective.epoch),
        state: retrospective.state,
        window: automatic.then_some([retrospective.first, retrospective.last]),
        sampling: explain_sampling(ordinal, retrospective, sample.as_ref(), investigation.as_ref()),
        result: result.map(|result| result.as_str().to_owned()),
        problem: result.and_then(|result| result.problem()).map(str::to_owned),
        seen: checked.map(|checked| list_seen(checked, trajectory)).unwrap_or_default(),
        verdicts: checked.into_iter().flat_map(|checked| checked.verdicts.iter().map(verdict)).collect(),
    }
}

fn list_seen(checked: &CheckedAnswer, trajectory: &ReadTrajectory) -> Vec<SeenView> {
    let view = |kind: &str, title: String, step: &retro_core::id::Step, quote: &Quote| SeenView {
        kind: kind.to_owned(),
        title,
        step: step.to_string(),
        quote: quote_view(quote, trajectory),
    };
    let findings = checked
        .findings
        .iter()
        .map(|one| view(finding_kind_label(one.kind), one.title.clone(), &one.step, &one.quote));
    let fault = checked.fault.iter().map(|one| {
        view("fault", format!("it probably went wrong here: {}", one.sign), &one.step, &one.quote)
    });
    let passing = checked.transients.iter().map(|one| {
        let title = format!("“{}” of {}; the same call succeeded later", one.error, one.tool);
        view("passing error", title, &one.step, &one.quote)
    });
    let contradictions = checked.contradictions.iter().map(|one| {
        view("contradiction", format!("memory {}: {}", one.memory, one.reason), &one.step, &one.quote)
    });
    let failures = checked.failures.iter().map(|one| {
        view("observed failure", format!("“{}” of {}", one.error, one.tool), &one.step, &one.quote)
    });
    findings.chain(fault).chain(passing).chain(contradictions).chain(failures).collect()
}

fn quote_view(quote: &Quote, trajectory: &ReadTrajectory) -> QuoteView {
    QuoteView {
        text: quote.text.clone(),
        place: quote.place,
        entry: trajectory.entry_of(quote),
        step: trajectory.step_of(quote),
    }
}
