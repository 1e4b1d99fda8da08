//! Parses webhooks and decides, from the bytes alone, to accept or ignore each one.

use bytes::Bytes;
use jiff::Timestamp;
use retro_core::json::{JsonBounds, JsonDocument, JsonKind};
use retro_events::github::tenants::{DEFAULT_HOST, is_host, is_name};
use retro_events::github::{
    AuthorAssociation, COMMITS_MAX, Comment, GithubData, Person, PullRequest, RepositoryEvent, Review,
    ReviewState,
};
use retro_events::run_completed::RunEvent;

use crate::ignored::Ignored;
use crate::payload::{self, Payload};
use crate::revert::parse_reverts;
use crate::trailer::DefaultBranchPush;
use crate::{text, trailer, workflow_run};

/// Maximum length of a login, in bytes. GitHub allows 39 characters, GitHub Enterprise adds a suffix, and an
/// App adds `[bot]`.
const LOGIN_BYTES_MAX: usize = 100;
/// Maximum length of a page URL, in bytes.
const URL_BYTES_MAX: usize = 1024;
/// Maximum length of a file path, in bytes, as in most file systems.
const PATH_BYTES_MAX: usize = 4096;

/// Result of parsing a webhook.
#[derive(Debug, Clone, PartialEq)]
pub enum ParsedWebhook {
    /// The webhook is a ping.
    Ping,
    /// The webhook contains an event that the program uses.
    Accepted(Box<AcceptedWebhook>),
    /// The webhook is ignored for the given reason.
    Ignored(Ignored),
}

/// Content of a webhook, with its repository and time.
#[derive(Debug, Clone, PartialEq)]
pub struct AcceptedWebhook {
    /// Host of the repository, such as `github.com`.
    pub host: String,
    /// Repository as `owner/name`.
    pub repo: String,
    /// Id of the GitHub App installation that sent the webhook; `None` if the payload has none.
    pub installation: Option<u64>,
    /// Time of the event; `None` if the payload has none.
    pub occurred_at: Option<Timestamp>,
    /// The event itself.
    pub content: WebhookContent,
}

/// Event that a webhook reports.
#[derive(Debug, Clone, PartialEq)]
pub enum WebhookContent {
    /// A change to a pull request, or a push of commits that name a run.
    Repository(GithubData),
    /// A finished GitHub Actions workflow, converted to a run.
    Run(RunEvent),
}

/// Parses a webhook with this event name (`X-GitHub-Event`). Fails with the position of the error if the body
/// is not JSON.
pub fn parse_webhook(event: &str, body: &Bytes) -> Result<ParsedWebhook, String> {
    if event == "ping" {
        return Ok(ParsedWebhook::Ping);
    }
    if !USED_EVENTS.contains(&event) {
        let is_object = parse_document(body)?.root().kind() == JsonKind::Object;
        return Ok(ParsedWebhook::Ignored(if is_object {
            Ignored::UnusedEvent
        } else {
            Ignored::UnexpectedShape(".".to_owned())
        }));
    }
    let document = parse_document(body)?;
    let payload = serde_path_to_error::deserialize::<_, Payload>(document.root())
        .map_err(|error| Ignored::UnexpectedShape(error.path().to_string()));
    let read = payload.and_then(|payload| parse_payload(event, payload));
    Ok(match read {
        Ok(webhook) => ParsedWebhook::Accepted(Box::new(webhook)),
        Err(left) => ParsedWebhook::Ignored(left),
    })
}

fn parse_document(body: &Bytes) -> Result<JsonDocument, String> {
    JsonDocument::parse(body, JsonBounds::with_bytes_max(body.len()))
        .map_err(|rejection| rejection.to_string())
}

/// GitHub's names of the events that are used.
pub(crate) const USED_EVENTS: [&str; 7] = [
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_review_thread",
    "issue_comment",
    "push",
    "workflow_run",
];

fn parse_payload(event: &str, payload: Payload) -> Result<AcceptedWebhook, Ignored> {
    let action = find_used_action(event, payload.action.as_deref())?;
    let repository = payload.repository.as_ref().ok_or(Ignored::Incomplete("`repository`"))?;
    let repo = repository_name(repository).ok_or(Ignored::Incomplete("`repository.full_name`"))?;
    let host = repository_host(repository.html_url.as_deref());
    let installation = payload.installation.as_ref().and_then(|installation| installation.id);
    let (at, fact) = if event == "workflow_run" {
        let run = workflow_run::parse_workflow_run(&host, &repo, payload)?;
        (run.run.finished_at, WebhookContent::Run(run))
    } else {
        let at = event_time(action, &payload);
        let what = parse_repository_event(event, action, &repo, payload)?;
        (at, WebhookContent::Repository(GithubData { repo: repo.clone(), host: host.clone(), what }))
    };
    Ok(AcceptedWebhook { host, repo, installation, occurred_at: at, content: fact })
}

