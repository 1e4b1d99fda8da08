//! What GitHub's webhooks become: one narrow event each, with what is used and nothing else.
//!
//! The bridge writes them and the reviewer and the tracker read them. Every text of a person in here was written by
//! somebody who may be hostile: it is data, never an instruction, and nothing in here has been screened or redacted.
//! GitHub adds fields now and then; ours change only with a new version of the event's type.

pub mod tenants;

use jiff::Timestamp;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{EventKey, Tenant};
pub use retro_core::review::{Association, ReviewState};
use serde::{Deserialize, Serialize};

use crate::consumer::Delivery;
use crate::envelope::Envelope;
use crate::{Role, subject};
use retro_core::json::Document;

/// How the type of every event begins; the kind and the version follow.
const TYPE_PREFIX: &str = "dev.retrospect.github.";
/// The version of their meaning.
const TYPE_VERSION: &str = ".v1";

/// The longest text of a person that is kept, in bytes: GitHub's own limit of a comment is 65,536 characters; one that is
/// longer than this says nothing that a rule could be made of.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
/// The most commits that one push tells of: those whose messages name a run.
pub const COMMITS_MAX: usize = 100;

/// The most values and keys of one event: a push of that many commits has some thousand. The library keeps all of them in
/// memory while it finds out which event it is.
const VALUES_MAX: usize = 4096;

/// An event of GitHub's that was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct GithubEvent {
    /// Its identity: the delivery's id, so that a delivery that is sent again is known.
    pub event: EventKey,
    /// SHA-256 of the canonical form of `data`.
    pub content_hash: String,
    /// When it happened, as GitHub says; else when the bridge took it.
    pub at: Timestamp,
    /// What it says.
    pub data: GithubData,
}

/// The `data` of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GithubData {
    /// The repository, `owner/name` as GitHub writes it; names of repositories do not differ by case alone.
    pub repo: String,
    /// The host it lies at: `github.com`, or an Enterprise server's.
    pub host: String,
    /// Who did it; `None` when GitHub no longer knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Person>,
    /// What happened.
    #[serde(flatten)]
    pub what: Happened,
}

/// What happened in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Happened {
    /// A pull request was opened, changed, closed or reopened.
    PullRequest {
        /// What was done, in GitHub's word: `opened`, `synchronize`, `closed`, …
        action: String,
        /// The pull request afterwards.
        pull_request: PullRequest,
    },
    /// A review was submitted, edited or dismissed.
    PullRequestReview {
        /// `submitted`, `edited` or `dismissed`.
        action: String,
        /// The pull request.
        pull_request: PullRequest,
        /// The review.
        review: Review,
    },
    /// A comment on lines of a pull request was made, edited or deleted.
    PullRequestReviewComment {
        /// `created`, `edited` or `deleted`.
        action: String,
        /// The pull request.
        pull_request: PullRequest,
        /// The comment.
        comment: Comment,
    },
    /// A thread of such comments was resolved, or opened again.
    PullRequestReviewThread {
        /// `resolved` or `unresolved`.
        action: String,
        /// The pull request.
        pull_request: PullRequest,
        /// The thread's comments by their ids, the first one first.
        comments: Vec<u64>,
    },
    /// A comment in the conversation of a pull request. Those of plain issues are not taken.
    IssueComment {
        /// `created`, `edited` or `deleted`.
        action: String,
        /// The pull request's number: GitHub tells no more of it here.
        number: u64,
        /// The comment.
        comment: Comment,
    },
    /// Commits whose messages name a run arrived.
    Push {
        /// Those commits, at most [`COMMITS_MAX`].
        commits: Vec<Commit>,
    },
}

/// Who did something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// The login.
    pub login: String,
    /// Whether GitHub calls it a bot.
    #[serde(default)]
    pub bot: bool,
}

/// A pull request as an event shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullRequest {
    /// Its number in the repository.
    pub number: u64,
    /// Whose it is; `None` for a deleted account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Person>,
    /// Whether it is open.
    pub open: bool,
    /// Whether it was merged.
    #[serde(default)]
    pub merged: bool,
    /// The commit at its head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_commit: Option<String>,
    /// The commit that merged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
    /// When it was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<Timestamp>,
    /// When it was closed, merged or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// The page for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A review: a verdict with a text, and comments that come as events of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// GitHub's id.
    pub id: u64,
    /// Who; `None` for a deleted account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Person>,
    /// How they stand to the repository, at least.
    #[serde(default)]
    pub association: Association,
    /// The verdict.
    pub state: ReviewState,
    /// The text; often empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The page for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A comment, on lines or in the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// GitHub's id; unique among comments of one kind.
    pub id: u64,
    /// Who; `None` for a deleted account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Person>,
    /// How they stand to the repository, at least.
    #[serde(default)]
    pub association: Association,
    /// The text, at most [`TEXT_BYTES_MAX`]; what is longer is cut at a character, and `cut` says so.
    pub body: String,
    /// Whether the text was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The review it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<u64>,
    /// The first comment of the thread that it answers in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<u64>,
    /// The file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// How many 👍 it has. GitHub sends no event for one: they are seen when the comment comes again.
    #[serde(default)]
    pub thumbs_up: u64,
    /// When it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// When it was changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// The page for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A commit whose message names a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Its hash.
    pub id: String,
    /// The runs that its trailers `Retro-Run` name, as they stand there.
    pub runs: Vec<String>,
    /// The trailer `Retro-Prompt-Version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_version: Option<String>,
}

