//! Facts about pull requests, and the outcome that follows from them: approved, changes requested, merged or
//! closed.
//!
//! The facts about a pull request form one value ([`PullRequestFacts`]), into which
//! [`PullRequestFacts::merge_facts`] merges each event. Merging is commutative, associative and idempotent,
//! so the order of arrival does not matter.
//!
//! **Repository names.** The event of a run contains `owner/name` without a host, so that name identifies a
//! repository within a tenant. It is stored in lower case, because GitHub names are case-insensitive.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// Maximum number of reviews stored for one pull request. The reviews with the lowest ids are kept, which are
/// the earliest because GitHub's ids grow. More review rounds than this add no information.
pub const REVIEWS_KEPT_MAX: usize = 200;
/// Maximum number of closings without a merge stored for one pull request. The earliest are kept. Only one of
/// them counts; the others are stored for people to read.
pub const CLOSINGS_KEPT_MAX: usize = 16;

/// Reference to a pull request, by repository and number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PullRequestRef {
    /// Name of the repository, as `owner/name` in lower case.
    pub repo: String,
    /// Number of the pull request in its repository.
    pub number: u64,
}

impl PullRequestRef {
    /// Creates a reference from a repository name in any case and a number.
    pub fn new(repo: &str, number: u64) -> Self {
        Self { repo: normalize_repo(repo), number }
    }
}

impl std::fmt::Display for PullRequestRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}", self.repo, self.number)
    }
}

/// Normalizes a repository name for storage: trimmed, and in lower case because GitHub names are
/// case-insensitive.
pub fn normalize_repo(text: &str) -> String {
    text.trim().to_lowercase()
}

/// Normalizes a commit hash for storage: trimmed and in lower case.
pub fn normalize_commit(text: &str) -> String {
    text.trim().to_lowercase()
}

/// Known facts about a pull request. Facts are added and never removed, apart from the limits on reviews and
/// closings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PullRequestFacts {
    /// Time when the pull request was opened; `None` while unknown. If events differ, the earliest time wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<Timestamp>,
    /// Time when the pull request was merged; `None` if no merge is known. If events differ, the earliest
    /// time wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_at: Option<Timestamp>,
    /// Times when the pull request was closed without a merge, at most [`CLOSINGS_KEPT_MAX`]. Kept if the
    /// pull request is reopened.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub closed_at: BTreeSet<Timestamp>,
    /// Time of the latest known event, and `true` if the pull request was open then; `None` while no such
    /// event is known. Of two events at the same time, the one with an open pull request wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_state: Option<(Timestamp, bool)>,
    /// Time when what the pull request merged was reverted; `None` if no revert is known. If events differ, the
    /// earliest time wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverted_at: Option<Timestamp>,
    /// Reviews keyed by GitHub's review id, without those of bots, at most [`REVIEWS_KEPT_MAX`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reviews: BTreeMap<u64, ReviewFacts>,
}

/// Facts about one review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReviewFacts {
    /// Verdict of the review; `None` while only its dismissal is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<ReviewVerdict>,
    /// `true` if the review was dismissed.
    #[serde(default)]
    pub dismissed: bool,
    /// `true` if an owner, a member or a collaborator of the repository gave the verdict. Anybody may review a public
    /// repository, and only these people decide what is merged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_insider: bool,
}

/// Verdict of a review that approved the pull request or requested changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewVerdict {
    /// The reviewer approved the pull request.
    Approved,
    /// The reviewer requested changes, which counts as a review round.
    ChangesRequested,
}

impl PullRequestFacts {
    /// Returns these facts merged with those of another event.
    #[must_use]
    pub fn merge_facts(mut self, other: &Self) -> Self {
        self.opened_at = earlier_of(self.opened_at, other.opened_at);
        self.merged_at = earlier_of(self.merged_at, other.merged_at);
        self.reverted_at = earlier_of(self.reverted_at, other.reverted_at);
        self.closed_at.extend(&other.closed_at);
        // Dropping the largest ones after each merge leaves the same smallest ones in any order of merges.
        while self.closed_at.len() > CLOSINGS_KEPT_MAX {
            self.closed_at.pop_last();
        }
        // The tuple compares the time first, then open (`true`) before closed, so the order of events does
        // not matter.
        self.latest_state = self.latest_state.max(other.latest_state);
        for (id, review) in &other.reviews {
            let known = self.reviews.entry(*id).or_default();
            // The maximum does not depend on the order of the events.
            known.verdict = known.verdict.max(review.verdict);
            known.dismissed |= review.dismissed;
            known.by_insider |= review.by_insider;
        }
        while self.reviews.len() > REVIEWS_KEPT_MAX {
            self.reviews.pop_last();
        }
        self
    }

