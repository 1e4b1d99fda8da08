//! What became of a pull request, and so of the runs behind it: approved, sent back, merged, closed.
//!
//! **The need.** A run that ended in success may have made a pull request that nobody wanted. What GitHub says of it comes
//! weeks later, in any order, twice, or before the run itself is known.
//!
//! **The design.** Everything known about a pull request is one value that only grows ([`PullRequestFacts`]), and an event
//! adds to it by [`PullRequestFacts::join`]: commutative, associative, idempotent, so the order of arrival is nothing that
//! could matter. Which run belongs to which pull request is no decision that somebody takes at a moment, but a question
//! to what is stored: the rules stand at [`RunReferences`] and [`trailer_names`].
//!
//! **What a repository is called.** A run's event names `owner/name` and no host, so a tenant's repositories are told apart
//! by that name alone, and in lower case, since names at GitHub do not differ by case.

mod credit;
mod sums;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{MemoryId, RunId, Workflow};
use crate::report::Report;
use crate::retrospective::State;
use crate::run::RunFacts;

pub use credit::{CreditFacts, Credited, Use, credit};
pub use sums::{OutcomeSums, WorkflowOutcomes};

/// Reviews remembered of one pull request, those with the lowest ids. GitHub's ids grow, so these are the first ones; more
/// rounds than this tell nothing that fewer do not.
pub const REVIEWS_KEPT_MAX: usize = 200;
/// Closings without a merge that are remembered of one pull request, the first ones: one counts, the rest is for people.
pub const CLOSINGS_KEPT_MAX: usize = 16;
/// Pull requests of one run that a report notes, the first ones by repository and number: a run's commit may stand at the
/// head of several, but nobody reads more of them there.
pub const PULL_REQUESTS_NOTED_MAX: usize = 8;
/// Ways to read one trailer as workflow and run, at most: a slash may belong to either name.
pub const TRAILER_READINGS_MAX: usize = 8;

/// A pull request of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PullRequestRef {
    /// The repository, `owner/name` in lower case.
    pub repo: String,
    /// Its number there.
    pub number: u64,
}

impl PullRequestRef {
    /// The pull request with this number of a repository, however the name is written.
    pub fn new(repo: &str, number: u64) -> Self {
        Self { repo: repo_name(repo), number }
    }
}

impl std::fmt::Display for PullRequestRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}", self.repo, self.number)
    }
}

/// The name under which a repository is kept: GitHub takes either case for the same.
pub fn repo_name(text: &str) -> String {
    text.trim().to_lowercase()
}

/// Everything known about a pull request; only grows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PullRequestFacts {
    /// When it was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<Timestamp>,
    /// When it was merged; the earliest moment that was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_at: Option<Timestamp>,
    /// When it was closed without a merge, at most [`CLOSINGS_KEPT_MAX`]; one that was reopened stays here.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub closed_at: BTreeSet<Timestamp>,
    /// The last that was heard of it, and whether it was open then. Of two things heard of one moment, open stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<(Timestamp, bool)>,
    /// Reviews by GitHub's id, those of bots left out, at most [`REVIEWS_KEPT_MAX`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reviews: BTreeMap<u64, ReviewFacts>,
}

/// What a review said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReviewFacts {
    /// The verdict; `None` as long as only its dismissal was heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<ReviewVerdict>,
    /// Whether it was taken back.
    #[serde(default)]
    pub dismissed: bool,
}

/// The verdict of a review that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewVerdict {
    /// It may be merged.
    Approved,
    /// Something has to change first: a review round.
    ChangesRequested,
}

impl PullRequestFacts {
    /// Adds what another event said.
    #[must_use]
    pub fn join(mut self, other: &Self) -> Self {
        self.opened_at = earliest(self.opened_at, other.opened_at);
        self.merged_at = earliest(self.merged_at, other.merged_at);
        self.closed_at.extend(&other.closed_at);
        while self.closed_at.len() > CLOSINGS_KEPT_MAX {
            self.closed_at.pop_last();
        }
        self.heard = self.heard.max(other.heard);
        for (id, said) in &other.reviews {
            let known = self.reviews.entry(*id).or_default();
            known.verdict = known.verdict.max(said.verdict);
            known.dismissed |= said.dismissed;
        }
        while self.reviews.len() > REVIEWS_KEPT_MAX {
            self.reviews.pop_last();
        }
        self
    }

    /// Whether a review approved it that was not taken back.
    pub fn approved(&self) -> bool {
        let stands = |one: &ReviewFacts| one.verdict == Some(ReviewVerdict::Approved) && !one.dismissed;
        self.reviews.values().any(stands)
    }

    /// How often changes were requested; one that was taken back later was a round all the same.
    pub fn review_rounds(&self) -> u32 {
        let asked = |one: &&ReviewFacts| one.verdict == Some(ReviewVerdict::ChangesRequested);
        u32::try_from(self.reviews.values().filter(asked).count()).expect("they are bounded")
    }