impl Happened {
    /// The kind as it stands in subjects and in the event's type; GitHub's own name of the event.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::PullRequest { .. } => "pull_request",
            Self::PullRequestReview { .. } => "pull_request_review",
            Self::PullRequestReviewComment { .. } => "pull_request_review_comment",
            Self::PullRequestReviewThread { .. } => "pull_request_review_thread",
            Self::IssueComment { .. } => "issue_comment",
            Self::Push { .. } => "push",
        }
    }

    /// The number of the pull request that it is about.
    pub const fn number(&self) -> Option<u64> {
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
    /// The event that says this. `delivery` is GitHub's id of the delivery, which is the event's identity.
    pub fn envelope(&self, delivery: &str, at: Timestamp) -> Envelope {
        Envelope {
            id: delivery.to_owned(),
            source: format!("https://{}/{}", self.host, self.repo),
            kind: format!("{TYPE_PREFIX}{}{TYPE_VERSION}", self.what.kind()),
            time: Some(at),
            extensions: serde_json::Map::new(),
            data: Document::of_written(serde_json::to_vec(self).expect("an event is plain data")),
        }
    }
}

/// Reads a delivery from the stream of GitHub's events, which the bridge wrote. The subject says whose it is.
pub fn read(delivery: &Delivery) -> Result<GithubEvent, Rejection> {
    let (tenant, kind) = subject::parse_github(&delivery.subject)?;
    let envelope = Envelope::read(delivery)?;
    let wanted = format!("{TYPE_PREFIX}{kind}{TYPE_VERSION}");
    if envelope.kind != wanted {
        let detail = format!("is {:?}; by its subject it is {wanted:?}", envelope.kind);
        return Err(Rejection::at(Code::TypeUnknown, "type", detail));
    }
    let data = envelope.data.root();
    if data.size() > VALUES_MAX {
        let detail = format!("holds more than {VALUES_MAX} values and keys");
        return Err(Rejection::at(Code::TooManyValues, "data", detail));
    }
    let hash = data.content_hash();
    let data = GithubData::deserialize(data)
        .map_err(|error| Rejection::at(Code::FieldInvalid, "data", error.to_string()))?;
    Ok(GithubEvent {
        event: EventKey { tenant, source: envelope.source, id: envelope.id },
        content_hash: hash,
        at: envelope.time.unwrap_or(delivery.stored_at),
        data,
    })
}

/// The roles that remember an event of this kind once they have handled it: a push speaks of no pull request that people could
/// say something about, and what is said in passing tells nothing of a pull request's end. Of an unknown kind, everybody who
/// is handed it.
pub fn readers(kind: &str) -> &'static [Role] {
    match kind {
        "push" => &[Role::Tracker],
        "issue_comment" => &[Role::Reviewer],
        _ => &[Role::Reviewer, Role::Tracker],
    }
}

/// What the event in a delivery is called, as far as that can be read.
pub fn event(delivery: &Delivery) -> Option<EventKey> {
    let (tenant, _) = subject::parse_github(&delivery.subject).ok()?;
    let Envelope { source, id, .. } = Envelope::read(delivery).ok()?;
    Some(EventKey { tenant, source, id })
}

/// Whose events they are, for a subject of [`subject::github`].
pub fn subject_of(tenant: &Tenant, data: &GithubData) -> String {
    subject::github(tenant, data.what.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> GithubData {
        GithubData {
            repo: "acme/shop".to_owned(),
            host: "github.com".to_owned(),
            sender: None,
            what: Happened::PullRequestReviewThread {
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
    fn what_the_bridge_writes_is_what_is_read() {
        let tenant = Tenant::new("acme").unwrap();
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let encoded = said().envelope("delivery-1", at).structured();
        let subject = subject_of(&tenant, &said());
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
        let event = read(&arrived).unwrap();
        assert_eq!((event.data, event.at), (said(), at));
        let source = "https://github.com/acme/shop".to_owned();
        assert_eq!(event.event, EventKey { tenant, source, id: "delivery-1".to_owned() });
        let elsewhere = Delivery { subject: "retro.github.acme.push".to_owned(), ..arrived };
        assert_eq!(read(&elsewhere).unwrap_err().code, Code::TypeUnknown);
    }

    #[test]
    fn words_of_github_that_are_not_known_are_not_a_mistake() {
        assert_eq!(serde_json::from_str::<ReviewState>("\"new\"").unwrap(), ReviewState::Pending);
    }
}
