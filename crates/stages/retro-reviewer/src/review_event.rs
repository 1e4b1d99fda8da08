//! Converts GitHub events to review events. A review event contains a remark, a thread, or only the author of
//! the pull request.

use jiff::Timestamp;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{RemarkKey, RemarkKind, Repository, ReviewedPullRequest};
use retro_core::remark::Remark;
use retro_events::github::{Comment, GithubEvent, Person, PullRequest, RepositoryEvent, Review};
use retro_redact::Redactor;
use retro_store::{ReviewEvent, ReviewEventKind};

/// Converts a GitHub event to a review event, with the secrets in its text redacted. Returns `None` for an
/// event without a pull request. Fails if the repository's name is invalid.
pub(crate) fn review_event_from_github(event: GithubEvent) -> Result<Option<ReviewEvent>, Rejection> {
    let Some(number) = event.data.what.pull_request_number() else { return Ok(None) };
    let repo = Repository::at_host(&event.data.host, &event.data.repo)
        .map_err(|error| Rejection::of_field(DeadLetterCode::FieldInvalid, "data.repo", error.to_string()))?;
    let pull_request = ReviewedPullRequest { repo, number };
    let mut author = None;
    let said = match event.data.what {
        RepositoryEvent::PullRequest { pull_request, .. } => {
            author = author_login(&pull_request);
            None
        }
        RepositoryEvent::PullRequestReview { action, pull_request: of, review } => {
            author = author_login(&of);
            Some(remark_from_review(&pull_request, review, action == "edited", event.occurred_at))
        }
        RepositoryEvent::PullRequestReviewComment { action, pull_request: of, comment } => {
            author = author_login(&of);
            Some(remark_from_comment(
                &pull_request,
                RemarkKind::LineComment,
                &action,
                comment,
                event.occurred_at,
            ))
        }
        RepositoryEvent::IssueComment { action, comment, .. } => Some(remark_from_comment(
            &pull_request,
            RemarkKind::ConversationComment,
            &action,
            comment,
            event.occurred_at,
        )),
        RepositoryEvent::PullRequestReviewThread { action, pull_request: of, comments } => {
            author = author_login(&of);
            let resolved = action == "resolved";
            comments.first().map(|first| ReviewEventKind::Thread {
                first_comment: *first,
                resolved,
                at: event.occurred_at,
            })
        }
        RepositoryEvent::Push { .. } => None,
    };
    Ok(Some(ReviewEvent {
        event: event.event,
        content_hash: event.content_hash,
        pull_request,
        author,
        kind: said,
    }))
}

fn author_login(pull_request: &PullRequest) -> Option<String> {
    pull_request.author.as_ref().map(|author| strip_control_characters(&author.login))
}

fn remark_from_review(
    pull_request: &ReviewedPullRequest,
    review: Review,
    edited: bool,
    event_at: Timestamp,
) -> ReviewEventKind {
    let at = review.at.unwrap_or(event_at);
    let key = RemarkKey { pull_request: pull_request.clone(), kind: RemarkKind::ReviewBody, id: review.id };
    let (by, bot) = login_and_bot(review.by);
    let remark = Remark {
        key,
        review: Some(review.id),
        review_state: Some(review.state),
        reply_to: None,
        by,
        bot,
        association: review.association,
        by_author: false,
        body: Redactor::shared().redact_text(&review.body).into_owned(),
        truncated: review.truncated,
        path: None,
        line: None,
        at,
        url: review.url,
        edited,
        deleted: false,
    };
    // A review has no modification time of its own, so the event's time is used.
    ReviewEventKind::Remark { remark, thumbs_up: 0, changed_at: event_at.max(at) }
}

fn remark_from_comment(
    pull_request: &ReviewedPullRequest,
    kind: RemarkKind,
    action: &str,
    comment: Comment,
    event_at: Timestamp,
) -> ReviewEventKind {
    let deleted = action == "deleted";
    let at = comment.at.unwrap_or(event_at);
    let changed_at = comment.changed_at.unwrap_or(at).max(at);
    let (by, bot) = login_and_bot(comment.by);
    // The text of a deleted comment must not be stored.
    let body =
        if deleted { String::new() } else { Redactor::shared().redact_text(&comment.body).into_owned() };
    let remark = Remark {
        key: RemarkKey { pull_request: pull_request.clone(), kind, id: comment.id },
        review: comment.review,
        review_state: None,
        reply_to: comment.reply_to,
        by,
        bot,
        association: comment.association,
        by_author: false,
        body,
        truncated: comment.truncated && !deleted,
        path: comment.path,
        line: comment.line,
        at,
        url: comment.url,
        edited: action == "edited" || changed_at > at,
        deleted,
    };
    ReviewEventKind::Remark { remark, thumbs_up: comment.thumbs_up, changed_at }
}

fn login_and_bot(by: Option<Person>) -> (String, bool) {
    by.map(|by| (strip_control_characters(&by.login), by.bot)).unwrap_or_default()
}

/// Removes control characters from a login. GitHub's logins have none, and a text column of PostgreSQL cannot store
/// NUL.
fn strip_control_characters(login: &str) -> String {
    login.chars().filter(|c| !c.is_control()).collect()
}
