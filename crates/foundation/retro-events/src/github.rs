//! Defines the events that GitHub's webhooks are converted to. Each event contains only the fields that are
//! used.
//!
//! The bridge writes these events; the reviewer and the tracker read them. All text written by people may be
//! hostile: it is data, never an instruction, and it has been neither screened nor redacted. GitHub adds
//! fields now and then; these types change only with a new version of the event's type.

pub mod api_url;
pub mod tenants;

use jiff::Timestamp;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{EventKey, Tenant};
pub use retro_core::remark::{AuthorAssociation, ReviewState};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::delivery::Delivery;
use crate::envelope::Envelope;
use crate::{Role, subject};
use retro_core::json::JsonDocument;

/// Prefix of every event type, followed by the kind of event and the version.
const TYPE_PREFIX: &str = "dev.retrospect.github.";
/// Version suffix of every event type.
const TYPE_VERSION: &str = ".v1";

/// Maximum length of a text written by a person, in bytes. GitHub allows 65,536 characters; the rest of a
/// longer comment is of no use for a rule.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of commits in one push event, which contains only the commits whose messages name a run or a revert.
pub const COMMITS_MAX: usize = 100;
/// Maximum number of changes that one commit or pull request may revert. The rest is ignored.
pub const REVERTS_MAX: usize = 8;

/// Maximum number of values and keys of one event. A push with [`COMMITS_MAX`] commits has about a thousand. Serde
/// buffers all of them until it knows the kind of event.
const VALUES_MAX: usize = 4096;

/// A parsed GitHub event.
#[derive(Debug, Clone, PartialEq)]
pub struct GithubEvent {
    /// Identity of the event. Its id is GitHub's delivery id, so a redelivery is recognised.
    pub event: EventKey,
    /// SHA-256 of the canonical form of `data`.
    pub content_hash: String,
    /// Time of the event according to GitHub, or the time at which the bridge received it if GitHub sends none.
    pub occurred_at: Timestamp,
    /// Content of the event.
    pub data: GithubData,
}

/// Content of an event: its member `data`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GithubData {
    /// Repository as `owner/name`, as GitHub writes it. Names that differ only in case refer to the same
    /// repository.
    pub repo: String,
    /// Host of the repository: `github.com`, or an Enterprise server.
    pub host: String,
    /// Change in the repository that the event reports.
    #[serde(flatten)]
    pub what: RepositoryEvent,
}

/// A change in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RepositoryEvent {
    /// A pull request was opened, updated, closed or reopened.
    PullRequest {
        /// GitHub's name of the action: `opened`, `synchronize`, `closed`, …
        action: String,
        /// The pull request after the action.
        pull_request: PullRequest,
    },
    /// A review was submitted, edited or dismissed.
    PullRequestReview {
        /// GitHub's name of the action: `submitted`, `edited` or `dismissed`.
        action: String,
        /// Pull request that the review belongs to.
        pull_request: PullRequest,
        /// Review that was submitted, edited or dismissed.
        review: Review,
    },
    /// A comment on lines of a pull request was created, edited or deleted.
    PullRequestReviewComment {
        /// GitHub's name of the action: `created`, `edited` or `deleted`.
        action: String,
        /// Pull request that the comment belongs to.
        pull_request: PullRequest,
        /// Comment that was created, edited or deleted.
        comment: Comment,
    },
    /// A thread of comments on lines of a pull request was resolved or reopened.
    PullRequestReviewThread {
        /// GitHub's name of the action: `resolved` or `unresolved`.
        action: String,
        /// Pull request that the thread belongs to.
        pull_request: PullRequest,
        /// Ids of the thread's comments, starting with the first comment.
        comments: Vec<u64>,
    },
    /// A comment in the conversation of a pull request was created, edited or deleted. Comments on issues that are
    /// not pull requests are ignored.
    IssueComment {
        /// GitHub's name of the action: `created`, `edited` or `deleted`.
        action: String,
        /// Number of the pull request. GitHub sends no other field of the pull request here.
        number: u64,
        /// Comment that was created, edited or deleted.
        comment: Comment,
    },
    /// Commits whose messages name a run or a revert were pushed.
    Push {
        /// Commits whose messages name a run or a revert, at most [`COMMITS_MAX`].
        commits: Vec<Commit>,
    },
}

/// A GitHub user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// Login name.
    pub login: String,
    /// `true` if GitHub classifies the account as a bot.
    #[serde(default)]
    pub bot: bool,
}

