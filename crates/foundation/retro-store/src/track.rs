//! Storage ports of the tracker, which stores pull request facts and links runs to pull requests.
//!
//! Links between runs and pull requests are not stored but computed by the view `run_links`, and pull request
//! facts only grow, so the order of arrival does not matter. Credit falls due once a memory or rule is known to be
//! applied in a run of a pull request with a known outcome. The transaction that completes this knowledge (the outcome
//! of the pull request, a late run, or the closing of a retrospective) also stores the message that requests credit
//! from the writer, one for each scope that has something to credit.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{EventKey, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::outcome::PromptRun;
use retro_core::pull_request::{PullRequestFacts, PullRequestRef};
use retro_core::retention::SeenContent;

use crate::Result;

/// Consumer name of the tracker in the inbox.
pub const TRACKER_CONSUMER: &str = "tracker";

/// Event about a pull request, or about pushed commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestEvent {
    /// Tenant, source and id of the event.
    pub event: EventKey,
    /// SHA-256 of the event's canonical data, which distinguishes a duplicate from a conflicting event with
    /// the same identity.
    pub content_hash: String,
    /// Pull request of the event with the facts that the event adds; `None` for a push.
    pub pull_request: Option<(PullRequestRef, PullRequestFacts)>,
    /// SHAs of head and merge commits of the pull request, in lower case.
    pub commits: Vec<String>,
    /// Run trailers of the event's commits, in event order.
    pub trailers: Vec<Trailer>,
    /// Reverts that the event reports.
    pub reverts: Vec<Revert>,
}

/// A revert of an earlier change, which has taken effect on the default branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revert {
    /// Repository of the change, as `owner/name` in lower case.
    pub repo: String,
    /// Pull request or commit that was reverted.
    pub change: RevertedChange,
    /// Time of the merge or push that reverted it.
    pub at: Timestamp,
}

/// A pull request or commit that was reverted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevertedChange {
    /// Number of the pull request.
    PullRequest(u64),
    /// SHA of a commit, in lower case. It belongs to a pull request if it is, or turns out to be, its merge commit or
    /// its head.
    Commit(String),
}

/// A commit trailer that names a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trailer {
    /// SHA of the commit, in lower case.
    pub commit: String,
    /// Trailer value, which parses as a run id in at least one way.
    pub text: String,
    /// Version of the agent's prompt, from another trailer of the commit; `None` if it has none.
    pub prompt_version: Option<String>,
}

/// Outcome of recording a pull request event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrackResult {
    /// The event was new and is now stored.
    Recorded,
    /// The same event was stored before. Nothing changed.
    Duplicate,
    /// A different event with the same identity was stored before; contains its inbox entry. Nothing changed.
    Conflict(SeenContent),
}

/// Records pull request events and links runs to pull requests.
#[async_trait]
pub trait TrackerStore: Send + Sync {
    /// Records an event in one transaction under the tenant's tracker lock. Stores the inbox row and the
    /// facts that the event adds. If an outcome of the pull request is known and something was applied in its runs,
    /// also stores the due credits and their messages.
    async fn record_pull_request_event(&self, received: &PullRequestEvent) -> Result<TrackResult>;

    /// Returns at most `limit` workflows with untracked runs. Skips tenants without pull requests.
    async fn list_untracked_workflows(&self, limit: u32) -> Result<Vec<WorkflowKey>>;

    /// Tracks the next runs of a workflow, at most `limit`, in one transaction under the tenant's tracker
    /// lock, and returns their number. Requests credit from the writer for runs of pull requests with a known outcome. A run
    /// whose details were purged before it was tracked is linked to no pull request.
    async fn track_runs(&self, key: &WorkflowKey, limit: u32) -> Result<usize>;
}

/// Link from a run to a pull request: workflow, run id, pull request and its facts.
pub type RunLink = (Workflow, RunId, PullRequestRef, PullRequestFacts);

/// Sort key and pagination cursor of run links. Links of the same run are adjacent.
pub type RunLinkKey = (RunId, Workflow, PullRequestRef);

/// Reads links from runs to pull requests.
#[async_trait]
pub trait OutcomeStore: Send + Sync {
    /// Returns at most `limit` links of the tenant's runs to pull requests, sorted by run, workflow and pull
    /// request. `workflow` selects one workflow, `None` all of them. Starts after the key `after`, or with
    /// the first link if `after` is `None`.
    async fn list_run_links(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        after: Option<&RunLinkKey>,
        limit: u32,
    ) -> Result<Vec<RunLink>>;

    /// Returns the newest counted runs of a workflow whose facts are stored, at most `limit`, each with the prompt
    /// versions in its commits and the facts of its pull requests. The newest run comes first.
    async fn list_prompt_runs(&self, key: &WorkflowKey, limit: u32) -> Result<Vec<PromptRun>>;
}
