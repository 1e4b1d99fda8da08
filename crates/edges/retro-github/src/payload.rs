//! Defines the fields that are read from GitHub's payloads. Each may be missing or null; all others are
//! ignored.

use std::fmt;
use std::marker::PhantomData;

use jiff::Timestamp;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Maximum number of commits read from a push. GitHub sends no more.
const PUSHED_COMMITS_MAX: usize = 2048;
/// Maximum number of comments read from a review thread.
const THREAD_COMMENTS_MAX: usize = 1000;
/// Maximum number of pull requests read from a workflow run.
const RUN_PULL_REQUESTS_MAX: usize = 64;

/// Body of a webhook, with the fields of all event types.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Payload {
    pub(crate) action: Option<String>,
    /// Full name of the Git ref that was pushed to, such as `refs/heads/main`.
    #[serde(rename = "ref")]
    pub(crate) git_ref: Option<String>,
    pub(crate) repository: Option<Repository>,
    pub(crate) installation: Option<Installation>,
    pub(crate) pull_request: Option<PullRequest>,
    pub(crate) review: Option<Review>,
    pub(crate) comment: Option<Comment>,
    pub(crate) thread: Option<Thread>,
    pub(crate) issue: Option<Issue>,
    #[serde(default, deserialize_with = "first::<PUSHED_COMMITS_MAX, _, _>")]
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
    pub(crate) default_branch: Option<String>,
    /// `true` for internal repositories, too.
    pub(crate) private: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Installation {
    pub(crate) id: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct User {
    /// Login name; `None` in some pushes, where a repository's owner has only a `name`.
    pub(crate) login: Option<String>,
    pub(crate) name: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct PullRequest {
    pub(crate) number: Option<u64>,
    pub(crate) user: Option<User>,
    pub(crate) body: Option<String>,
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
    #[serde(default, deserialize_with = "first::<THREAD_COMMENTS_MAX, _, _>")]
    pub(crate) comments: Option<Vec<ThreadComment>>,
}

/// A comment in a review thread.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ThreadComment {
    pub(crate) id: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Issue {
    pub(crate) number: Option<u64>,
    /// Present only if the issue is a pull request; the content is not used.
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
    #[serde(default, deserialize_with = "first::<RUN_PULL_REQUESTS_MAX, _, _>")]
    pub(crate) pull_requests: Option<Vec<PullRequest>>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) created_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) run_started_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) updated_at: Option<Timestamp>,
}

/// The workflow that ran. In older payloads only this object contains the path of the workflow file.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Workflow {
    pub(crate) path: Option<String>,
    pub(crate) name: Option<String>,
}

/// Deserializes the first `MAX` items of an array and drops the rest. A body of a few kilobytes could contain
/// a thousand empty items, each of which takes as much memory as a full one.
fn first<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    struct First<const MAX: usize, T>(PhantomData<T>);

    impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for First<MAX, T> {
        type Value = Option<Vec<T>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
            let mut items = Vec::new();
            while items.len() < MAX
                && let Some(item) = array.next_element()?
            {
                items.push(item);
            }
            // Read to the end: a deserializer may reject an array with unread items.
            while array.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Some(items))
        }
    }

    from.deserialize_any(First::<MAX, T>(PhantomData))
}

/// Parses a timestamp; `None` if it is invalid.
fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.and_then(|text| text.parse().ok()))
}
