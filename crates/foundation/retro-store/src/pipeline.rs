//! Storage port of the versions of the pipeline. A version is stored by the transaction that opens the first retrospective of a
//! tenant under it, so whoever works on a retrospective finds what its pipeline says, and nothing is ever overwritten.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::attribution::Attribution;
use retro_core::id::{RetrospectiveId, Tenant, Workflow};
use retro_core::pipeline::{PipelineContents, PipelineHash};
use retro_core::pipeline_quality::PipelineQuality;
use serde::Serialize;

use crate::Result;

/// A version of the pipeline under which a tenant had a retrospective.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PipelineVersionRow {
    /// SHA-256 of policy, prompts and schemas.
    pub hash: PipelineHash,
    /// SHA-256 of the prompts alone.
    pub prompts: PipelineHash,
    /// Folder from which the process had read it; empty for the built-in pipeline.
    pub loaded_from: String,
    /// First retrospective under it.
    pub retrospective: RetrospectiveId,
    /// Workflow of that retrospective.
    pub workflow: Workflow,
    /// Time when that retrospective was opened, by the database's clock.
    pub first_seen: Timestamp,
    /// What became of the memories that it made.
    pub quality: PipelineQuality,
}

/// A version that a person took back into the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PipelineRevert {
    /// Version that was written.
    pub hash: PipelineHash,
    /// Who did it, when and why.
    #[serde(flatten)]
    pub act: Attribution,
    /// Folder that was written.
    pub folder: String,
}

/// Reads versions of the pipeline, and records that people take them back.
#[async_trait]
pub trait PipelineStore: Send + Sync {
    /// Loads what a version says. Returns `None` if the tenant has had no retrospective under it.
    async fn load_pipeline(&self, tenant: &Tenant, hash: &PipelineHash) -> Result<Option<PipelineContents>>;

    /// Returns the hashes of the tenant's versions that begin with these digits, at most two, sorted.
    async fn find_pipelines(&self, tenant: &Tenant, digits: &str) -> Result<Vec<PipelineHash>>;

    /// Lists the newest versions of the tenant, newest first, at most `limit`, with their quality.
    async fn list_pipelines(&self, tenant: &Tenant, limit: u32) -> Result<Vec<PipelineVersionRow>>;

    /// Records that a person takes a version back.
    async fn record_pipeline_revert(&self, tenant: &Tenant, revert: &PipelineRevert) -> Result<()>;

    /// Lists the newest reverts of the tenant, newest first, at most `limit`.
    async fn list_pipeline_reverts(&self, tenant: &Tenant, limit: u32) -> Result<Vec<PipelineRevert>>;
}
