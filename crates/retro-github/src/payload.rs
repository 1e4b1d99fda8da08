//! What is read of GitHub's payloads: these fields and no others, each of which may be missing or null. Whatever GitHub adds is
//! passed over.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// A webhook's body, of whichever event.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Payload {
    pub(crate) action: Option<String>,
    pub(crate) repository: Option<Repository>,
    pub(crate) installation: Option<Installation>,
    pub(crate) sender: Option<User>,
    pub(crate) pull_request: Option<PullRequest>,
    pub(crate) review: Option<Review>,
    pub(crate) comment: Option<Comment>,
    pub(crate) thread: Option<Thread>,
    pub(crate) issue: Option<Issue>,
    pub(crate) commits: Option<Vec<Commit>>,
    pub(crate) head_commit: Option<HeadCommit>,
    pub(crate) workflow_run: Option<WorkflowRun>,
    pub(crate) workflow: Option<Workflow>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Repository {
    pub(crate) full_name: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) owner: Option<User>,
    pub(crate) html_url: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Installation {
    pub(crate) id: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct User {
    /// The owner of a repository has only a `name` in some pushes.
    pub(crate) login: Option<String>,
    pub(crate) name: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct PullRequest {
    pub(crate) number: Option<u64>,
    pub(crate) user: Option<User>,
    pub(crate) state: Option<String>,
    pub(crate) merged: Option<bool>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) merged_at: Option<Timestamp>,
    pub(crate) merge_commit_sha: Option<String>,
    pub(crate) head: Option<Head>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) created_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) updated_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) closed_at: Option<Timestamp>,
    pub(crate) html_url: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Head {
    pub(crate) sha: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Review {
    pub(crate) id: Option<u64>,
    pub(crate) user: Option<User>,
    pub(crate) author_association: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) body: Option<String>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) submitted_at: Option<Timestamp>,
    pub(crate) html_url: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Comment {
    pub(crate) id: Option<u64>,
    pub(crate) user: Option<User>,
    pub(crate) author_association: Option<String>,
    pub(crate) body: Option<String>,
    pub(crate) pull_request_review_id: Option<u64>,
    pub(crate) in_reply_to_id: Option<u64>,
    pub(crate) path: Option<String>,
    pub(crate) line: Option<u64>,
    pub(crate) original_line: Option<u64>,
    pub(crate) reactions: Option<Reactions>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) created_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) html_url: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Reactions {
    #[serde(rename = "+1")]
    pub(crate) thumbs_up: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Thread {
    pub(crate) comments: Option<Vec<Comment>>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Issue {
    pub(crate) number: Option<u64>,
    /// Only there when the issue is a pull request; what is in it is not used.
    pub(crate) pull_request: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Commit {
    pub(crate) id: Option<String>,
    pub(crate) message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct HeadCommit {
    #[serde(default, deserialize_with = "moment")]
    pub(crate) timestamp: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct WorkflowRun {
    pub(crate) id: Option<u64>,
    pub(crate) name: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) run_attempt: Option<u32>,
    pub(crate) conclusion: Option<String>,
    pub(crate) head_sha: Option<String>,
    pub(crate) pull_requests: Option<Vec<PullRequest>>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) created_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) run_started_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) updated_at: Option<Timestamp>,
}

/// The workflow that ran; older payloads say its file here alone.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Workflow {
    pub(crate) path: Option<String>,
    pub(crate) name: Option<String>,
}

/// A moment; one that cannot be read is not known.
fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.and_then(|text| text.parse().ok()))
}
