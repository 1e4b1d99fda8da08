//! Port of the gateway, which loads memories for agents and records what was presented and read.

use async_trait::async_trait;
use retro_core::id::{MemoryId, RunId, Step, Tenant, WorkflowKey};
use retro_core::memory::Memory;
use retro_core::recall::RecallCandidate;
use retro_core::review::Repository;

use crate::{MemoryRefStore, Result};

/// Number of database connections reserved for agents' reads, in each kind of database. It is enough to answer several
/// agents concurrently, and small enough for a server that many processes share.
pub const AGENT_CONNECTIONS_MAX: u32 = 6;

/// Loads memories for agents, and records their presentation and use.
#[async_trait]
pub trait RecallStore: MemoryRefStore {
    /// Returns the active memories of the step with a weight of at least `weight_min`, each with the number of runs to
    /// which it was presented.
    async fn load_candidates(
        &self,
        key: &WorkflowKey,
        step: &Step,
        weight_min: u16,
    ) -> Result<Vec<RecallCandidate>>;

    /// Returns the active rules of the repository with a weight of at least `weight_min`, each with the number of runs
    /// to which it was presented. Includes rules that are limited to certain paths; the caller matches the paths.
    async fn load_rule_candidates(
        &self,
        tenant: &Tenant,
        repo: &Repository,
        weight_min: u16,
    ) -> Result<Vec<RecallCandidate>>;

    /// Records that a run's prompt contained these memories of its workflow or rules of repositories. Each memory is
    /// recorded once per run, even if the call is repeated.
    async fn record_presented(&self, key: &WorkflowKey, run: &RunId, memories: &[MemoryId]) -> Result<()>;

    /// Records that a run opened a memory, once per run and memory. Does nothing when the tenant has no such memory.
    async fn record_read(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<()>;

    /// Returns a memory of the tenant by its id; `None` when the tenant has no such memory.
    async fn find_memory(&self, tenant: &Tenant, id: MemoryId) -> Result<Option<Memory>>;
}
