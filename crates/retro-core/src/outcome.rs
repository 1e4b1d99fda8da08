//! Outcomes of pull requests, and so of the runs behind them: approved, changes requested, merged, closed.
//!
//! **Problem.** A run that succeeded may have made a pull request that nobody wanted. GitHub's events about it arrive
//! weeks later, in any order, repeatedly, or before the run itself is known.
//!
//! **Design.** The facts about a pull request are one value that only grows ([`PullRequestFacts`]). An event adds to
//! it by [`PullRequestFacts::merge_facts`], which is commutative, associative and idempotent, so the order of arrival
//! does not matter. Which run belongs to which pull request is never stored as a decision: it is a query over the
//! stored facts, by the rules at [`RunReferences`] and [`parse_trailer`].
//!
//! **Names of repositories.** A run's event names `owner/name` without a host, so that name identifies a repository
//! within a tenant. It is kept in lower case, because names at GitHub are case-insensitive.

mod credit;
mod totals;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{MemoryId, RunId, Workflow};
use crate::report::Report;
use crate::retrospective::RetrospectiveState;
use crate::run::RunFacts;

pub use credit::{CreditFacts, MemoryApplication, OutcomeCredit, credit_outcome};
pub use totals::{OutcomeTotals, WorkflowOutcomes};

/// Maximum number of reviews stored of one pull request, those with the lowest ids. GitHub's ids grow, so
/// these are the first reviews. More review rounds than this add no information.
pub const REVIEWS_KEPT_MAX: usize = 200;
/// Maximum number of closings without a merge stored of one pull request, the earliest ones. Only one counts;
/// the others are for people.
pub const CLOSINGS_KEPT_MAX: usize = 16;
/// Maximum number of pull requests of one run in a report, the first by repository and number. A commit may
/// be the head of several pull requests, and nobody reads more of them in a report.
pub const PULL_REQUESTS_NOTED_MAX: usize = 8;
/// Maximum number of readings of one trailer as workflow and run, because a slash may belong to either name.
pub const TRAILER_READINGS_MAX: usize = 8;

/// A pull request of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PullRequestRef {
    /// Repository, `owner/name` in lower case.
    pub repo: String,
    /// Number of the pull request in its repository.
    pub number: u64,
}

impl PullRequestRef {
    /// Creates a reference from a repository's name in any case and a number.
    pub fn new(repo: &str, number: u64) -> Self {
        Self { repo: normalize_repo(repo), number }
    }
}

impl std::fmt::Display for PullRequestRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}", self.repo, self.number)
    }
}

/// Returns a repository's name as stored, in lower case, because GitHub ignores case.
pub fn normalize_repo(text: &str) -> String {
    text.trim().to_lowercase()
}

/// Known facts about a pull request. Facts are only added.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PullRequestFacts {
    /// Time when it was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<Timestamp>,
    /// Time when it was merged; the earliest that an event named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_at: Option<Timestamp>,
    /// Times when it was closed without a merge, at most [`CLOSINGS_KEPT_MAX`]. A closing stays here when the pull
    /// request is reopened.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub closed_at: BTreeSet<Timestamp>,
    /// Time of the latest event, and whether the pull request was open then. Of two events at the same time, the one
    /// with the pull request open counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<(Timestamp, bool)>,
    /// Reviews by GitHub's id, without those of bots, at most [`REVIEWS_KEPT_MAX`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reviews: BTreeMap<u64, ReviewFacts>,
}

/// Facts about one review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReviewFacts {
    /// Verdict of the review; `None` while only its dismissal is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<ReviewVerdict>,
    /// True if the review was dismissed.
    #[serde(default)]
    pub dismissed: bool,
}

/// Verdict of a review that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewVerdict {
    /// The pull request may be merged.
    Approved,
    /// Changes are requested; counts as a review round.
    ChangesRequested,
}

impl PullRequestFacts {
    /// Merges the facts of another event into these.
    #[must_use]
    pub fn merge_facts(mut self, other: &Self) -> Self {
        self.opened_at = earlier_of(self.opened_at, other.opened_at);
        self.merged_at = earlier_of(self.merged_at, other.merged_at);
        self.closed_at.extend(&other.closed_at);
        // Dropping the largest ones after each merge leaves the same smallest ones in any order of merges.
        while self.closed_at.len() > CLOSINGS_KEPT_MAX {
            self.closed_at.pop_last();
        }
        // The tuple compares the time first, then open (`true`) before closed, so the order of events does not matter.
        self.heard = self.heard.max(other.heard);
        for (id, review) in &other.reviews {
            let known = self.reviews.entry(*id).or_default();
            known.verdict = known.verdict.max(review.verdict);
            known.dismissed |= review.dismissed;
        }
        while self.reviews.len() > REVIEWS_KEPT_MAX {
            self.reviews.pop_last();
        }
        self
    }

    /// Returns whether a review approved it that was not dismissed.
    pub fn is_approved(&self) -> bool {
        let stands = |one: &ReviewFacts| one.verdict == Some(ReviewVerdict::Approved) && !one.dismissed;
        self.reviews.values().any(stands)
    }

