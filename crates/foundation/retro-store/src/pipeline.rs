//! Storage port of the versions of the pipelines. A version is stored by the transaction that opens the first retrospective, or
//! decides the first review, of a tenant under it. So whoever works on a retrospective finds what its pipeline says, and nothing
//! is ever overwritten.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::attribution::Attribution;
use retro_core::id::{RetrospectiveId, ReviewBatchId, Tenant, Workflow};
use retro_core::pipeline::{PipelineContents, PipelineHash, PipelineName};
use retro_core::pipeline_quality::PipelineQuality;
use serde::Serialize;

use crate::Result;

/// A version of a pipeline under which a tenant had a retrospective or a review.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PipelineVersionRow {
    /// The pipeline.
    pub pipeline: PipelineName,
    /// SHA-256 of policy or settings, prompts and schemas.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub hash: PipelineHash,
    /// SHA-256 of the prompts alone.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub prompts: PipelineHash,
    /// Folder from which the process had read it; empty for the built-in pipeline.
    pub loaded_from: String,
    /// First retrospective under it; `None` for the review pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub retrospective: Option<RetrospectiveId>,
    /// First review under it; `None` for the other pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub review: Option<ReviewBatchId>,
    /// Workflow of that retrospective, or rule scope of that review.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub workflow: Workflow,
    /// Time when that retrospective was opened or that review was decided, by the database's clock.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub first_seen: Timestamp,
    /// What became of the memories that it made.
    pub quality: PipelineQuality,
}

/// A version that a person took back into the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PipelineRevert {
    /// Version that was written.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub hash: PipelineHash,
    /// Who did it, when and why.
    #[serde(flatten)]
    pub act: Attribution,
    /// Folder that was written.
    pub folder: String,
}

/// A recorded revert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PipelineRevertRow {
    /// The revert, with the time of the machine on which it was requested.
    #[serde(flatten)]
    pub revert: PipelineRevert,
    /// Time when it was recorded, by the database's clock.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub recorded_at: Timestamp,
}

/// Reads versions of the pipelines, and records that people take them back.
#[async_trait]
pub trait PipelineStore: Send + Sync {
    /// Loads what a version of a pipeline says. Returns `None` if the tenant has had no retrospective or review under it.
    async fn load_pipeline(
        &self,
        tenant: &Tenant,
        pipeline: PipelineName,
        hash: &PipelineHash,
    ) -> Result<Option<PipelineContents>>;

    /// Returns the tenant's versions whose hashes begin with these digits, at most two of each pipeline, sorted.
    async fn find_pipelines(
        &self,
        tenant: &Tenant,
        digits: &str,
    ) -> Result<Vec<(PipelineName, PipelineHash)>>;

    /// Lists the newest versions of a pipeline, newest first, at most `limit`, with their quality.
    async fn list_pipelines(
        &self,
        tenant: &Tenant,
        pipeline: PipelineName,
        limit: u32,
    ) -> Result<Vec<PipelineVersionRow>>;

    /// Records that a person takes a version back.
    async fn record_pipeline_revert(&self, tenant: &Tenant, revert: &PipelineRevert) -> Result<()>;

    /// Lists the newest reverts of the tenant, newest first, at most `limit`.
    async fn list_pipeline_reverts(&self, tenant: &Tenant, limit: u32) -> Result<Vec<PipelineRevertRow>>;
}
