//! What a webhook says, decided from its bytes alone: taken, or left with the reason.

use bytes::Bytes;
use jiff::Timestamp;
use retro_core::json::{Bounds, Document, Kind};
use retro_events::github::tenants::{HOST, is_host, is_name};
use retro_events::github::{
    Association, COMMITS_MAX, Comment, GithubData, Happened, Person, PullRequest, Review, ReviewState,
};
use retro_events::run_completed::RunEvent;

use crate::payload::{self, Payload};
use crate::{run, text, trailer};

/// The longest login, in bytes: GitHub's have at most 39 characters, an Enterprise server's a suffix, an App's `[bot]`.
const LOGIN_BYTES_MAX: usize = 100;
/// The longest address of a page, in bytes.
const URL_BYTES_MAX: usize = 1024;
/// The longest path of a file, in bytes: what file systems take.
const PATH_BYTES_MAX: usize = 4096;

/// What became of reading a webhook.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// It asks whether somebody is there.
    Ping,
    /// It says something that is used.
    Taken(Box<Taken>),
    /// It is left alone.
    Left(Left),
}

/// Why a webhook is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Left {
    /// The event is not used.
    #[error("events of this kind are not used")]
    Event,
    /// The event is used, and this action is not.
    #[error("this action is not used")]
    Action,
    /// It is about nothing that is used, such as a comment on a plain issue.
    #[error("{0}")]
    Beside(&'static str),
    /// Something is missing without which it says nothing.
    #[error("{0} is missing")]
    Incomplete(&'static str),
    /// A field that is used has another shape than GitHub documents; its path. What stands there is not repeated.
    #[error("`{0}` has another shape than GitHub documents")]
    Shape(String),
}

/// What a webhook says, and of what.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// The host of the repository.
    pub host: String,
    /// The repository, `owner/name`.
    pub repo: String,
    /// The installation of the GitHub App that sent it.
    pub installation: Option<u64>,
    /// When it happened, where GitHub says so.
    pub at: Option<Timestamp>,
    /// What it says.
    pub fact: Fact,
}

/// What a webhook says.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// Something happened to a pull request, or commits that name a run arrived.
    Happened(GithubData),
    /// A workflow of GitHub's is over: a run of ours.
    Run(RunEvent),
}

/// Reads the body of the webhook of an event (`X-GitHub-Event`) whose delivery has this id. Fails when it is not JSON, and says
/// where.
pub fn read(event: &str, delivery: &str, body: &Bytes) -> Result<Reading, String> {
    if event == "ping" {
        return Ok(Reading::Ping);
    }
    if !EVENTS.contains(&event) {
        let is_object = parse(body)?.root().kind() == Kind::Object;
        return Ok(Reading::Left(if is_object { Left::Event } else { Left::Shape(".".to_owned()) }));
    }
    let document = parse(body)?;
    let payload = serde_path_to_error::deserialize::<_, Payload>(document.root())
        .map_err(|error| Left::Shape(error.path().to_string()));
    let read = payload.and_then(|payload| taken(event, delivery, payload));
    Ok(match read {
        Ok(taken) => Reading::Taken(Box::new(taken)),
        Err(left) => Reading::Left(left),
    })
}

fn parse(body: &Bytes) -> Result<Document, String> {
    Document::parse(body, Bounds::bytes(body.len())).map_err(|rejection| rejection.to_string())
}

/// The events that are used, by GitHub's names.
pub(crate) const EVENTS: [&str; 7] = [
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_review_thread",
    "issue_comment",
    "push",
    "workflow_run",
];