/// Returns the action if it is used. Pushes have no action and return `pushed`.
fn find_used_action(event: &str, found: Option<&str>) -> Result<&'static str, Ignored> {
    let used: &[&'static str] = match event {
        "pull_request" => &["opened", "synchronize", "closed", "reopened"],
        "pull_request_review" => &["submitted", "edited", "dismissed"],
        "pull_request_review_comment" | "issue_comment" => &["created", "edited", "deleted"],
        "pull_request_review_thread" => &["resolved", "unresolved"],
        "workflow_run" => &["completed"],
        _ => return Ok("pushed"),
    };
    used.iter().copied().find(|action| Some(*action) == found).ok_or(Ignored::UnusedAction)
}

fn parse_repository_event(
    event: &str,
    action: &str,
    repo: &str,
    payload: Payload,
) -> Result<RepositoryEvent, Ignored> {
    let action = action.to_owned();
    let is_default_branch = is_default_branch_push(&payload);
    let pull_request = || {
        payload
            .pull_request
            .map(|found| parse_pull_request(repo, found))
            .unwrap_or_else(|| Err(Ignored::Incomplete("`pull_request`")))
    };
    Ok(match event {
        "pull_request" => RepositoryEvent::PullRequest { action, pull_request: pull_request()? },
        "pull_request_review" => RepositoryEvent::PullRequestReview {
            action,
            pull_request: pull_request()?,
            review: parse_review(payload.review.ok_or(Ignored::Incomplete("`review`"))?)?,
        },
        "pull_request_review_comment" => RepositoryEvent::PullRequestReviewComment {
            action,
            pull_request: pull_request()?,
            comment: parse_comment(payload.comment.ok_or(Ignored::Incomplete("`comment`"))?)?,
        },
        "pull_request_review_thread" => RepositoryEvent::PullRequestReviewThread {
            action,
            pull_request: pull_request()?,
            comments: thread_comment_ids(payload.thread.ok_or(Ignored::Incomplete("`thread`"))?),
        },
        "issue_comment" => {
            let issue = payload.issue.ok_or(Ignored::Incomplete("`issue`"))?;
            issue.pull_request.ok_or(Ignored::NotRelevant("the issue is not a pull request"))?;
            RepositoryEvent::IssueComment {
                action,
                number: issue.number.ok_or(Ignored::Incomplete("`issue.number`"))?,
                comment: parse_comment(payload.comment.ok_or(Ignored::Incomplete("`comment`"))?)?,
            }
        }
        _ => parse_push(repo, is_default_branch, payload.commits.unwrap_or_default())?,
    })
}

/// Returns `true` if the push was to the default branch, as far as the payload says.
fn is_default_branch_push(payload: &Payload) -> bool {
    let branch = payload.repository.as_ref().and_then(|repository| repository.default_branch.as_ref());
    branch
        .zip(payload.git_ref.as_ref())
        .is_some_and(|(branch, pushed)| pushed.strip_prefix("refs/heads/") == Some(branch))
}

fn parse_push(
    repo: &str,
    is_default_branch: bool,
    commits: Vec<payload::Commit>,
) -> Result<RepositoryEvent, Ignored> {
    let hashes = commits.iter().filter_map(|commit| Some(commit.id.as_ref()?.to_lowercase()));
    let push =
        is_default_branch.then(|| DefaultBranchPush { repo: repo.to_owned(), pushed: hashes.collect() });
    let used = commits.into_iter().filter_map(|commit| trailer::parse_commit(commit, push.as_ref()));
    let commits: Vec<_> = used.take(COMMITS_MAX).collect();
    match commits.is_empty() {
        true => Err(Ignored::NotRelevant("no commit names a run or a revert")),
        false => Ok(RepositoryEvent::Push { commits }),
    }
}

