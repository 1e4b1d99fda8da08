//! What an event of GitHub's says to us: a remark, a thread, or only who opened a pull request.

use jiff::Timestamp;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::review::{PullRequestRef, Remark, RemarkKey, RemarkKind, Repository};
use retro_events::github::{Comment, GithubEvent, Happened, Person, PullRequest, Review};
use retro_redact::Redactor;
use retro_store::{Heard, Said};

/// What it says; `None` for an event that speaks of no pull request. Texts have no secrets any more.
pub(crate) fn heard(event: GithubEvent) -> Result<Option<Heard>, Rejection> {
    let Some(number) = event.data.what.number() else { return Ok(None) };
    let repo = Repository::at(&event.data.host, &event.data.repo)
        .map_err(|error| Rejection::at(Code::FieldInvalid, "data.repo", error.to_string()))?;
    let pull_request = PullRequestRef { repo, number };
    let mut author = None;
    let said = match event.data.what {
        Happened::PullRequest { pull_request, .. } => {
            author = login(&pull_request);
            None
        }
        Happened::PullRequestReview { action, pull_request: of, review } => {
            author = login(&of);
            Some(of_review(&pull_request, review, action == "edited", event.at))
        }
        Happened::PullRequestReviewComment { action, pull_request: of, comment } => {
            author = login(&of);
            Some(of_comment(&pull_request, RemarkKind::LineComment, &action, comment, event.at))
        }
        Happened::IssueComment { action, comment, .. } => {
            Some(of_comment(&pull_request, RemarkKind::ConversationComment, &action, comment, event.at))
        }
        Happened::PullRequestReviewThread { action, pull_request: of, comments } => {
            author = login(&of);
            let resolved = action == "resolved";
            comments.first().map(|first| Said::Thread { first: *first, resolved, at: event.at })
        }
        Happened::Push { .. } => None,
    };
    Ok(Some(Heard { event: event.event, content_hash: event.content_hash, pull_request, author, said }))
}

fn login(pull_request: &PullRequest) -> Option<String> {
    pull_request.author.as_ref().map(|author| plain(&author.login))
}

fn of_review(pull_request: &PullRequestRef, review: Review, edited: bool, told_at: Timestamp) -> Said {
    let at = review.at.unwrap_or(told_at);
    let key = RemarkKey { pull_request: pull_request.clone(), kind: RemarkKind::ReviewBody, id: review.id };
    let (by, bot) = person(review.by);
    let remark = Remark {
        key,
        review: Some(review.id),
        verdict: Some(review.state),
        reply_to: None,
        by,
        bot,
        association: review.association,
        by_author: false,
        body: Redactor::shared().text(&review.body).into_owned(),
        path: None,
        line: None,
        at,
        url: review.url,
        edited,
        deleted: false,
    };
    // A review carries no moment of its last change: the event's is the nearest there is.
    Said::Remark { remark, thumbs_up: 0, changed_at: told_at.max(at) }
}

fn of_comment(
    pull_request: &PullRequestRef,
    kind: RemarkKind,
    action: &str,
    comment: Comment,
    told_at: Timestamp,
) -> Said {
    let deleted = action == "deleted";
    let at = comment.at.unwrap_or(told_at);
    let changed_at = comment.changed_at.unwrap_or(at).max(at);
    let (by, bot) = person(comment.by);
    // What somebody took back is not kept.
    let body = if deleted { String::new() } else { Redactor::shared().text(&comment.body).into_owned() };
    let remark = Remark {
        key: RemarkKey { pull_request: pull_request.clone(), kind, id: comment.id },
        review: comment.review,
        verdict: None,
        reply_to: comment.reply_to,
        by,
        bot,
        association: comment.association,
        by_author: false,
        body,
        path: comment.path,
        line: comment.line,
        at,
        url: comment.url,
        edited: action == "edited" || changed_at > at,
        deleted,
    };
    Said::Remark { remark, thumbs_up: comment.thumbs_up, changed_at }
}

fn person(by: Option<Person>) -> (String, bool) {
    by.map(|by| (plain(&by.login), by.bot)).unwrap_or_default()
}

/// A login as GitHub makes them has no control characters; a column for people could not hold them either.
fn plain(login: &str) -> String {
    login.chars().filter(|c| !c.is_control()).collect()
}