fn taken(event: &str, delivery: &str, payload: Payload) -> Result<Taken, Left> {
    let action = action(event, payload.action.as_deref())?;
    let repository = payload.repository.as_ref().ok_or(Left::Incomplete("`repository`"))?;
    let repo = repo(repository).ok_or(Left::Incomplete("`repository.full_name`"))?;
    let host = host(repository.html_url.as_deref());
    let installation = payload.installation.as_ref().and_then(|installation| installation.id);
    let (at, fact) = if event == "workflow_run" {
        let run = run::of(&host, &repo, delivery, payload)?;
        (run.run.finished_at, Fact::Run(run))
    } else {
        let at = at(action, &payload);
        let sender = payload.sender.as_ref().and_then(person);
        let what = happened(event, action, payload)?;
        (at, Fact::Happened(GithubData { repo: repo.clone(), host: host.clone(), sender, what }))
    };
    Ok(Taken { host, repo, installation, at, fact })
}

/// The action in our own words, when it is used. A push has none.
fn action(event: &str, found: Option<&str>) -> Result<&'static str, Left> {
    let used: &[&'static str] = match event {
        "pull_request" => &["opened", "synchronize", "closed", "reopened"],
        "pull_request_review" => &["submitted", "edited", "dismissed"],
        "pull_request_review_comment" | "issue_comment" => &["created", "edited", "deleted"],
        "pull_request_review_thread" => &["resolved", "unresolved"],
        "workflow_run" => &["completed"],
        _ => return Ok("pushed"),
    };
    used.iter().copied().find(|action| Some(*action) == found).ok_or(Left::Action)
}

fn happened(event: &str, action: &str, payload: Payload) -> Result<Happened, Left> {
    let action = action.to_owned();
    let pull_request =
        || payload.pull_request.map(pull_request).unwrap_or_else(|| Err(Left::Incomplete("`pull_request`")));
    Ok(match event {
        "pull_request" => Happened::PullRequest { action, pull_request: pull_request()? },
        "pull_request_review" => Happened::PullRequestReview {
            action,
            pull_request: pull_request()?,
            review: review(payload.review.ok_or(Left::Incomplete("`review`"))?)?,
        },
        "pull_request_review_comment" => Happened::PullRequestReviewComment {
            action,
            pull_request: pull_request()?,
            comment: comment(payload.comment.ok_or(Left::Incomplete("`comment`"))?)?,
        },
        "pull_request_review_thread" => Happened::PullRequestReviewThread {
            action,
            pull_request: pull_request()?,
            comments: thread(payload.thread.ok_or(Left::Incomplete("`thread`"))?),
        },
        "issue_comment" => {
            let issue = payload.issue.ok_or(Left::Incomplete("`issue`"))?;
            issue.pull_request.ok_or(Left::Beside("the issue is no pull request"))?;
            Happened::IssueComment {
                action,
                number: issue.number.ok_or(Left::Incomplete("`issue.number`"))?,
                comment: comment(payload.comment.ok_or(Left::Incomplete("`comment`"))?)?,
            }
        }
        _ => push(payload.commits.unwrap_or_default())?,
    })
}

fn push(commits: Vec<payload::Commit>) -> Result<Happened, Left> {
    let commits: Vec<_> = commits.into_iter().filter_map(trailer::commit).take(COMMITS_MAX).collect();
    match commits.is_empty() {
        true => Err(Left::Beside("no commit names a run")),
        false => Ok(Happened::Push { commits }),
    }
}

fn pull_request(found: payload::PullRequest) -> Result<PullRequest, Left> {
    let merged = found.merged.unwrap_or(found.merged_at.is_some());
    Ok(PullRequest {
        number: found.number.ok_or(Left::Incomplete("`pull_request.number`"))?,
        author: found.user.as_ref().and_then(person),
        open: found.state.as_deref() == Some("open"),
        merged,
        head_commit: text::hash(found.head.and_then(|head| head.sha)),
        // Before that it is a try of GitHub's, which nobody merged.
        merge_commit: text::hash(found.merge_commit_sha).filter(|_| merged),
        opened_at: found.created_at,
        closed_at: found.closed_at,
        url: text::short(found.html_url, URL_BYTES_MAX),
    })
}

