//! The tracker's port: what is heard of pull requests, and which runs belong to them.
//!
//! Which run belongs to which pull request is not stored but asked (the view `run_links`), and what is known of a pull
//! request only grows, so no order of arrival matters. Whatever makes it known that a memory was applied behind an ended
//! pull request (its end, a run that came late, a retrospective that closed) asks the writer for credit in the same
//! transaction.

use async_trait::async_trait;
use retro_core::id::{EventKey, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::keep::Seen;
use retro_core::outcome::{PullRequestFacts, PullRequestRef};

use crate::Result;

/// The tracker's name in the inbox.
pub const TRACKER: &str = "tracker";

/// What an event says about a pull request, or about commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The event.
    pub event: EventKey,
    /// SHA-256 of its canonical data.
    pub content_hash: String,
    /// The pull request, and what the event adds to what is known of it; `None` for a push.
    pub pull_request: Option<(PullRequestRef, PullRequestFacts)>,
    /// Commits at its head, or that merged it; in lower case.
    pub commits: Vec<String>,
    /// Runs that commits name.
    pub trailers: Vec<Trailer>,
}

/// A run that a commit names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trailer {
    /// The commit, in lower case.
    pub commit: String,
    /// The trailer as it stands there; it has at least one reading.
    pub named: String,
}

/// What came of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tracked {
    /// It is stored now.
    Now,
    /// It had been stored before: nothing changed.
    Before,
    /// Another event came under its identity before: nothing changed.
    Conflict(Seen),
}

/// Following pull requests to their end.
#[async_trait]
pub trait TrackerStore: Send + Sync {
    /// One transaction under the tracker's lock of the tenant: the inbox row, what the event adds, and where memories were
    /// applied behind a pull request that has ended by now, the writer's work with its message.
    async fn track(&self, heard: &Heard) -> Result<Tracked>;

    /// Workflows of tenants with pull requests that have runs which were not followed yet; at most `limit`.
    async fn unfollowed(&self, limit: u32) -> Result<Vec<WorkflowKey>>;

    /// One transaction under the tracker's lock of the tenant: follows the next runs of a workflow, at most `limit`, and
    /// asks the writer for credit where one belongs to a pull request that has ended. Returns how many it followed. A run
    /// whose details were purged before it was followed belongs nowhere.
    async fn follow(&self, key: &WorkflowKey, limit: u32) -> Result<usize>;
}

/// A run, a pull request that it belongs to, and what is known of that.
pub type RunLink = (Workflow, RunId, PullRequestRef, PullRequestFacts);

/// By what links are sorted: a run's links come one after the other.
pub type LinkKey = (RunId, Workflow, PullRequestRef);

/// What became of runs.
#[async_trait]
pub trait OutcomeStore: Send + Sync {
    /// The tenant's runs that belong to pull requests, of one workflow or all, by run, workflow and pull request; the first
    /// ones after `after`, at most `limit`.
    async fn run_links(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        after: Option<&LinkKey>,
        limit: u32,
    ) -> Result<Vec<RunLink>>;
}