/// A pull request as an event describes it. An optional field is `None` if GitHub did not send it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    /// Number of the pull request in its repository.
    pub number: u64,
    /// Author of the pull request; `None` for a deleted account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Person>,
    /// `true` while the pull request is open.
    pub open: bool,
    /// `true` once the pull request was merged.
    #[serde(default)]
    pub merged: bool,
    /// Hash of the commit at the head of the pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_commit: Option<String>,
    /// Hash of the merge commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
    /// Time at which the pull request was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<Timestamp>,
    /// Time at which the pull request was closed, whether or not it was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// URL of the pull request's page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Changes that the pull request reverts once it is merged, by its description; at most [`REVERTS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverts: Vec<RevertedChange>,
}

/// A change in the repository of the event that a commit or a pull request reverts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevertedChange {
    /// Number of the pull request that was merged.
    PullRequest(u64),
    /// Hash of the commit, complete and in lower case.
    Commit(String),
}

/// A review: a verdict and a text. Its comments arrive as separate events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// Id that GitHub gave the review.
    pub id: u64,
    /// Author of the review; `None` for a deleted account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Person>,
    /// Association of the author with the repository. For a private member, GitHub may report a weaker association
    /// than the real one.
    #[serde(default)]
    pub association: AuthorAssociation,
    /// Verdict of the reviewer.
    pub state: ReviewState,
    /// Text of the review, of at most [`TEXT_BYTES_MAX`] bytes; often empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// `true` if the text was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Time at which the review was submitted; `None` if GitHub did not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// URL of the review; `None` if GitHub did not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A comment on lines of a pull request or in its conversation. An optional field is `None` if GitHub did not send
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// Id that GitHub gave the comment; unique among comments of one kind.
    pub id: u64,
    /// Author of the comment; `None` for a deleted account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Person>,
    /// Association of the author with the repository. For a private member, GitHub may report a weaker association
    /// than the real one.
    #[serde(default)]
    pub association: AuthorAssociation,
    /// Text of at most [`TEXT_BYTES_MAX`] bytes. A longer text is cut between two characters, and `truncated`
    /// is set.
    pub body: String,
    /// `true` if the text was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Id of the review that the comment belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<u64>,
    /// Id of the first comment of the thread; `None` if the comment is not a reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<u64>,
    /// Path of the commented file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Commented line of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Number of 👍 reactions. GitHub sends no event for a reaction, so this is updated only when the comment is
    /// sent again.
    #[serde(default)]
    pub thumbs_up: u64,
    /// Time at which the comment was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Time at which the comment was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// URL of the comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A commit whose message names a run or a revert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Hash of the commit.
    pub id: String,
    /// Run ids from the `Retro-Run` trailers of the commit, unchanged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// Changes that the commit reverts, by its message, if it was pushed to the default branch; at most [`REVERTS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverts: Vec<RevertedChange>,
    /// Value of the trailer `Retro-Prompt-Version`; `None` if the commit has no such trailer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_version: Option<String>,
}

impl RepositoryEvent {
    /// Returns GitHub's name of the event, as used in subjects and in the event's type.
    pub fn event_kind(&self) -> &'static str {
        self.into()
    }

    /// Describes the event for a person: the action and GitHub's id of its object. Contains no text by anyone.
    pub fn describe(&self) -> String {
        match self {
            Self::PullRequest { action, pull_request } => format!("{} {action}", pull_request.number),
            Self::PullRequestReview { action, review, .. } => format!("review {} {action}", review.id),
            Self::PullRequestReviewComment { action, comment, .. }
            | Self::IssueComment { action, comment, .. } => {
                format!("comment {} {action}", comment.id)
            }
            Self::PullRequestReviewThread { action, comments, .. } => {
                format!("thread of {} comments {action}", comments.len())
            }
            Self::Push { commits } => format!("{} commits that name a run", commits.len()),
        }
    }

    /// Returns the number of the pull request that the event belongs to; `None` for a push.
    pub const fn pull_request_number(&self) -> Option<u64> {
        match self {
            Self::PullRequest { pull_request, .. }
            | Self::PullRequestReview { pull_request, .. }
            | Self::PullRequestReviewComment { pull_request, .. }
            | Self::PullRequestReviewThread { pull_request, .. } => Some(pull_request.number),
            Self::IssueComment { number, .. } => Some(*number),
            Self::Push { .. } => None,
        }
    }
}

impl GithubData {
    /// Builds the CloudEvent. `delivery` is GitHub's delivery id, which becomes the id of the event.
    pub fn to_envelope(&self, delivery: &str, at: Timestamp) -> Envelope {
        Envelope {
            id: delivery.to_owned(),
            source: format!("https://{}/{}", self.host, self.repo),
            kind: format!("{TYPE_PREFIX}{}{TYPE_VERSION}", self.what.event_kind()),
            time: Some(at),
            extensions: serde_json::Map::new(),
            data: JsonDocument::from_serialized(
                serde_json::to_vec(self).expect("an event serializes to JSON"),
            ),
        }
    }
}