    /// Returns `true` if the pull request has an approving review that was not dismissed.
    pub fn is_approved(&self) -> bool {
        let stands = |one: &ReviewFacts| one.verdict == Some(ReviewVerdict::Approved) && !one.dismissed;
        self.reviews.values().any(stands)
    }

    /// Returns the number of reviews that requested changes. A review that was dismissed later still counts.
    pub fn review_rounds(&self) -> u32 {
        let requested = |one: &&ReviewFacts| one.verdict == Some(ReviewVerdict::ChangesRequested);
        u32::try_from(self.reviews.values().filter(requested).count()).expect("reviews are bounded")
    }

    /// Returns `true` if the pull request was merged and then reverted. Without a merge there was nothing to revert.
    pub const fn is_reverted(&self) -> bool {
        self.merged_at.is_some() && self.reverted_at.is_some()
    }

    /// Returns the state of the pull request, as far as events have reported it.
    pub fn state(&self) -> PullRequestState {
        match (self.merged_at, self.latest_state) {
            (Some(_), _) => PullRequestState::Merged,
            (None, Some((_, false))) if !self.closed_at.is_empty() => PullRequestState::Closed,
            _ => PullRequestState::Open,
        }
    }

    /// Returns the seconds from opening to merge; `None` while either time is unknown.
    pub fn time_to_merge_s(&self) -> Option<u64> {
        let (opened, merged) = (self.opened_at?, self.merged_at?);
        // The two times come from separate events and may be inconsistent; a negative duration counts as 0.
        Some(u64::try_from(merged.as_second() - opened.as_second()).unwrap_or(0))
    }

    /// Returns the outcomes of the pull request for which what was applied in its runs gets credit, in the order of
    /// [`CreditedOutcome`]. There may be several, such as changes requested and then a merge: each may be credited
    /// before another is known, and credit is never taken back. So outcomes are added and never removed: a dismissed
    /// request for changes still counts.
    pub fn outcomes(&self) -> Vec<CreditedOutcome> {
        let requested =
            |one: &ReviewFacts| one.by_insider && one.verdict == Some(ReviewVerdict::ChangesRequested);
        let known = [
            (self.merged_at.is_some(), CreditedOutcome::Merged),
            (!self.closed_at.is_empty(), CreditedOutcome::ClosedUnmerged),
            (self.reviews.values().any(requested), CreditedOutcome::ChangesRequested),
            (self.is_reverted(), CreditedOutcome::Reverted),
        ];
        known.into_iter().filter_map(|(is_known, outcome)| is_known.then_some(outcome)).collect()
    }
}

fn earlier_of(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// State of a pull request, as far as events have reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum PullRequestState {
    /// The pull request is not known to have ended.
    Open,
    /// The pull request was merged.
    Merged,
    /// The pull request was closed without a merge and has not been reopened.
    Closed,
}

impl PullRequestState {
    /// Returns the state as it is shown, such as `merged`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Outcome of a pull request for which the memories and rules that were applied in its runs get credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum CreditedOutcome {
    /// The pull request was merged.
    Merged,
    /// The pull request was closed without a merge.
    ClosedUnmerged,
    /// Somebody who decides what is merged requested changes, in one review or several.
    ChangesRequested,
    /// The pull request was merged and then reverted.
    Reverted,
}

impl CreditedOutcome {
    /// Returns the outcome as it is stored and shown, such as `closed_unmerged`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Outcome of a pull request linked to a run, as known when it was computed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequestOutcome {
    /// Pull request of the run.
    #[serde(flatten)]
    pub pull_request: PullRequestRef,
    /// State of the pull request.
    pub state: PullRequestState,
    /// `true` if the pull request has an approving review that was not dismissed.
    pub approved: bool,
    /// Number of reviews that requested changes.
    pub review_rounds: u32,
    /// `true` if the pull request was merged and then reverted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reverted: bool,
    /// Seconds from opening to merge; `None` if the pull request was not merged or the time is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_merge_s: Option<u64>,
}

impl PullRequestOutcome {
    /// Computes the outcome from the facts about a pull request.
    pub fn from_facts(pull_request: PullRequestRef, facts: &PullRequestFacts) -> Self {
        Self {
            pull_request,
            state: facts.state(),
            approved: facts.is_approved(),
            review_rounds: facts.review_rounds(),
            reverted: facts.is_reverted(),
            time_to_merge_s: facts.time_to_merge_s(),
        }
    }
}

#[cfg(test)]
mod tests;
