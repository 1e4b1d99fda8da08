//! The report of a retrospective: one struct, rendered as JSON, Markdown or a table elsewhere.

mod association;
mod outlier;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::finding::{Checked, Fault, Finding, MemoryVerdict, Transient};
use crate::id::{Epoch, MemoryId, Ordinal, RetrospectiveId, RunId, Tenant, Workflow};
use crate::learn::{Applied, MutationOutcome};
use crate::manual::{Asked, Proposal};
use crate::memory::{Change, Memory, Scope, Status};
use crate::outcome::RunOutcome;
use crate::policy::Policy;
use crate::retrospective::{Investigation, Retrospective, State};
use crate::run::Outcome;
use crate::sample::{Power, Sample, power};
use crate::weight::Weight;

pub use association::{Association, ErrorSeen, SIGHTINGS_MAX, Sighting};
pub use outlier::{HISTORY_RUNS_MAX, Measure, Outlier, Spent};

/// Most memories that a report lists before and after; the rest is counted.
pub const MEMORIES_LISTED_MAX: usize = 500;

/// What a retrospective looked at, saw, asked for and changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The retrospective, and the report's own id.
    pub id: RetrospectiveId,
    /// The tenant.
    pub tenant: Tenant,
    /// The workflow.
    pub workflow: Workflow,
    /// The epoch; 0 for a manual retrospective.
    pub epoch: Epoch,
    /// How it ended: `closed` or `failed`.
    pub ended: State,
    /// The policy moment.
    pub as_of: Timestamp,
    /// First ordinal of the window.
    pub first: Ordinal,
    /// Last ordinal of the window.
    pub last: Ordinal,
    /// Seed, order and size of the sample: enough to draw it again.
    pub sample: Sample,
    /// The sampled runs, replacements included, in the order of investigation.
    pub sampled: Vec<WindowRun>,
    /// The other runs of the window, by ordinal.
    pub unsampled: Vec<WindowRun>,
    /// What a sample of this size can see.
    pub power: Vec<Power>,
    /// Runs of the window that took far more than the workflow's runs do, the most extraordinary first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outliers: Vec<Outlier>,
    /// Errors that go with failure, over the newest investigated runs; the surest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub associations: Vec<Association>,
    /// Each investigation.
    pub investigations: Vec<ReportedInvestigation>,
    /// Every mutation, what the writer did with it, and why.
    pub mutations: Vec<MutationOutcome>,
    /// Every change, in order.
    pub changes: Vec<Change>,
    /// The living memories of the workflow before.
    pub before: Memories,
    /// The memories of the workflow after, what this retrospective deleted included.
    pub after: Memories,
    /// The policy it was made under.
    #[serde(serialize_with = "crate::policy::serialize_stored")]
    pub policy: Policy,
    /// Its hash.
    pub policy_hash: String,
    /// The embedder that judged similarity.
    pub embedder: String,
    /// When it closed, by the writer's clock.
    pub closed_at: Timestamp,
    /// What all investigations together took and cost.
    pub total: Timing,
    /// What was asked for, in the report of a manual retrospective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// What a manual retrospective proposes, as it was made: what became of a proposal stands beside the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<Proposal>,
}

/// A run of the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowRun {
    /// Its ordinal.
    pub ordinal: Ordinal,
    /// Its id.
    pub run: RunId,
    /// What became of it.
    pub outcome: Outcome,
    /// What was known of its pull requests when the retrospective closed, by repository and number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pull_requests: Vec<RunOutcome>,
}

/// What went before in a workflow, for what stands out in a window of its.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The newest counted runs up to the window's last, at most [`HISTORY_RUNS_MAX`].
    pub spent: Vec<Spent>,
    /// What earlier closed retrospectives saw, the newest runs, at most [`SIGHTINGS_MAX`].
    pub sightings: Vec<Sighting>,
}

/// What an investigation took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Timing {
    /// Attempts begun.
    pub attempts: u32,
    /// From the claim that succeeded to its end, milliseconds.
    pub duration_ms: u64,
    /// US dollars paid for models; 0 without one.
    pub cost_usd: f64,
}

/// An investigation as reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportedInvestigation {
    /// Its place in the sequence, from 1.
    pub number: u32,
    /// The run's ordinal.
    pub ordinal: Ordinal,
    /// The run.
    pub run: RunId,
    /// Whether it took the place of one that failed.
    pub replacement: bool,
    /// `found`, `nothing`, `invalid`, `failed` or `body_gone`.
    pub result: String,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What was found, with quotes.
    pub findings: Vec<Finding>,
    /// What presented memories did, with quotes.
    pub verdicts: Vec<MemoryVerdict>,
    /// Where a failed run probably went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Errors that passed by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transients: Vec<Transient>,
    /// What of all that was seen did not stand up to the mechanical checks.
    pub dropped: u32,
    /// What it took.
    pub timing: Timing,
}

