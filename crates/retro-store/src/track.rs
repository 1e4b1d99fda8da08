//! The tracker's port: facts about pull requests, and the runs that belong to them.
//!
//! The link between a run and a pull request is not stored but queried (the view `run_links`), and the facts
//! about a pull request only grow, so the order of arrival does not matter. A transaction that reveals that a
//! memory was applied in a run of an ended pull request also requests credit from the writer. It may store
//! the end of the pull request, a late run, or the closing of a retrospective.

use async_trait::async_trait;
use retro_core::id::{EventKey, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::outcome::{PullRequestFacts, PullRequestRef};
use retro_core::retention::SeenContent;

use crate::Result;

/// Consumer name of the tracker in the inbox.
pub const TRACKER_CONSUMER: &str = "tracker";

/// An event about a pull request or about commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestEvent {
    /// Identity of the event.
    pub event: EventKey,
    /// SHA-256 of the event's canonical data.
    pub content_hash: String,
    /// Pull request and the facts that the event adds; `None` for a push.
    pub pull_request: Option<(PullRequestRef, PullRequestFacts)>,
    /// Head commits and merge commits of the pull request, in lower case.
    pub commits: Vec<String>,
    /// Trailers of commits that name runs.
    pub trailers: Vec<Trailer>,
}

/// A commit trailer that names a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trailer {
    /// Commit that has the trailer, in lower case.
    pub commit: String,
    /// Text of the trailer, which has at least one valid reading.
    pub text: String,
}

/// Outcome of recording an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrackResult {
    /// The event was stored.
    Recorded,
    /// The event had been stored before. Nothing changed.
    Duplicate,
    /// Another event with the same identity was stored before. Nothing changed.
    Conflict(SeenContent),
}

/// Records pull requests and links runs to them.
#[async_trait]
pub trait TrackerStore: Send + Sync {
    /// Records an event in one transaction under the tracker's lock of the tenant: the inbox row, the facts that
    /// the event adds and, where memories were applied in runs of a pull request that has ended, the credit to be
    /// given and its message.
    async fn record_pull_request_event(&self, received: &PullRequestEvent) -> Result<TrackResult>;

    /// Returns workflows that have untracked runs, of tenants that have pull requests; at most `limit`.
    async fn list_untracked_workflows(&self, limit: u32) -> Result<Vec<WorkflowKey>>;

    /// Tracks the next runs of a workflow, at most `limit`, in one transaction under the tracker's lock of
    /// the tenant. Requests credit from the writer where a run belongs to a pull request that has ended.
    /// Returns how many runs were tracked. A run whose details were purged before it was tracked belongs to
    /// no pull request.
    async fn track_runs(&self, key: &WorkflowKey, limit: u32) -> Result<usize>;
}

/// A run, a pull request it belongs to, and the facts about that pull request.
pub type RunLink = (Workflow, RunId, PullRequestRef, PullRequestFacts);

/// Sort key of links; the links of a run are adjacent.
pub type RunLinkKey = (RunId, Workflow, PullRequestRef);

/// Reads the pull requests behind runs.
#[async_trait]
pub trait OutcomeStore: Send + Sync {
    /// Returns links of the tenant's runs to pull requests, of one workflow or of all, ordered by run, workflow
    /// and pull request. Starts after `after`; at most `limit`.
    async fn list_run_links(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        after: Option<&RunLinkKey>,
        limit: u32,
    ) -> Result<Vec<RunLink>>;
}
