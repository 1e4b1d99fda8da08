//! What an event of GitHub's says about a pull request.

use jiff::Timestamp;
use retro_core::outcome::{
    PullRequestFacts, PullRequestRef, ReviewFacts, ReviewVerdict, commit_name, trailer_names,
};
use retro_events::github::{Commit, GithubEvent, Happened, PullRequest, Review, ReviewState};
use retro_store::track::{Heard, Trailer};

/// What is stored of an event; `None` when it says nothing that is followed.
pub(crate) fn heard(event: GithubEvent) -> Option<Heard> {
    let GithubEvent { event, content_hash, at, data } = event;
    let mut heard =
        Heard { event, content_hash, pull_request: None, commits: Vec::new(), trailers: Vec::new() };
    let (pull_request, facts) = match &data.what {
        Happened::PullRequest { pull_request, .. } => (pull_request, of_itself(pull_request, at)),
        Happened::PullRequestReview { action, pull_request, review } => {
            (pull_request, of_review(pull_request, action, review, at))
        }
        Happened::PullRequestReviewComment { pull_request, .. }
        | Happened::PullRequestReviewThread { pull_request, .. } => {
            (pull_request, in_passing(pull_request, at))
        }
        // It tells nothing of the pull request but its number.
        Happened::IssueComment { .. } => return None,
        Happened::Push { commits } => {
            heard.trailers = trailers(commits);
            return (!heard.trailers.is_empty()).then_some(heard);
        }
    };
    let commits = [&pull_request.head_commit, &pull_request.merge_commit];
    heard.commits = commits.into_iter().flatten().map(|commit| commit_name(commit)).collect();
    heard.pull_request = Some((PullRequestRef::new(&data.repo, pull_request.number), facts));
    Some(heard)
}

/// Of an event that is about the pull request itself: all that is told of it counts.
fn of_itself(shown: &PullRequest, at: Timestamp) -> PullRequestFacts {
    let closed = (!shown.open && !shown.merged).then(|| shown.closed_at.unwrap_or(at));
    PullRequestFacts {
        closed_at: closed.into_iter().collect(),
        heard: Some((at, shown.open)),
        ..in_passing(shown, at)
    }
}

/// Of an event about something else, GitHub shows less of the pull request: that it is closed may stand there without
/// whether it was merged. So only what cannot be mistaken counts.
fn in_passing(shown: &PullRequest, at: Timestamp) -> PullRequestFacts {
    PullRequestFacts {
        opened_at: shown.opened_at,
        merged_at: shown.merged.then(|| shown.closed_at.unwrap_or(at)),
        ..PullRequestFacts::default()
    }
}

/// A bot's review is nobody's opinion, and a comment is no verdict.
fn of_review(shown: &PullRequest, action: &str, review: &Review, at: Timestamp) -> PullRequestFacts {
    let known = in_passing(shown, at);
    if review.by.as_ref().is_some_and(|person| person.bot) {
        return known;
    }
    let verdict = match review.state {
        ReviewState::Approved => Some(ReviewVerdict::Approved),
        ReviewState::ChangesRequested => Some(ReviewVerdict::ChangesRequested),
        ReviewState::Commented | ReviewState::Dismissed | ReviewState::Pending => None,
    };
    let dismissed = action == "dismissed" || review.state == ReviewState::Dismissed;
    if verdict.is_none() && !dismissed {
        return known;
    }
    PullRequestFacts { reviews: [(review.id, ReviewFacts { verdict, dismissed })].into(), ..known }
}

fn trailers(commits: &[Commit]) -> Vec<Trailer> {
    let of = |commit: &Commit| {
        let id = commit_name(&commit.id);
        let named = commit.runs.iter().map(|text| text.trim().to_owned());
        let named = named.filter(|text| !trailer_names(text).is_empty());
        named.map(move |named| Trailer { commit: id.clone(), named }).collect::<Vec<_>>()
    };
    let mut all: Vec<Trailer> = commits.iter().flat_map(of).collect();
    all.sort();
    all.dedup();
    all
}
