//! The gateway's port.

use async_trait::async_trait;
use retro_core::id::{MemoryId, RunId, Step, Tenant, WorkflowKey};
use retro_core::memory::Memory;
use retro_core::recall::Candidate;
use retro_core::review::Repository;

use crate::{NameStore, Result};

/// Connections that agents' reads have to themselves, in either database: more than two cores answer at once, and few enough for a server that
/// a fleet shares.
pub const AGENT_READERS_MAX: u32 = 6;

/// Recalling.
#[async_trait]
pub trait RecallStore: NameStore {
    /// Every active memory of the step with a weight of at least `weight_min`, with how many runs it was presented
    /// to.
    async fn candidates(&self, key: &WorkflowKey, step: &Step, weight_min: u16) -> Result<Vec<Candidate>>;

    /// Every active rule of the repository with a weight of at least `weight_min`, whatever path it is confined to, with how
    /// many runs it was presented to.
    async fn rules(&self, tenant: &Tenant, repo: &Repository, weight_min: u16) -> Result<Vec<Candidate>>;

    /// Records that these memories of the run's workflow, and rules of repositories, stood in the prompt of a run; once a run and memory, however often it is said.
    async fn record_presented(&self, key: &WorkflowKey, run: &RunId, memories: &[MemoryId]) -> Result<()>;

    /// Records that a run opened a memory; once. Nothing happens when the tenant has no such memory.
    async fn record_read(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<()>;

    /// A memory of the tenant; another tenant's answers exactly like a missing one.
    async fn memory(&self, tenant: &Tenant, id: MemoryId) -> Result<Option<Memory>>;
}