fn review(found: payload::Review) -> Result<Review, Left> {
    let state = match found.state.unwrap_or_default().to_ascii_lowercase().as_str() {
        "approved" => ReviewState::Approved,
        "changes_requested" => ReviewState::ChangesRequested,
        "commented" => ReviewState::Commented,
        "dismissed" => ReviewState::Dismissed,
        _ => ReviewState::Pending,
    };
    Ok(Review {
        id: found.id.ok_or(Left::Incomplete("`review.id`"))?,
        by: found.user.as_ref().and_then(person),
        association: association(found.author_association.as_deref()),
        state,
        body: text::of_person(&found.body.unwrap_or_default()).0,
        at: found.submitted_at,
        url: text::short(found.html_url, URL_BYTES_MAX),
    })
}

fn comment(found: payload::Comment) -> Result<Comment, Left> {
    let (body, cut) = text::of_person(&found.body.unwrap_or_default());
    Ok(Comment {
        id: found.id.ok_or(Left::Incomplete("`comment.id`"))?,
        by: found.user.as_ref().and_then(person),
        association: association(found.author_association.as_deref()),
        body,
        cut,
        review: found.pull_request_review_id,
        reply_to: found.in_reply_to_id,
        path: text::short(found.path, PATH_BYTES_MAX),
        line: found.line.or(found.original_line),
        thumbs_up: found.reactions.and_then(|reactions| reactions.thumbs_up).unwrap_or_default(),
        at: found.created_at,
        changed_at: found.updated_at,
        url: text::short(found.html_url, URL_BYTES_MAX),
    })
}

fn thread(found: payload::Thread) -> Vec<u64> {
    found.comments.unwrap_or_default().into_iter().filter_map(|comment| comment.id).collect()
}

fn person(found: &payload::User) -> Option<Person> {
    let login = text::short(found.login.clone(), LOGIN_BYTES_MAX)?;
    let bot = found.kind.as_deref() == Some("Bot") || login.ends_with("[bot]");
    Some(Person { login, bot })
}

fn association(found: Option<&str>) -> Association {
    match found {
        Some("OWNER") => Association::Owner,
        Some("MEMBER") => Association::Member,
        Some("COLLABORATOR") => Association::Collaborator,
        Some("CONTRIBUTOR") => Association::Contributor,
        _ => Association::None,
    }
}

/// `owner/name`.
fn repo(found: &payload::Repository) -> Option<String> {
    let owner = found.owner.as_ref().and_then(|owner| owner.login.as_ref().or(owner.name.as_ref()));
    let full_name = found.full_name.clone().or_else(|| Some(format!("{}/{}", owner?, found.name.as_ref()?)));
    full_name.filter(|repo| repo.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name)))
}

/// Where the repository's page is.
fn host(page: Option<&str>) -> String {
    let rest = page.and_then(|page| page.strip_prefix("https://").or_else(|| page.strip_prefix("http://")));
    let host = rest.and_then(|rest| rest.split('/').next()).map(str::to_lowercase);
    host.filter(|host| is_host(host)).unwrap_or_else(|| HOST.to_owned())
}

/// When it happened. For what has no time of its own, such as a deletion, GitHub does not say.
fn at(action: &str, payload: &Payload) -> Option<Timestamp> {
    let pull_request = payload.pull_request.as_ref();
    let changed = pull_request.and_then(|one| one.updated_at);
    if let Some(review) = &payload.review {
        return if action == "submitted" { review.submitted_at } else { changed };
    }
    match (action, &payload.comment) {
        ("created", Some(comment)) => comment.created_at,
        ("edited", Some(comment)) => comment.updated_at,
        (_, Some(_)) => None,
        ("opened", None) => pull_request.and_then(|one| one.created_at),
        ("closed", None) => pull_request.and_then(|one| one.closed_at),
        ("pushed", None) => payload.head_commit.as_ref().and_then(|commit| commit.timestamp),
        (_, None) => changed,
    }
}

#[cfg(test)]
mod tests;
