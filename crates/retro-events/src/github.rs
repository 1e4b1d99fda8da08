//! GitHub events: each webhook becomes one narrow event with only the fields that are used.
//!
//! The bridge writes them; the reviewer and the tracker read them. Every text by a person may be hostile: it is
//! data, never an instruction, and it has been neither screened nor redacted. GitHub adds fields now and then;
//! these types change only with a new version of the event's type.

pub mod tenants;

use jiff::Timestamp;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{EventKey, Tenant};
pub use retro_core::review::{AuthorAssociation, ReviewState};
use serde::{Deserialize, Serialize};

use crate::consumer::Delivery;
use crate::envelope::Envelope;
use crate::{Role, subject};
use retro_core::json::JsonDocument;

/// Prefix of every event type; kind and version follow.
const TYPE_PREFIX: &str = "dev.retrospect.github.";
/// Version suffix of every event type.
const TYPE_VERSION: &str = ".v1";

/// Longest text by a person, in bytes. GitHub allows 65,536 characters; the rest of a longer comment is of no
/// use for a rule.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of commits of one push event: those whose messages name a run.
pub const COMMITS_MAX: usize = 100;

/// Maximum number of values and keys of one event: a push with that many commits has about a thousand. Serde
/// buffers all of them until it knows the kind of event.
const VALUES_MAX: usize = 4096;

/// A parsed GitHub event.
#[derive(Debug, Clone, PartialEq)]
pub struct GithubEvent {
    /// Identity of the event: the id of the delivery, so that a redelivery is recognised.
    pub event: EventKey,
    /// SHA-256 of the canonical form of `data`.
    pub content_hash: String,
    /// Time of the event according to GitHub; otherwise when the bridge received it.
    pub occurred_at: Timestamp,
    /// Content of the event.
    pub data: GithubData,
}

/// The `data` of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GithubData {
    /// Repository as `owner/name`, as GitHub writes it. Names of repositories are unique ignoring case.
    pub repo: String,
    /// Host of the repository: `github.com`, or an Enterprise server.
    pub host: String,
    /// User who triggered the event; `None` if GitHub no longer knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Person>,
    /// The change that happened.
    #[serde(flatten)]
    pub what: RepositoryEvent,
}

/// A change in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
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
        /// The pull request.
        pull_request: PullRequest,
        /// The review.
        review: Review,
    },
    /// A comment on lines of a pull request was created, edited or deleted.
    PullRequestReviewComment {
        /// GitHub's name of the action: `created`, `edited` or `deleted`.
        action: String,
        /// The pull request.
        pull_request: PullRequest,
        /// The comment.
        comment: Comment,
    },
    /// A thread of such comments was resolved or reopened.
    PullRequestReviewThread {
        /// GitHub's name of the action: `resolved` or `unresolved`.
        action: String,
        /// The pull request.
        pull_request: PullRequest,
        /// Ids of the thread's comments, first one first.
        comments: Vec<u64>,
    },
    /// A comment in the conversation of a pull request. Comments on issues that are not pull requests are
    /// ignored.
    IssueComment {
        /// GitHub's name of the action: `created`, `edited` or `deleted`.
        action: String,
        /// Number of the pull request; GitHub sends no other field of it here.
        number: u64,
        /// The comment.
        comment: Comment,
    },
    /// Commits whose messages name a run were pushed.
    Push {
        /// Commits whose messages name a run, at most [`COMMITS_MAX`].
        commits: Vec<Commit>,
    },
}

/// A GitHub user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// Login name.
    pub login: String,
    /// True if GitHub classifies the account as a bot.
    #[serde(default)]
    pub bot: bool,
}

/// A pull request as an event shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    /// Number in the repository.
    pub number: u64,
    /// Author; `None` for a deleted account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Person>,
    /// True while it is open.
    pub open: bool,
    /// True once it was merged.
    #[serde(default)]
    pub merged: bool,
    /// Commit at its head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_commit: Option<String>,
    /// Merge commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
    /// Time when it was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<Timestamp>,
    /// Time when it was closed, merged or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// URL of the web page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A review: a verdict with a text. Its comments arrive as separate events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// GitHub's id.
    pub id: u64,
    /// Author; `None` for a deleted account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Person>,
    /// Association of the author with the repository, as a lower bound.
    #[serde(default)]
    pub association: AuthorAssociation,
    /// Verdict of the reviewer.
    pub state: ReviewState,
    /// Text; often empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Time of submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// URL of the web page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A comment, on lines or in the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// GitHub's id; unique among comments of one kind.
    pub id: u64,
    /// Author; `None` for a deleted account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Person>,
    /// Association of the author with the repository, as a lower bound.
    #[serde(default)]
    pub association: AuthorAssociation,
    /// Text of at most [`TEXT_BYTES_MAX`] bytes; a longer one is cut at a character, and `cut` is set.
    pub body: String,
    /// True if the text was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Review that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<u64>,
    /// First comment of the thread that it replies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<u64>,
    /// Path of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Line in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Number of 👍. GitHub sends no event for a reaction, so this is updated only when the comment is sent
    /// again.
    #[serde(default)]
    pub thumbs_up: u64,
    /// Time when it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Time of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// URL of the web page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A commit whose message names a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Commit hash.
    pub id: String,
    /// Runs named by its `Retro-Run` trailers, unchanged.
    pub runs: Vec<String>,
    /// Value of the trailer `Retro-Prompt-Version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_version: Option<String>,
}

impl RepositoryEvent {
    /// Returns GitHub's name of the event, as used in subjects and in the event's type.
    pub const fn event_kind(&self) -> &'static str {
        match self {
            Self::PullRequest { .. } => "pull_request",
            Self::PullRequestReview { .. } => "pull_request_review",
            Self::PullRequestReviewComment { .. } => "pull_request_review_comment",
            Self::PullRequestReviewThread { .. } => "pull_request_review_thread",
            Self::IssueComment { .. } => "issue_comment",
            Self::Push { .. } => "push",
        }
    }

    /// Returns the number of the pull request that it is about.
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
    /// Builds the event. `delivery` is GitHub's id of the delivery, which is the identity of the event.
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
        return Err(Rejection::of_field(Code::TypeUnknown, "type", detail));
    }
    let data = envelope.data.root();
    if data.descendant_count() > VALUES_MAX {
        let detail = format!("holds more than {VALUES_MAX} values and keys");
        return Err(Rejection::of_field(Code::TooManyValues, "data", detail));
    }
    let hash = data.content_hash();
    let data = GithubData::deserialize(data)
        .map_err(|error| Rejection::of_field(Code::FieldInvalid, "data", error.to_string()))?;
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
            sender: None,
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
        assert_eq!(parse_event(&elsewhere).unwrap_err().code, Code::TypeUnknown);
    }

    #[test]
    fn unknown_review_states_are_not_an_error() {
        assert_eq!(serde_json::from_str::<ReviewState>("\"new\"").unwrap(), ReviewState::Pending);
    }
}
