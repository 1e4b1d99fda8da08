//! Builds the webhooks that GitHub would have sent for what its REST API says of a pull request.
//!
//! Each object is wrapped in the payload of a webhook and parsed like one, so both ways give the same event. Only
//! the identity differs: a delivery has GitHub's id, and here it is derived from the event's content and time, so
//! the same state is the same event however often it is fetched. A webhook that arrived before or later has another
//! id, and changes nothing more: the reviewer and the tracker keep a comment, review or pull request under
//! GitHub's id of it, and take only what is newer.
//!
//! The API does not tell everything. A comment that was deleted is not there, a resolved thread is not marked, and
//! an edited review does not say so.

use jiff::Timestamp;
use retro_core::id::derive_uuid;
use serde_json::{Value, json};

use crate::ignored::Ignored;
use crate::webhook::{AcceptedWebhook, ParsedWebhook, WebhookContent, parse_webhook};

/// What GitHub's REST API says of one pull request, as it sent it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullRequestRecord {
    /// The pull request, with its repository in `base.repo`.
    pub pull_request: Value,
    /// Its reviews.
    pub reviews: Vec<Value>,
    /// Comments on its lines.
    pub review_comments: Vec<Value>,
    /// Comments in its conversation.
    pub issue_comments: Vec<Value>,
    /// Its commits.
    pub commits: Vec<Value>,
    /// Finished workflow runs of its head commit.
    pub workflow_runs: Vec<Value>,
}

/// An event that a pull request's record shows.
#[derive(Debug, Clone, PartialEq)]
pub struct SyncedEvent {
    /// GitHub's name of the event, such as `issue_comment`.
    pub event: &'static str,
    /// Id of the event, derived from its content and time.
    pub id: String,
    /// The event, as a webhook would have given it.
    pub webhook: AcceptedWebhook,
}

/// Result of converting an object of a record.
pub type SyncResult = Result<SyncedEvent, (&'static str, Ignored)>;

/// Builds the events of a record in the order in which they are published: the pull request first, so that its
/// author is known. Returns GitHub's name of the event and the reason for each object that gives no event.
pub fn events_of_record(record: &PullRequestRecord) -> Vec<SyncResult> {
    let (pull_request, repository) = (&record.pull_request, &record.pull_request["base"]["repo"]);
    let payload = |members: Value| {
        let mut payload = members;
        payload["repository"] = repository.clone();
        payload
    };
    let mut payloads = vec![("pull_request", payload(pull_request_payload(pull_request)))];
    payloads.extend(
        record
            .reviews
            .iter()
            .filter(|review| is_submitted(review))
            .map(|review| ("pull_request_review", payload(review_payload(pull_request, review)))),
    );
    payloads.extend(record.review_comments.iter().map(|comment| {
        let members =
            json!({"pull_request": pull_request, "comment": comment, "action": comment_action(comment)});
        ("pull_request_review_comment", payload(members))
    }));
    payloads.extend(record.issue_comments.iter().map(|comment| {
        let issue = json!({"number": pull_request["number"], "pull_request": {}});
        let members = json!({"issue": issue, "comment": comment, "action": comment_action(comment)});
        ("issue_comment", payload(members))
    }));
    // One event a commit, so that it stays the same event when further commits follow.
    payloads.extend(record.commits.iter().map(|commit| {
        let pushed = json!({"id": commit["sha"], "message": commit["commit"]["message"]});
        let head = json!({"timestamp": commit["commit"]["committer"]["date"]});
        ("push", payload(json!({"commits": [pushed], "head_commit": head})))
    }));
    payloads.extend(
        record
            .workflow_runs
            .iter()
            .map(|run| ("workflow_run", payload(json!({"action": "completed", "workflow_run": run})))),
    );
    payloads.into_iter().map(|(event, payload)| parse_event(event, &payload)).collect()
}

fn parse_event(event: &'static str, payload: &Value) -> SyncResult {
    let parsed = parse_webhook(event, &payload.to_string().into());
    let webhook = match parsed.expect("what was written as JSON is JSON") {
        ParsedWebhook::Accepted(webhook) => *webhook,
        ParsedWebhook::Ignored(ignored) => return Err((event, ignored)),
        ParsedWebhook::Ping => unreachable!("no payload of a record is a ping"),
    };
    let id = match &webhook.content {
        WebhookContent::Run(run) => run.envelope.id.clone(),
        WebhookContent::Repository(data) => {
            let at = webhook.occurred_at.unwrap_or(Timestamp::UNIX_EPOCH);
            let hash = data.to_envelope("", at).data.root().content_hash();
            // With the time, because a pull request that is opened again looks as it did before.
            derive_uuid("github sync", &[&hash, &at.to_string()]).to_string()
        }
    };
    Ok(SyncedEvent { event, id, webhook })
}

fn pull_request_payload(pull_request: &Value) -> Value {
    let action = if pull_request["state"] == "open" { "synchronize" } else { "closed" };
    json!({"action": action, "pull_request": pull_request})
}

/// Returns the payload for a review in its present state. A dismissed one says neither when that happened nor what
/// it was, so it has the time of its submission, and stays the same event when the pull request changes.
fn review_payload(pull_request: &Value, review: &Value) -> Value {
    let state = review["state"].as_str().unwrap_or_default();
    let action = if state.eq_ignore_ascii_case("dismissed") { "dismissed" } else { "submitted" };
    let mut pull_request = pull_request.clone();
    pull_request["updated_at"] = review["submitted_at"].clone();
    json!({"action": action, "pull_request": pull_request, "review": review})
}

/// Returns `true` unless the review is a draft, of which GitHub sends no webhook.
fn is_submitted(review: &Value) -> bool {
    !review["state"].as_str().is_some_and(|state| state.eq_ignore_ascii_case("pending"))
}

fn comment_action(comment: &Value) -> &'static str {
    if comment["updated_at"] == comment["created_at"] { "created" } else { "edited" }
}

#[cfg(test)]
mod tests;
