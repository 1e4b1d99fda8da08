//! Parses GitHub events into facts about pull requests.

use jiff::Timestamp;
use retro_core::outcome::parse_trailer;
use retro_core::pull_request::{
    PullRequestFacts, PullRequestRef, ReviewFacts, ReviewVerdict, normalize_commit, normalize_repo,
};
use retro_core::remark::AuthorStanding;
use retro_events::github::{
    Commit, GithubEvent, PullRequest, RepositoryEvent, RevertedChange, Review, ReviewState,
};
use retro_store::track::{self, PullRequestEvent, Revert, Trailer};

/// Parses an event into the facts to store. Returns `None` if the event contains nothing to track.
pub(crate) fn parse_pull_request_event(event: GithubEvent) -> Option<PullRequestEvent> {
    let GithubEvent { event, content_hash, occurred_at: at, data } = event;
    let mut parsed = PullRequestEvent {
        event,
        content_hash,
        pull_request: None,
        commits: Vec::new(),
        trailers: Vec::new(),
        reverts: Vec::new(),
    };
    let reverts_of = |changes: &[RevertedChange], at| {
        let revert = |change: &RevertedChange| Revert {
            repo: normalize_repo(&data.repo),
            change: match change {
                RevertedChange::PullRequest(number) => track::RevertedChange::PullRequest(*number),
                RevertedChange::Commit(hash) => track::RevertedChange::Commit(normalize_commit(hash)),
            },
            at,
        };
        changes.iter().map(revert).collect::<Vec<_>>()
    };
    let (pull_request, facts) = match &data.what {
        RepositoryEvent::PullRequest { pull_request, .. } => {
            (pull_request, facts_from_event(pull_request, at))
        }
        RepositoryEvent::PullRequestReview { action, pull_request, review } => {
            (pull_request, facts_from_review(pull_request, action, review, at))
        }
        RepositoryEvent::PullRequestReviewComment { pull_request, .. }
        | RepositoryEvent::PullRequestReviewThread { pull_request, .. } => {
            (pull_request, partial_facts(pull_request, at))
        }
        // The event contains nothing about the pull request except its number.
        RepositoryEvent::IssueComment { .. } => return None,
        RepositoryEvent::Push { commits } => {
            parsed.trailers = collect_trailers(commits);
            parsed.reverts = commits.iter().flat_map(|commit| reverts_of(&commit.reverts, at)).collect();
            let is_used = !parsed.trailers.is_empty() || !parsed.reverts.is_empty();
            return is_used.then_some(parsed);
        }
    };
    let commits = [&pull_request.head_commit, &pull_request.merge_commit];
    parsed.commits = commits.into_iter().flatten().map(|commit| normalize_commit(commit)).collect();
    // What a pull request says that it reverts stands until somebody merges it.
    parsed.reverts = facts.merged_at.map(|at| reverts_of(&pull_request.reverts, at)).unwrap_or_default();
    parsed.pull_request = Some((PullRequestRef::new(&data.repo, pull_request.number), facts));
    Some(parsed)
}

/// Returns the facts from an event about the pull request itself, in which all fields are reliable.
fn facts_from_event(shown: &PullRequest, at: Timestamp) -> PullRequestFacts {
    let closed = (!shown.open && !shown.merged).then(|| shown.closed_at.unwrap_or(at));
    PullRequestFacts {
        closed_at: closed.into_iter().collect(),
        latest_state: Some((at, shown.open)),
        ..partial_facts(shown, at)
    }
}

/// Returns the facts from an event about something other than the pull request. Such an event contains fewer
/// fields of the pull request: it may state that the pull request is closed but not whether it was merged.
/// Therefore, only unambiguous fields are used.
fn partial_facts(shown: &PullRequest, at: Timestamp) -> PullRequestFacts {
    PullRequestFacts {
        opened_at: shown.opened_at,
        merged_at: shown.merged.then(|| shown.closed_at.unwrap_or(at)),
        ..PullRequestFacts::default()
    }
}

/// Returns the facts from a review. Reviews by bots are ignored, and a review that only comments is not a
/// verdict.
fn facts_from_review(shown: &PullRequest, action: &str, review: &Review, at: Timestamp) -> PullRequestFacts {
    let known = partial_facts(shown, at);
    let is_bot = review.by.as_ref().is_some_and(|person| person.bot);
    if is_bot {
        return known;
    }
    let standing = AuthorStanding::from_association(review.association, is_bot);
    let by_insider = standing == AuthorStanding::Insider;
    let verdict = match review.state {
        ReviewState::Approved => Some(ReviewVerdict::Approved),
        ReviewState::ChangesRequested => Some(ReviewVerdict::ChangesRequested),
        ReviewState::Commented | ReviewState::Dismissed | ReviewState::Pending => None,
    };
    let dismissed = action == "dismissed" || review.state == ReviewState::Dismissed;
    if verdict.is_none() && !dismissed {
        return known;
    }
    PullRequestFacts {
        reviews: [(review.id, ReviewFacts { verdict, dismissed, by_insider })].into(),
        ..known
    }
}

fn collect_trailers(commits: &[Commit]) -> Vec<Trailer> {
    let of = |commit: &Commit| {
        let id = normalize_commit(&commit.id);
        let named = commit.runs.iter().map(|text| text.trim().to_owned());
        let named = named.filter(|text| !parse_trailer(text).is_empty());
        let trailer =
            |text| Trailer { commit: id.clone(), text, prompt_version: commit.prompt_version.clone() };
        named.map(trailer).collect::<Vec<_>>()
    };
    let mut all: Vec<Trailer> = commits.iter().flat_map(of).collect();
    all.sort();
    all.dedup();
    all
}