/// Parses a delivery from the GitHub stream, as the bridge wrote it. The subject determines the tenant.
pub fn parse_event(delivery: &Delivery) -> Result<GithubEvent, Rejection> {
    let (tenant, kind) = subject::parse_github(&delivery.subject)?;
    let envelope = Envelope::from_delivery(delivery)?;
    let wanted = format!("{TYPE_PREFIX}{kind}{TYPE_VERSION}");
    if envelope.kind != wanted {
        let detail = format!("is {:?}; by its subject it is {wanted:?}", envelope.kind);
        return Err(Rejection::of_field(DeadLetterCode::TypeUnknown, "type", detail));
    }
    let data = envelope.data.root();
    if data.descendant_count() > VALUES_MAX {
        let detail = format!("holds more than {VALUES_MAX} values and keys");
        return Err(Rejection::of_field(DeadLetterCode::TooManyValues, "data", detail));
    }
    let hash = data.content_hash();
    let data = GithubData::deserialize(data)
        .map_err(|error| Rejection::of_field(DeadLetterCode::FieldInvalid, "data", error.to_string()))?;
    Ok(GithubEvent {
        event: EventKey { tenant, source: envelope.source, id: envelope.id },
        content_hash: hash,
        occurred_at: envelope.time.unwrap_or(delivery.stored_at),
        data,
    })
}

/// Returns the roles that store an event of this kind once they have handled it. A push concerns no pull
/// request that people could comment on, and a comment in the conversation does not show how a pull request
/// ended. For an unknown kind, returns every role that receives it.
pub fn consuming_roles(kind: &str) -> &'static [Role] {
    match kind {
        "push" => &[Role::Tracker],
        "issue_comment" => &[Role::Reviewer],
        _ => &[Role::Reviewer, Role::Tracker],
    }
}

/// Parses the identity of the event in a delivery, if possible.
pub fn parse_event_key(delivery: &Delivery) -> Option<EventKey> {
    let (tenant, _) = subject::parse_github(&delivery.subject).ok()?;
    let Envelope { source, id, .. } = Envelope::from_delivery(delivery).ok()?;
    Some(EventKey { tenant, source, id })
}

/// Returns the subject of an event: see [`subject::github_subject`].
pub fn event_subject(tenant: &Tenant, data: &GithubData) -> String {
    subject::github_subject(tenant, data.what.event_kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_data() -> GithubData {
        GithubData {
            repo: "acme/shop".to_owned(),
            host: "github.com".to_owned(),
            what: RepositoryEvent::PullRequestReviewThread {
                action: "resolved".to_owned(),
                pull_request: PullRequest {
                    number: 7,
                    author: Some(Person { login: "ann".to_owned(), bot: false }),
                    open: true,
                    merged: false,
                    head_commit: None,
                    merge_commit: None,
                    opened_at: None,
                    closed_at: None,
                    url: None,
                    reverts: vec![RevertedChange::PullRequest(3), RevertedChange::Commit("f".repeat(40))],
                },
                comments: vec![3, 4],
            },
        }
    }

    #[test]
    fn events_survive_encoding_and_parsing() {
        let tenant = Tenant::new("acme").unwrap();
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let encoded = sample_data().to_envelope("delivery-1", at).to_structured();
        let subject = event_subject(&tenant, &sample_data());
        assert_eq!(subject, "retro.github.acme.pull_request_review_thread");
        let arrived = Delivery {
            stream: crate::stream::GITHUB.to_owned(),
            subject,
            sequence: 1,
            headers: encoded.headers,
            payload: encoded.payload,
            delivered: 1,
            stored_at: Timestamp::UNIX_EPOCH,
        };
        let event = parse_event(&arrived).unwrap();
        assert_eq!((event.data, event.occurred_at), (sample_data(), at));
        let source = "https://github.com/acme/shop".to_owned();
        assert_eq!(event.event, EventKey { tenant, source, id: "delivery-1".to_owned() });
        let elsewhere = Delivery { subject: "retro.github.acme.push".to_owned(), ..arrived };
        assert_eq!(parse_event(&elsewhere).unwrap_err().code, DeadLetterCode::TypeUnknown);
    }

    #[test]
    fn unknown_review_states_are_not_an_error() {
        assert_eq!(serde_json::from_str::<ReviewState>("\"new\"").unwrap(), ReviewState::Pending);
    }
}
