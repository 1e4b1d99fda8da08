//! Brief of a workflow: what every investigation of a retrospective is told about its workflow.
//!
//! It is computed once a retrospective, stored, and read by every investigation and by whoever takes one over. So all of
//! them see one text: a provider caches the common beginning of their prompts, and a repeated prompt finds its answer.
//! What was seen in one repository is told only to runs of that repository (law 15), so the brief has a part for each.

mod agents_md;
mod failures;
mod label;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::audience::{Audience, RunRepository};
use crate::calls::{CallSummary, StoredSummary, WindowSummaries};
use crate::id::{Repository, RunId, Step, Workflow};
use crate::memory::{Memory, MemoryStatus};
use crate::run::RunOutcome;
use crate::weight::Weight;

pub use agents_md::{BRIEFED_AGENTS_MD_BYTES_MAX, BriefedAgentsMd, choose_agents_md_runs};
use failures::collect_failures;
pub use failures::{BriefedFailure, ContrastOpinion};
use label::{label_of, to_count};

/// Maximum number of operations, of failures, and of memories that a part names. A prompt has them all.
const OPERATIONS_MAX: usize = 40;
const FAILURES_MAX: usize = 24;
const MEMORIES_MAX: usize = 40;
/// Maximum number of repositories with a part of their own. The runs of others see the part of no repository.
const PARTS_MAX: usize = 32;

/// What every investigation of a retrospective is told about its workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowBrief {
    /// Name of the workflow.
    pub workflow: Workflow,
    /// Number of runs in the window; 0 for a manual retrospective.
    pub window_runs: u64,
    /// One part for runs of no repository, and one for each repository, sorted by name.
    pub parts: Vec<BriefPart>,
    /// Active memories that agents get, those with the greatest weight first.
    pub memories: Vec<BriefedMemory>,
    /// What the files `AGENTS.md` say, at most one for each repository. Empty in a brief of an earlier version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents_md: Vec<BriefedAgentsMd>,
}

/// What the runs of one repository, and those that name none, have shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BriefPart {
    /// Repository; `None` for the part of the runs that name none.
    pub repository: Option<Repository>,
    /// Number of runs that are counted here: the newest ones whose calls could be read.
    pub runs: u32,
    /// Number of runs with each outcome, the most frequent first.
    pub outcomes: Vec<OutcomeCount>,
    /// What the runs called, the most called first within a step.
    pub operations: Vec<BriefedOperation>,
    /// What failed, that in most runs first.
    pub failures: Vec<BriefedFailure>,
}

/// Number of runs with an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeCount {
    /// The outcome.
    pub outcome: RunOutcome,
    /// Number of runs.
    pub runs: u32,
}

/// What is called in a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BriefedOperation {
    /// Step of the workflow.
    pub step: Step,
    /// Tool, and for a command its program with subcommands.
    pub call: String,
    /// Number of calls.
    pub calls: u32,
    /// Number of calls that failed.
    pub failed: u32,
    /// Number of runs with such a call.
    pub runs: u32,
}

/// A memory that agents get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BriefedMemory {
    /// Step of the memory.
    pub step: Step,
    /// Its lesson in one sentence.
    pub title: String,
    /// Its weight.
    pub weight: Weight,
    /// Repositories whose runs are handed the memory.
    pub audience: Audience,
}

impl WorkflowBrief {
    /// Builds the brief from the newest call summaries of the workflow and its memories, without `agents_md`, which no summary
    /// holds. Held and disabled memories are left out: no agent gets them.
    pub fn build(
        workflow: &Workflow,
        window_runs: u64,
        newest: &[StoredSummary],
        memories: &[Memory],
    ) -> Self {
        let mut sorted: Vec<&StoredSummary> = newest.iter().collect();
        sorted.sort_by_key(|one| one.ordinal);
        // The repositories of the newest runs come first, so that those of old runs are left out.
        let mut repositories: Vec<&Repository> = Vec::new();
        for repository in sorted.iter().rev().filter_map(|one| repository_of(one)) {
            if repositories.len() < PARTS_MAX && !repositories.contains(&repository) {
                repositories.push(repository);
            }
        }
        repositories.sort_unstable();
        let own = repositories.into_iter().map(Some);
        let parts = [None].into_iter().chain(own).map(|repository| build_part(repository, &sorted)).collect();
        let (workflow, memories) = (workflow.clone(), list_memories(memories));
        Self { workflow, window_runs, parts, memories, agents_md: Vec::new() }
    }

    /// Returns what the `AGENTS.md` of a run's repository says. There is no other one to fall back on: that of another
    /// repository, or of runs that name none, would be told as this repository's own.
    pub fn agents_md_of(&self, repository: Option<&RunRepository>) -> Option<&BriefedAgentsMd> {
        let own = repository.map(|one| &one.repo);
        self.agents_md.iter().find(|one| one.repository.as_ref() == own)
    }

