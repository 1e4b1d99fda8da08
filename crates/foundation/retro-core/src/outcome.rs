//! Outcomes of runs, as the pull requests that they made show them: approved, changes requested, merged or
//! closed.
//!
//! **Problem.** A successful run may have made a pull request that nobody wanted. GitHub's events about it
//! may arrive weeks later, in any order, repeatedly, or before the run itself is known.
//!
//! **Design.** The facts about a pull request form one value ([`PullRequestFacts`]), into which the events are
//! merged in any order. The links between runs and pull requests are not stored but computed from the stored
//! facts, by the rules that [`RunReferences`] and [`parse_trailer`] describe.
//!
//! [`PullRequestFacts`]: crate::pull_request::PullRequestFacts

mod credit;
mod prompts;
mod totals;

use std::collections::BTreeSet;

use crate::finding::{MemoryVerdict, VerdictRecord};
use crate::id::{RunId, Workflow};
use crate::pull_request::{normalize_commit, normalize_repo};
use crate::report::Report;
use crate::retrospective::RetrospectiveState;
use crate::run::RunFacts;

pub use credit::{CreditFacts, MemoryApplication, OutcomeCredit, credit_outcome};
pub use prompts::{PromptRun, PromptVersionTotals, total_prompt_versions};
pub use totals::{OutcomeTotals, WorkflowOutcomes};

/// Maximum number of pull requests that a report lists for one run: the first ones by repository and number.
/// A commit may be the head of many pull requests, but a longer list would not be read.
pub const PULL_REQUESTS_NOTED_MAX: usize = 8;
/// Maximum number of readings of one trailer as a workflow and a run. A slash may be part of either name, so
/// one trailer may have several readings.
pub const TRAILER_READINGS_MAX: usize = 8;

/// References in a run's event that link the run to pull requests.
///
/// A run whose event names a repository and a pull request number is linked only to that pull request. Any
/// other run is linked to every pull request that has, or had, the run's commit as its head or merge commit,
/// and to every pull request with a head or merge commit that names the run in a trailer ([`parse_trailer`]).
/// If the event names a repository, only pull requests in that repository are linked. Data of other tenants
/// is never considered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunReferences {
    /// Name of the repository in lower case; `None` if the event names none.
    pub repo: Option<String>,
    /// Number of the pull request; `None` if the event names none.
    pub number: Option<u64>,
    /// Commit hash in lower case; `None` if the event names none.
    pub commit: Option<String>,
}

impl RunReferences {
    /// Extracts the references from the facts of a run.
    pub fn from_run_facts(facts: &RunFacts) -> Self {
        Self {
            repo: facts.repo.as_deref().map(normalize_repo),
            number: facts.pull_request,
            commit: facts.commit.as_deref().map(normalize_commit),
        }
    }
}

/// Parses the value of a `Retro-Run` trailer: a run id, or a workflow and a run id separated by a slash.
/// Either name may contain slashes itself, so there may be several readings, at most
/// [`TRAILER_READINGS_MAX`]. The trailer refers to a run only if exactly one run of the tenant matches one of
/// the readings. A run id that exists in several workflows refers to no run unless the trailer names the
/// workflow, because a wrong credit is worse than none.
pub fn parse_trailer(text: &str) -> Vec<(Option<Workflow>, RunId)> {
    let text = text.trim();
    let alone = RunId::new(text).ok().map(|run| (None, run));
    let slashes = text.match_indices('/').map(|(at, _)| at);
    let split = slashes.filter_map(|at| {
        let (workflow, run) = (Workflow::new(&text[..at]).ok()?, RunId::new(&text[at + 1..]).ok()?);
        Some((Some(workflow), run))
    });
    alone.into_iter().chain(split).take(TRAILER_READINGS_MAX).collect()
}

/// Lists the memories and rules that were applied in the runs of a closed retrospective. A memory was applied if the
/// trace shows that the agent acted on it, with a good, bad or no effect. Returns nothing for a manual or
/// failed retrospective.
pub fn list_memory_applications(report: &Report) -> Vec<MemoryApplication> {
    if report.manual_request.is_some() || report.ended != RetrospectiveState::Closed {
        return Vec::new();
    }
    // Verdicts are ordered: those up to `Applied` mean that the agent followed the memory.
    let was_applied = |one: &VerdictRecord| one.verdict <= MemoryVerdict::Applied;
    let of = report.investigations.iter().flat_map(|one| {
        one.checked.verdicts.iter().filter(|said| was_applied(said)).map(|said| MemoryApplication {
            workflow: report.workflow.clone(),
            run: one.run.clone(),
            memory: said.memory,
        })
    });
    let all: BTreeSet<MemoryApplication> = of.collect();
    all.into_iter().collect()
}

#[cfg(test)]
mod tests;
