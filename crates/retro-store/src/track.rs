//! Ports of the tracker, which stores facts about pull requests and finds the runs that belong to them.
//!
//! The link between a run and a pull request is not stored but queried (the view `run_links`), and the facts about a
//! pull request only grow, so the order of arrival does not matter. A transaction that reveals that a memory was
//! applied in a run of an ended pull request also requests credit from the writer. Such a transaction may store the end
//! of the pull request, a late run, or the closing of a retrospective.

use async_trait::async_trait;
use retro_core::id::{EventKey, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::outcome::{PullRequestFacts, PullRequestRef};
use retro_core::retention::SeenContent;

use crate::Result;

/// Name under which the tracker records events in the inbox.
pub const TRACKER_CONSUMER: &str = "tracker";

/// An event about a pull request or about commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequestEvent {
    /// Identity of the event.
    pub event: EventKey,
    /// SHA-256 of the event's canonical data, by which two events with one identity are compared.
    pub content_hash: String,
    /// Pull request that the event is about, with the facts that it adds; `None` for a push.
    pub pull_request: Option<(PullRequestRef, PullRequestFacts)>,
    /// Ids of head and merge commits of the pull request, in lower case.
    pub commits: Vec<String>,
    /// Trailers of commits that name runs, as the event lists them.
    pub trailers: Vec<Trailer>,
}

/// A commit trailer that names a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trailer {
    /// Id of the commit that has the trailer, in lower case.
    pub commit: String,
    /// Text of the trailer, which can be read as a run id in at least one way.
    pub text: String,
}

/// Outcome of recording a pull request event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrackResult {
    /// The event was new and has been stored.
    Recorded,
    /// The same event had been stored before. Nothing changed.
    Duplicate,
    /// Another event with the same identity was stored before. Holds what is stored about that event. Nothing changed.
    Conflict(SeenContent),
}

/// Records events about pull requests, and links runs to pull requests.
#[async_trait]
pub trait TrackerStore: Send + Sync {
    /// Records an event in one transaction under the tracker's lock of the tenant. Stores the inbox row and the facts
    /// that the event adds. If memories were applied in runs of a pull request that has ended, also stores that credit
    /// is due, and its message.
    async fn record_pull_request_event(&self, received: &PullRequestEvent) -> Result<TrackResult>;

    /// Returns workflows that have untracked runs, at most `limit`. Tenants without pull requests are skipped.
    async fn list_untracked_workflows(&self, limit: u32) -> Result<Vec<WorkflowKey>>;

    /// Tracks the next runs of a workflow, at most `limit`, in one transaction under the tracker's lock of the tenant.
    /// If a run belongs to a pull request that has ended, requests credit from the writer. Returns the number of
    /// tracked runs. A run whose details were purged before it was tracked belongs to no pull request.
    async fn track_runs(&self, key: &WorkflowKey, limit: u32) -> Result<usize>;
}

/// A link from a run to a pull request: workflow, run id, pull request, and the facts about that pull request.
pub type RunLink = (Workflow, RunId, PullRequestRef, PullRequestFacts);

/// Sort key of a link. The links of one run are adjacent in this order.
pub type RunLinkKey = (RunId, Workflow, PullRequestRef);

/// Reads the pull requests that runs belong to.
#[async_trait]
pub trait OutcomeStore: Send + Sync {
    /// Returns links of the tenant's runs to pull requests, sorted by run, workflow and pull request. `workflow` limits
    /// them to one workflow; `None` includes all. Starts after the key `after`, or with the first link when it is
    /// `None`. Returns at most `limit`.
    async fn list_run_links(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        after: Option<&RunLinkKey>,
        limit: u32,
    ) -> Result<Vec<RunLink>>;
}
