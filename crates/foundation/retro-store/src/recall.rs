//! Storage port of the gateway, which loads memories for agents and records presentations and reads.

use async_trait::async_trait;
use retro_core::audience::RunRepository;
use retro_core::id::{MemoryId, Repository, RunId, Step, Tenant, WorkflowKey};
use retro_core::memory::Memory;
use retro_core::recall::{Assignment, RecallCandidate};

use crate::{ContextLeaseStore, FeedbackStore, KillSwitchStore, MemoryRefStore, Result};

/// Maximum number of database connections for agents' reads, on both databases. Enough to serve several
/// agents concurrently, but small enough for a Postgres server shared by many processes.
pub const AGENT_CONNECTIONS_MAX: u32 = 6;

/// Maximum number of answers that are applied when one is recorded alone.
const APPLIED_AT_ONCE_MAX: u32 = 16;

/// Memories that a run was handed, and what chance decided about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presentation {
    /// Workflow of the run.
    pub key: WorkflowKey,
    /// Run to which the memories were handed.
    pub run: RunId,
    /// Memories and rules in the run's prompt.
    pub memories: Vec<MemoryId>,
    /// Decisions by chance about memories of the workflow.
    pub assignments: Vec<Assignment>,
}

/// Result of applying presentations that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AppliedPresentations {
    /// Number of answers that were applied.
    pub applied: u64,
    /// Upper bound of the number of answers that still wait.
    pub waiting_max: u64,
}

/// Loads memories for agents, and records presentations and reads.
#[async_trait]
pub trait RecallStore: MemoryRefStore + ContextLeaseStore + FeedbackStore + KillSwitchStore {
    /// Returns the active memories of a step whose weight is at least `weight_min`, each with the number of
    /// runs to which it was presented. Leaves out those of other repositories, and without a repository those of
    /// any. If the visibility of the repository is not stated, it is what its tracked runs have last said.
    async fn load_candidates(
        &self,
        key: &WorkflowKey,
        step: &Step,
        repository: Option<&RunRepository>,
        weight_min: u16,
    ) -> Result<Vec<RecallCandidate>>;

    /// Returns the active rules of a repository whose weight is at least `weight_min`, each with the number
    /// of runs to which it was presented. Includes path-scoped rules; the caller filters them by path.
    async fn load_rule_candidates(
        &self,
        tenant: &Tenant,
        repo: &Repository,
        weight_min: u16,
    ) -> Result<Vec<RecallCandidate>>;

    /// Reads what agents may ask for ahead, so that the first of them do not wait for a cold disk. Takes seconds, and does
    /// nothing if the database needs none.
    async fn read_ahead(&self);

    /// Records memories that were presented in the prompts of runs, and decisions by chance, in one transaction: a row for
    /// each of the answers, which waits until [`apply_presentations`](Self::apply_presentations). Until then it is known
    /// to whoever asks about the run, to its investigation and to what weighs feedback on it, but not counted for the
    /// memories.
    async fn record_presentations(&self, presentations: &[Presentation]) -> Result<()>;

    /// Applies the oldest presentations that wait, those of at most `limit` answers, in one transaction, each once for a
    /// run and memory. The first decision about a run and a memory stays. Ignores ids that are neither memories of the
    /// workflow nor repository rules of the tenant, and decisions about memories that are not the workflow's.
    async fn apply_presentations(&self, limit: u32) -> Result<AppliedPresentations>;

    /// Records the memories that were presented to one run, and applies them at once, unless many others wait.
    async fn record_presented(
        &self,
        key: &WorkflowKey,
        run: &RunId,
        memories: &[MemoryId],
        assignments: &[Assignment],
    ) -> Result<()> {
        let (memories, assignments) = (memories.to_vec(), assignments.to_vec());
        let one = Presentation { key: key.clone(), run: run.clone(), memories, assignments };
        self.record_presentations(&[one]).await?;
        self.apply_presentations(APPLIED_AT_ONCE_MAX).await?;
        Ok(())
    }

    /// Records that a run opened a memory. Idempotent per run and memory. Ignores an id that is neither a
    /// memory of the workflow nor a repository rule of the tenant.
    async fn record_read(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<()>;

    /// Returns `true` if the memory is recorded as presented to the run.
    async fn was_presented(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<bool>;

    /// Returns `true` if the memory was presented to the run or read by it.
    async fn was_handed(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<bool>;

    /// Returns a memory of the tenant by its id; `None` if the tenant has no such memory.
    async fn find_memory(&self, tenant: &Tenant, id: MemoryId) -> Result<Option<Memory>>;
}