/// The memories of a workflow at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Memories {
    /// How many stand in each status.
    pub by_status: BTreeMap<Status, u32>,
    /// Each of them, heaviest first, at most [`MEMORIES_LISTED_MAX`].
    pub listed: Vec<MemoryLine>,
}

/// A memory in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLine {
    /// Its id.
    pub id: MemoryId,
    /// What it is about.
    pub scope: Scope,
    /// Where it stands.
    pub status: Status,
    /// Its weight.
    pub weight: Weight,
    /// What it says.
    pub title: String,
}

/// What [`write`] is made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) retrospective: &'a Retrospective,
    pub(crate) ended: State,
    pub(crate) sample: &'a Sample,
    pub(crate) window: &'a [WindowRun],
    pub(crate) investigations: &'a [Investigation],
    pub(crate) history: &'a History,
    pub(crate) timings: &'a [Timing],
    pub(crate) applied: &'a Applied,
    pub(crate) before: &'a [Memory],
    pub(crate) after: &'a [Memory],
    pub(crate) proposals: &'a [Proposal],
    pub(crate) embedder: &'a str,
    pub(crate) closed_at: Timestamp,
}

/// Writes the report.
pub(crate) fn write(inputs: Inputs<'_>) -> Report {
    let Inputs { retrospective, sample, window, investigations, applied, .. } = inputs;
    let looked_at = |run: &&WindowRun| investigations.iter().any(|one| one.ordinal == run.ordinal);
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
        unsampled: window.iter().filter(|run| !looked_at(run)).cloned().collect(),
        // Nothing was drawn where the runs were named.
        power: match retrospective.asked {
            None => power(retrospective.window_runs(), sample.size),
            Some(_) => Vec::new(),
        },
        outliers: outlier::outliers(&inputs.history.spent, retrospective.first),
        associations: association::associations(&sightings(inputs)),
        investigations: investigations
            .iter()
            .enumerate()
            .map(|(at, one)| reported(one, timing(at)))
            .collect(),
        mutations: applied.outcomes.clone(),
        changes: applied.changes.clone(),
        before: memories(inputs.before),
        after: memories(inputs.after),
        policy: retrospective.policy.clone(),
        policy_hash: retrospective.policy.hash(),
        embedder: inputs.embedder.to_owned(),
        closed_at: inputs.closed_at,
        total: total(inputs.timings),
        asked: retrospective.asked.clone(),
        proposals: inputs.proposals.to_vec(),
    }
}

/// What this retrospective saw, and what earlier ones did. A run that was only looked into for somebody's question is not
/// drawn by chance, so it says nothing of how often something occurs.
fn sightings(inputs: Inputs<'_>) -> Vec<Sighting> {
    if inputs.retrospective.asked.is_some() {
        return Vec::new();
    }
    let own = inputs.investigations.iter().filter_map(|one| {
        let run = inputs.window.iter().find(|run| run.ordinal == one.ordinal)?;
        Sighting::of(one, run.outcome.succeeded()?)
    });
    own.chain(inputs.history.sightings.iter().cloned()).take(SIGHTINGS_MAX as usize).collect()
}

fn reported(one: &Investigation, timing: Timing) -> ReportedInvestigation {
    let looked = one.result.as_ref().and_then(|result| result.looked()).map(|(checked, _)| checked.clone());
    let Checked { findings, verdicts, fault, transients, contradictions: _, dropped } =
        looked.unwrap_or_default();
    ReportedInvestigation {
        number: one.number,
        ordinal: one.ordinal,
        run: one.run.clone(),
        replacement: one.replacement,
        result: one.result.as_ref().map_or("not ended", |result| result.as_str()).to_owned(),
        problem: one.result.as_ref().and_then(|result| result.problem()).map(str::to_owned),
        findings,
        verdicts,
        fault,
        transients,
        dropped,
        timing,
    }
}

pub(crate) fn memories(all: &[Memory]) -> Memories {
    let mut by_status = BTreeMap::new();
    for memory in all {
        *by_status.entry(memory.status).or_insert(0) += 1;
    }
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_by_key(|memory| (std::cmp::Reverse(memory.weight), memory.status, memory.id));
    sorted.truncate(MEMORIES_LISTED_MAX);
    Memories { by_status, listed: sorted.into_iter().map(line).collect() }
}

fn line(memory: &Memory) -> MemoryLine {
    MemoryLine {
        id: memory.id,
        scope: memory.scope.clone(),
        status: memory.status,
        weight: memory.weight,
        title: memory.lesson.title.clone(),
    }
}

fn total(timings: &[Timing]) -> Timing {
    timings.iter().fold(Timing::default(), |sum, one| Timing {
        attempts: sum.attempts + one.attempts,
        duration_ms: sum.duration_ms + one.duration_ms,
        cost_usd: sum.cost_usd + one.cost_usd,
    })
}