    /// Where it stands.
    pub fn standing(&self) -> Standing {
        match (self.merged_at, self.heard) {
            (Some(_), _) => Standing::Merged,
            (None, Some((_, false))) if !self.closed_at.is_empty() => Standing::Closed,
            _ => Standing::Open,
        }
    }

    /// Seconds from its opening to its merge; `None` until both are known.
    pub fn time_to_merge_s(&self) -> Option<u64> {
        let (opened, merged) = (self.opened_at?, self.merged_at?);
        Some(u64::try_from(merged.as_second() - opened.as_second()).unwrap_or(0))
    }

    /// What a memory that was applied in a run behind it is credited with. One that was closed, reopened and merged has
    /// both, since either may have been credited by the time the other is heard of, and nothing is ever taken back.
    pub fn ends(&self) -> Vec<PullRequestEnd> {
        let merged = self.merged_at.is_some().then_some(PullRequestEnd::Merged);
        let closed = (!self.closed_at.is_empty()).then_some(PullRequestEnd::ClosedUnmerged);
        merged.into_iter().chain(closed).collect()
    }
}

fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// Where a pull request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Nobody has heard of its end.
    Open,
    /// It was merged.
    Merged,
    /// It was closed without a merge, and not reopened since.
    Closed,
}

impl Standing {
    /// The word as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Merged => "merged",
            Self::Closed => "closed",
        }
    }
}

/// How a pull request ended: what credit is given for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullRequestEnd {
    /// It was merged.
    Merged,
    /// It was closed without a merge.
    ClosedUnmerged,
}

impl PullRequestEnd {
    /// The word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Merged => "merged",
            Self::ClosedUnmerged => "closed_unmerged",
        }
    }
}

/// What a run's event says about where it belongs.
///
/// A run that names repository and number belongs to that pull request and no other. Any other run belongs to every pull
/// request of which its commit is or was the head, or which its commit merged; and to those of which such a commit
/// names the run in a trailer ([`trailer_names`]). A repository that the run names has to be the pull request's. Nothing of
/// another tenant is ever looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunReferences {
    /// The repository, in lower case.
    pub repo: Option<String>,
    /// The pull request's number.
    pub number: Option<u64>,
    /// The commit, in lower case.
    pub commit: Option<String>,
}

impl RunReferences {
    /// What a run's facts say.
    pub fn of(facts: &RunFacts) -> Self {
        Self {
            repo: facts.repo.as_deref().map(repo_name),
            number: facts.pull_request,
            commit: facts.commit.as_deref().map(commit_name),
        }
    }
}

/// A commit's hash as it is kept.
pub fn commit_name(text: &str) -> String {
    text.trim().to_lowercase()
}

/// What a trailer `Retro-Run` may name: a run's id alone, or a workflow and a run's id with a slash between. Either name
/// may hold slashes itself, so there may be several readings, at most [`TRAILER_READINGS_MAX`]. The trailer names a
/// run if exactly one run of the tenant fits a reading: an id that several workflows have names none of them until it
/// is written with its workflow, since credit at the wrong place is worse than none.
pub fn trailer_names(text: &str) -> Vec<(Option<Workflow>, RunId)> {
    let text = text.trim();
    let alone = RunId::new(text).ok().map(|run| (None, run));
    let slashes = text.match_indices('/').map(|(at, _)| at);
    let split = slashes.filter_map(|at| {
        let (workflow, run) = (Workflow::new(&text[..at]).ok()?, RunId::new(&text[at + 1..]).ok()?);
        Some((Some(workflow), run))
    });
    alone.into_iter().chain(split).take(TRAILER_READINGS_MAX).collect()
}

/// What became of a run's pull request, as it was known at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The pull request.
    #[serde(flatten)]
    pub pull_request: PullRequestRef,
    /// Where it stands.
    pub standing: Standing,
    /// Whether a review approved it.
    pub approved: bool,
    /// How often changes were requested.
    pub review_rounds: u32,
    /// Seconds from its opening to its merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_merge_s: Option<u64>,
}

impl RunOutcome {
    /// What is known of a run's pull request.
    pub fn of(pull_request: PullRequestRef, facts: &PullRequestFacts) -> Self {
        Self {
            pull_request,
            standing: facts.standing(),
            approved: facts.approved(),
            review_rounds: facts.review_rounds(),
            time_to_merge_s: facts.time_to_merge_s(),
        }
    }
}

/// Which memories a closed retrospective says were applied in which run: the trace shows the agent acting on them, for good
/// or for bad. A manual one gives no credit, and neither does one that failed.
pub fn uses(report: &Report) -> Vec<Use> {
    if report.asked.is_some() || report.ended != State::Closed {
        return Vec::new();
    }
    let acted = |one: &crate::finding::MemoryVerdict| one.verdict <= crate::finding::Verdict::Applied;
    let of = report.investigations.iter().flat_map(|one| {
        one.verdicts.iter().filter(|said| acted(said)).map(|said| (one.run.clone(), said.memory))
    });
    let all: BTreeSet<(RunId, MemoryId)> = of.collect();
    all.into_iter().map(|(run, memory)| Use { run, memory }).collect()
}

#[cfg(test)]
mod tests;
