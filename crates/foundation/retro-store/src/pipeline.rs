//! Storage port of the versions of the pipeline. A version is stored by the transaction that opens the first retrospective of a
//! tenant under it, so whoever works on a retrospective finds what its pipeline says, and nothing is ever overwritten.

use async_trait::async_trait;
use retro_core::id::Tenant;
use retro_core::pipeline::{PipelineContents, PipelineHash};

use crate::Result;

/// Reads versions of the pipeline.
#[async_trait]
pub trait PipelineStore: Send + Sync {
    /// Loads what a version says. Returns `None` if the tenant has had no retrospective under it.
    async fn load_pipeline(&self, tenant: &Tenant, hash: &PipelineHash) -> Result<Option<PipelineContents>>;

    /// Returns the hashes of the tenant's versions that begin with these digits, at most two, sorted.
    async fn find_pipelines(&self, tenant: &Tenant, digits: &str) -> Result<Vec<PipelineHash>>;
}
