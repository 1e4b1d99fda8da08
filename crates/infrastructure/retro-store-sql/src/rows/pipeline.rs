//! Converts rows of `pipeline_versions`.

use retro_core::pipeline::PipelineName;
use retro_core::pipeline_quality::PipelineQuality;
use retro_store::{PipelineVersionRow, Result};

use crate::at;

/// Row of `pipeline_versions` or `review_pipeline_versions` with the counts of its retrospectives or reviews.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct PipelineVersionRecord {
    hash: String,
    prompts: String,
    loaded_from: String,
    first: String,
    workflow: String,
    first_seen_ms: i64,
    closed: i64,
    failed: i64,
    cost_usd: f64,
}

impl PipelineVersionRecord {
    /// Converts the row, without the memories that the version made. Fails if a value is damaged.
    pub(crate) fn to_version_row(&self, pipeline: PipelineName) -> Result<PipelineVersionRow> {
        let place = at("pipeline_versions", &self.hash);
        let origin = at("first retrospective or review of a pipeline's version", &self.hash);
        let first = |of: PipelineName| (of == pipeline).then_some(self.first.as_str());
        Ok(PipelineVersionRow {
            pipeline,
            hash: place.parse(&self.hash)?,
            prompts: at("pipeline_versions.prompts", &self.hash).parse(&self.prompts)?,
            loaded_from: self.loaded_from.clone(),
            retrospective: first(PipelineName::Retrospective).map(|id| origin.parse(id)).transpose()?,
            review: first(PipelineName::Review).map(|id| origin.parse(id)).transpose()?,
            workflow: at("pipeline_versions.workflow", &self.hash).parse(&self.workflow)?,
            first_seen: place.parse_millis(self.first_seen_ms)?,
            quality: PipelineQuality {
                retrospectives: place.parse_unsigned(self.closed)?,
                failed: place.parse_unsigned(self.failed)?,
                cost_usd: self.cost_usd,
                ..PipelineQuality::default()
            },
        })
    }
}
