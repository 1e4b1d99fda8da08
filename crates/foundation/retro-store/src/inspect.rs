//! Storage port for looking at one run in full, and at how often memories were used.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::check::CheckConclusion;
use retro_core::id::{MemoryId, Ordinal, RetrospectiveId, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::memory::Memory;
use retro_core::pull_request::PullRequestOutcome;
use retro_core::retrospective::{Investigation, Retrospective};
use retro_core::run::{BodyRef, RunFacts};
use retro_core::sample::Sample;
use serde::{Deserialize, Serialize};

use crate::{Result, StoredBody};

/// Maximum number of memories that are listed for one run. An engine presents a few; an event may name any.
pub const RUN_MEMORIES_MAX: usize = 500;

/// Maximum number of workflows that are searched for a run whose workflow is not given.
pub const RUN_WORKFLOWS_MAX: u32 = 20;

/// One run with everything that is stored about it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDetail {
    /// Tenant and workflow of the run.
    pub key: WorkflowKey,
    /// Id of the run.
    pub run: RunId,
    /// Ordinal of the run; `None` if the run is stored but not counted.
    pub ordinal: Option<Ordinal>,
    /// Highest attempt that was received.
    pub attempt: u32,
    /// Time at which the run was first stored, by the database clock.
    pub received_at: Timestamp,
    /// Facts of the run and the location of its body; `None` if retention has deleted them.
    pub facts: Option<(RunFacts, BodyRef)>,
    /// Body of the run.
    pub body: StoredBody,
    /// Memories that the run met, sorted by id.
    pub memories: Vec<RunMemory>,
    /// Retrospectives that claimed the run, investigated it or were asked about it, newest first.
    pub retrospectives: Vec<RunRetrospective>,
    /// Outcomes of the pull requests that the run is linked to.
    pub pull_requests: Vec<PullRequestOutcome>,
    /// Prompt versions in the commits that name the run.
    pub commit_prompt_versions: BTreeSet<String>,
    /// Conclusions of the CI runs that belong to the run.
    pub checks: Vec<CheckConclusion>,
}

/// What is recorded about a run and one memory.
#[derive(Debug, Clone, PartialEq)]
pub struct RunMemory {
    /// Id of the memory.
    pub id: MemoryId,
    /// The memory; `None` if the tenant has no such memory.
    pub memory: Option<Memory>,
    /// Time at which the gateway first put it into the run's prompt.
    pub presented_at: Option<Timestamp>,
    /// Time at which the run's agent first opened it.
    pub read_at: Option<Timestamp>,
    /// Decision by chance: `true` if the memory was withheld from the run; `None` if chance decided nothing.
    pub withheld: Option<bool>,
    /// First retrospective that found the memory applied in the run.
    pub applied_in: Option<RetrospectiveId>,
}

/// A retrospective and the investigation of one run in it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRetrospective {
    /// The retrospective.
    pub retrospective: Retrospective,
    /// Its sample; `None` until it is drawn.
    pub sample: Option<Sample>,
    /// Investigation of the run; `None` if none was scheduled.
    pub investigation: Option<Investigation>,
}

/// Number of runs that met a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MemoryUsage {
    /// Number of runs that the memory was presented to, since it was first presented.
    pub presented: u64,
    /// Number of runs whose agent opened the memory and whose details are still stored.
    pub read: u64,
    /// Number of runs in which a retrospective found the memory applied, with a good, bad or no effect.
    pub applied: u64,
}

/// Looks at single runs, and counts how often memories were used.
#[async_trait]
pub trait InspectStore: Send + Sync {
    /// Returns the workflows of the tenant that have a run with this id, sorted by name, at most
    /// [`RUN_WORKFLOWS_MAX`]. With `workflow`, only that one is searched.
    async fn find_run_workflows(
        &self,
        tenant: &Tenant,
        run: &RunId,
        workflow: Option<&Workflow>,
    ) -> Result<Vec<Workflow>>;

    /// Returns a run with everything that is stored about it; `None` if the workflow has no such run.
    async fn load_run_detail(&self, key: &WorkflowKey, run: &RunId) -> Result<Option<RunDetail>>;

    /// Counts the runs that met each of the tenant's memories or rules. The result has one entry for each id, in
    /// the order of `memories`; a memory of another tenant counts nothing.
    async fn count_memory_usage(&self, tenant: &Tenant, memories: &[MemoryId]) -> Result<Vec<MemoryUsage>>;
}