    /// Returns the number of reviews that requested changes. A request that was dismissed later still counts.
    pub fn review_rounds(&self) -> u32 {
        let asked = |one: &&ReviewFacts| one.verdict == Some(ReviewVerdict::ChangesRequested);
        u32::try_from(self.reviews.values().filter(asked).count()).expect("reviews are bounded")
    }

    /// Returns the state of the pull request.
    pub fn state(&self) -> PullRequestState {
        match (self.merged_at, self.heard) {
            (Some(_), _) => PullRequestState::Merged,
            (None, Some((_, false))) if !self.closed_at.is_empty() => PullRequestState::Closed,
            _ => PullRequestState::Open,
        }
    }

    /// Returns the seconds from opening to merge; `None` until both are known.
    pub fn time_to_merge_s(&self) -> Option<u64> {
        let (opened, merged) = (self.opened_at?, self.merged_at?);
        Some(u64::try_from(merged.as_second() - opened.as_second()).unwrap_or(0))
    }

    /// Returns the ends for which memories applied in its runs get credit. A pull request that was closed, reopened
    /// and merged has both: either may have been credited before the other became known, and credit is never taken
    /// back.
    pub fn credited_ends(&self) -> Vec<PullRequestEnd> {
        let merged = self.merged_at.is_some().then_some(PullRequestEnd::Merged);
        let closed = (!self.closed_at.is_empty()).then_some(PullRequestEnd::ClosedUnmerged);
        merged.into_iter().chain(closed).collect()
    }
}

fn earlier_of(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// State of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullRequestState {
    /// The pull request is not known to have ended.
    Open,
    /// The pull request was merged.
    Merged,
    /// The pull request was closed without a merge and has not been reopened.
    Closed,
}

impl PullRequestState {
    /// Returns the word as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Merged => "merged",
            Self::Closed => "closed",
        }
    }
}

/// End of a pull request, for which credit is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullRequestEnd {
    /// The pull request was merged.
    Merged,
    /// The pull request was closed without a merge.
    ClosedUnmerged,
}

impl PullRequestEnd {
    /// Returns the word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Merged => "merged",
            Self::ClosedUnmerged => "closed_unmerged",
        }
    }
}

/// References in a run's event that link it to pull requests.
///
/// A run that names repository and number belongs to that pull request only. Any other run belongs to every
/// pull request of which its commit is or was the head, or which its commit merged, and to those with such a
/// commit that names the run in a trailer ([`parse_trailer`]). If the run names a repository, it must be the
/// pull request's. Data of other tenants is never considered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunReferences {
    /// Repository in lower case.
    pub repo: Option<String>,
    /// Number of the pull request.
    pub number: Option<u64>,
    /// Commit hash in lower case.
    pub commit: Option<String>,
}

impl RunReferences {
    /// Returns the references in a run's facts.
    pub fn from_run_facts(facts: &RunFacts) -> Self {
        Self {
            repo: facts.repo.as_deref().map(normalize_repo),
            number: facts.pull_request,
            commit: facts.commit.as_deref().map(normalize_commit),
        }
    }
}

/// Returns a commit hash as stored, in lower case.
pub fn normalize_commit(text: &str) -> String {
    text.trim().to_lowercase()
}

/// Parses the trailer `Retro-Run`: a run's id, or a workflow and a run's id with a slash between them. Either name
/// may contain slashes itself, so there may be several readings, at most [`TRAILER_READINGS_MAX`]. The trailer names
/// a run only if exactly one run of the tenant fits a reading. An id that exists in several workflows names none of
/// them until the trailer names the workflow, because wrong credit is worse than none.
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

/// Outcome of a run's pull request as known at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequestOutcome {
    /// Pull request of the run.
    #[serde(flatten)]
    pub pull_request: PullRequestRef,
    /// State of the pull request.
    pub standing: PullRequestState,
    /// True if a review approved it.
    pub approved: bool,
    /// Number of reviews that requested changes.
    pub review_rounds: u32,
    /// Seconds from opening to merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_merge_s: Option<u64>,
}

impl PullRequestOutcome {
    /// Returns the outcome from the facts about a pull request.
    pub fn from_facts(pull_request: PullRequestRef, facts: &PullRequestFacts) -> Self {
        Self {
            pull_request,
            standing: facts.state(),
            approved: facts.is_approved(),
            review_rounds: facts.review_rounds(),
            time_to_merge_s: facts.time_to_merge_s(),
        }
    }
}

/// Returns the memories that a closed retrospective found applied, with their runs: the trace shows the agent acting
/// on them, with good or bad effect. Empty for a manual or failed retrospective.
pub fn list_memory_applications(report: &Report) -> Vec<MemoryApplication> {
    if report.asked.is_some() || report.ended != RetrospectiveState::Closed {
        return Vec::new();
    }
    let was_applied =
        |one: &crate::finding::VerdictRecord| one.verdict <= crate::finding::MemoryVerdict::Applied;
    let of = report.investigations.iter().flat_map(|one| {
        one.verdicts.iter().filter(|said| was_applied(said)).map(|said| (one.run.clone(), said.memory))
    });
    let all: BTreeSet<(RunId, MemoryId)> = of.collect();
    all.into_iter().map(|(run, memory)| MemoryApplication { run, memory }).collect()
}

#[cfg(test)]
mod tests;
