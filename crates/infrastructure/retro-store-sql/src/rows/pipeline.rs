//! Converts rows of `pipeline_versions`.

use retro_core::pipeline_quality::PipelineQuality;
use retro_store::{PipelineVersionRow, Result};

use crate::at;

/// Row of `pipeline_versions` with the counts of its retrospectives.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct PipelineVersionRecord {
    hash: String,
    prompts: String,
    loaded_from: String,
    retrospective: String,
    workflow: String,
    first_seen_ms: i64,
    closed: i64,
    failed: i64,
    cost_usd: f64,
}

impl PipelineVersionRecord {
    /// Converts the row, without the memories that the version made. Fails if a value is damaged.
    pub(crate) fn to_version_row(&self) -> Result<PipelineVersionRow> {
        let place = at("pipeline_versions", &self.hash);
        Ok(PipelineVersionRow {
            hash: place.parse(&self.hash)?,
            prompts: at("pipeline_versions.prompts", &self.hash).parse(&self.prompts)?,
            loaded_from: self.loaded_from.clone(),
            retrospective: at("pipeline_versions.retrospective", &self.hash).parse(&self.retrospective)?,
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
