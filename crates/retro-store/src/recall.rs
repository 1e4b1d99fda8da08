//! The gateway's port: memories for an agent, and records of presentations and reads.

use async_trait::async_trait;
use retro_core::id::{MemoryId, RunId, Step, Tenant, WorkflowKey};
use retro_core::memory::Memory;
use retro_core::recall::RecallCandidate;
use retro_core::review::Repository;

use crate::{MemoryRefStore, Result};

/// Number of database connections reserved for agents' reads, in either database: enough to answer more than
/// two agents concurrently, and few enough for a server that a fleet shares.
pub const AGENT_CONNECTIONS_MAX: u32 = 6;

/// Loads memories for agents and records their use.
#[async_trait]
pub trait RecallStore: MemoryRefStore {
    /// Returns the active memories of the step with a weight of at least `weight_min`, each with the number of
    /// runs it was presented to.
    async fn load_candidates(
        &self,
        key: &WorkflowKey,
        step: &Step,
        weight_min: u16,
    ) -> Result<Vec<RecallCandidate>>;

    /// Returns the active rules of the repository with a weight of at least `weight_min`, each with the number of
    /// runs it was presented to. Rules confined to any path are included; the caller matches paths.
    async fn load_rule_candidates(
        &self,
        tenant: &Tenant,
        repo: &Repository,
        weight_min: u16,
    ) -> Result<Vec<RecallCandidate>>;

    /// Records that memories of the run's workflow, and rules of repositories, were in the prompt of a run.
    /// Each run and memory is recorded once, even if the call is repeated.
    async fn record_presented(&self, key: &WorkflowKey, run: &RunId, memories: &[MemoryId]) -> Result<()>;

    /// Records, once, that a run opened a memory. Does nothing when the tenant has no such memory.
    async fn record_read(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<()>;

    /// Returns a memory of the tenant. Returns `None` for a memory of another tenant, as for a missing one.
    async fn find_memory(&self, tenant: &Tenant, id: MemoryId) -> Result<Option<Memory>>;
}