    /// Returns the part that a run of a repository may be told.
    pub fn part_of(&self, repository: Option<&RunRepository>) -> Option<&BriefPart> {
        let find =
            |name: Option<&Repository>| self.parts.iter().find(|part| part.repository.as_ref() == name);
        find(repository.map(|one| &one.repo)).or_else(|| find(None))
    }

    /// Returns `true` if a step is known to call a tool, by the runs that a run of a repository may be told about.
    pub fn calls_tool(&self, repository: Option<&RunRepository>, step: &Step, tool: &str) -> bool {
        let operations = self.part_of(repository).map_or(&[][..], |part| &part.operations);
        let is_of_tool = |one: &BriefedOperation| {
            // A command is named with its program: `bash: terraform plan`.
            one.call == tool || one.call.strip_prefix(tool).is_some_and(|rest| rest.starts_with(':'))
        };
        operations.iter().any(|one| one.step == *step && is_of_tool(one))
    }

    /// Returns the memories that a run of a repository may be told, the first of at most 40.
    pub fn memories_of<'b>(
        &'b self,
        repository: Option<&'b RunRepository>,
    ) -> impl Iterator<Item = &'b BriefedMemory> {
        let is_told = move |memory: &&BriefedMemory| memory.audience.includes(repository);
        self.memories.iter().filter(is_told).take(MEMORIES_MAX)
    }
}

fn repository_of(stored: &StoredSummary) -> Option<&Repository> {
    stored.summary()?.repository.as_ref().map(|one| &one.repo)
}

/// Builds the part of the runs that name this repository or none. The summaries are sorted by ordinal.
fn build_part(repository: Option<&Repository>, sorted: &[&StoredSummary]) -> BriefPart {
    let is_told = |stored: &&&StoredSummary| {
        stored.summary().is_some() && (repository_of(stored).is_none() || repository_of(stored) == repository)
    };
    let told: Vec<StoredSummary> = sorted.iter().filter(is_told).map(|one| (*one).clone()).collect();
    let runs: Vec<(&RunId, &CallSummary)> =
        told.iter().filter_map(|one| Some((&one.run, one.summary()?))).collect();
    let mut part = BriefPart {
        repository: repository.cloned(),
        runs: to_count(runs.len()),
        outcomes: count_outcomes(&runs),
        operations: count_operations(&runs),
        failures: Vec::new(),
    };
    let window = WindowSummaries { runs: part.runs, summaries: told.clone(), earlier: Vec::new() };
    part.failures = collect_failures(&window, FAILURES_MAX);
    part
}

fn count_outcomes(runs: &[(&RunId, &CallSummary)]) -> Vec<OutcomeCount> {
    let mut counts: BTreeMap<&str, OutcomeCount> = BTreeMap::new();
    for (_, summary) in runs {
        let outcome = summary.outcome;
        counts.entry(outcome.as_str()).or_insert(OutcomeCount { outcome, runs: 0 }).runs += 1;
    }
    let mut counts: Vec<_> = counts.into_values().collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.runs));
    counts
}

fn count_operations(runs: &[(&RunId, &CallSummary)]) -> Vec<BriefedOperation> {
    let mut counts: BTreeMap<(&Step, String), (BriefedOperation, BTreeSet<&RunId>)> = BTreeMap::new();
    for (run, summary) in runs {
        for one in &summary.operations {
            let call = label_of(one);
            let (counted, seen_in) = counts.entry((&one.step, call.clone())).or_insert_with(|| {
                let new = BriefedOperation { step: one.step.clone(), call, calls: 0, failed: 0, runs: 0 };
                (new, BTreeSet::new())
            });
            counted.calls = counted.calls.saturating_add(one.calls);
            counted.failed = counted.failed.saturating_add(one.failed);
            seen_in.insert(run);
        }
    }
    let counted = counts.into_values();
    let mut all: Vec<_> =
        counted.map(|(one, runs)| BriefedOperation { runs: to_count(runs.len()), ..one }).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.calls));
    all.truncate(OPERATIONS_MAX);
    // A stable sort: within a step the most called stay first.
    all.sort_by(|one, other| one.step.cmp(&other.step));
    all
}

fn list_memories(memories: &[Memory]) -> Vec<BriefedMemory> {
    let is_handed_out = |memory: &&Memory| {
        memory.status == MemoryStatus::Active && memory.quarantine.is_none() && memory.disabled_by.is_none()
    };
    let mut handed_out: Vec<&Memory> = memories.iter().filter(is_handed_out).collect();
    handed_out.sort_by_key(|memory| (std::cmp::Reverse(memory.weight), memory.id));
    let briefed = handed_out.into_iter().filter_map(|memory| {
        Some(BriefedMemory {
            step: memory.scope.step()?.clone(),
            title: memory.lesson.title.clone(),
            weight: memory.weight,
            audience: memory.scope.audience()?.clone(),
        })
    });
    // Room for the memories of each repository: which of them a run is told is decided later.
    briefed.take(MEMORIES_MAX * PARTS_MAX).collect()
}

#[cfg(test)]
mod tests;