fn parse_pull_request(repo: &str, found: payload::PullRequest) -> Result<PullRequest, Ignored> {
    let description = text::truncate_body(&found.body.unwrap_or_default()).0;
    let merged = found.merged.unwrap_or(found.merged_at.is_some());
    Ok(PullRequest {
        number: found.number.ok_or(Ignored::Incomplete("`pull_request.number`"))?,
        author: found.user.as_ref().and_then(parse_person),
        open: found.state.as_deref() == Some("open"),
        merged,
        head_commit: text::commit_hash(found.head.and_then(|head| head.sha)),
        // For an open pull request, GitHub sends the commit of a test merge here.
        merge_commit: text::commit_hash(found.merge_commit_sha).filter(|_| merged),
        opened_at: found.created_at,
        closed_at: found.closed_at,
        url: text::bounded_text(found.html_url, URL_BYTES_MAX),
        reverts: parse_reverts(repo, &description),
    })
}

fn parse_review(found: payload::Review) -> Result<Review, Ignored> {
    let state = match found.state.unwrap_or_default().to_ascii_lowercase().as_str() {
        "approved" => ReviewState::Approved,
        "changes_requested" => ReviewState::ChangesRequested,
        "commented" => ReviewState::Commented,
        "dismissed" => ReviewState::Dismissed,
        _ => ReviewState::Pending,
    };
    let (body, truncated) = text::truncate_body(&found.body.unwrap_or_default());
    Ok(Review {
        id: found.id.ok_or(Ignored::Incomplete("`review.id`"))?,
        by: found.user.as_ref().and_then(parse_person),
        association: parse_association(found.author_association.as_deref()),
        state,
        body,
        truncated,
        at: found.submitted_at,
        url: text::bounded_text(found.html_url, URL_BYTES_MAX),
    })
}

fn parse_comment(found: payload::Comment) -> Result<Comment, Ignored> {
    let (body, truncated) = text::truncate_body(&found.body.unwrap_or_default());
    Ok(Comment {
        id: found.id.ok_or(Ignored::Incomplete("`comment.id`"))?,
        by: found.user.as_ref().and_then(parse_person),
        association: parse_association(found.author_association.as_deref()),
        body,
        truncated,
        review: found.pull_request_review_id,
        reply_to: found.in_reply_to_id,
        path: text::bounded_text(found.path, PATH_BYTES_MAX),
        line: found.line.or(found.original_line),
        thumbs_up: found.reactions.and_then(|reactions| reactions.thumbs_up).unwrap_or_default(),
        at: found.created_at,
        changed_at: found.updated_at,
        url: text::bounded_text(found.html_url, URL_BYTES_MAX),
    })
}

fn thread_comment_ids(found: payload::Thread) -> Vec<u64> {
    found.comments.unwrap_or_default().into_iter().filter_map(|comment| comment.id).collect()
}

fn parse_person(found: &payload::User) -> Option<Person> {
    let login = text::bounded_text(found.login.clone(), LOGIN_BYTES_MAX)?;
    let bot = found.kind.as_deref() == Some("Bot") || login.ends_with("[bot]");
    Some(Person { login, bot })
}

fn parse_association(found: Option<&str>) -> AuthorAssociation {
    match found {
        Some("OWNER") => AuthorAssociation::Owner,
        Some("MEMBER") => AuthorAssociation::Member,
        Some("COLLABORATOR") => AuthorAssociation::Collaborator,
        Some("CONTRIBUTOR") => AuthorAssociation::Contributor,
        _ => AuthorAssociation::None,
    }
}

/// Returns the repository as `owner/name`, or `None` if the payload does not name it or the name is invalid.
fn repository_name(found: &payload::Repository) -> Option<String> {
    let owner = found.owner.as_ref().and_then(|owner| owner.login.as_ref().or(owner.name.as_ref()));
    let full_name = found.full_name.clone().or_else(|| Some(format!("{}/{}", owner?, found.name.as_ref()?)));
    full_name.filter(|repo| repo.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name)))
}

/// Returns the host from the repository's page URL, or `DEFAULT_HOST` if the URL is missing or invalid.
fn repository_host(page: Option<&str>) -> String {
    let rest = page.and_then(|page| page.strip_prefix("https://").or_else(|| page.strip_prefix("http://")));
    let host = rest.and_then(|rest| rest.split('/').next()).map(str::to_lowercase);
    host.filter(|host| is_host(host)).unwrap_or_else(|| DEFAULT_HOST.to_owned())
}

/// Returns the time of the event, or `None` if GitHub sends none, as for a deletion.
fn event_time(action: &str, payload: &Payload) -> Option<Timestamp> {
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
