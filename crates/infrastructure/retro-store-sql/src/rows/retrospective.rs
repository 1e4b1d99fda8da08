//! Converts rows of `retrospectives`.

use retro_core::pipeline::PipelineHashes;
use retro_core::retrospective::{ManualRequest, Retrospective};
use retro_core::sample::Sample;
use retro_store::{Result, RetrospectiveRow};

use crate::{at, parse_workflow_key};

/// Row of `retrospectives`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct RetrospectiveRecord {
    tenant: String,
    id: String,
    workflow: String,
    epoch: i64,
    first_ordinal: i64,
    last_ordinal: i64,
    as_of: String,
    policy: String,
    pipeline: Option<String>,
    prompts: Option<String>,
    state: String,
    sample: Option<String>,
    request: Option<String>,
}

impl RetrospectiveRecord {
    /// Returns the stored epoch, which is negative for a manual retrospective.
    pub(crate) const fn stored_epoch(&self) -> i64 {
        self.epoch
    }

    /// Converts the row to the retrospective and its sample, which is `None` until drawn. Fails if a value is
    /// damaged.
    pub(crate) fn to_retrospective(&self) -> Result<(Retrospective, Option<Sample>)> {
        let place = at("retrospectives", &self.id);
        let asked =
            self.request.as_deref().map(|text| at("retrospectives.request", &self.id).parse_json(text));
        let asked: Option<ManualRequest> = asked.transpose()?;
        let retrospective = Retrospective {
            id: place.parse(&self.id)?,
            key: parse_workflow_key(&self.tenant, &self.workflow)?,
            // The stored epoch of a manual retrospective only makes its row unique.
            epoch: if asked.is_some() { 0 } else { place.parse_unsigned(self.epoch)? },
            first: place.parse_unsigned(self.first_ordinal)?,
            last: place.parse_unsigned(self.last_ordinal)?,
            as_of: at("retrospectives.as_of", &self.id).parse(&self.as_of)?,
            policy: at("retrospectives.policy", &self.id).parse_json(&self.policy)?,
            pipeline: self.pipeline_hashes()?,
            state: at("retrospectives.state", &self.id).parse_enum(&self.state)?,
            manual_request: asked,
        };
        let sample =
            self.sample.as_deref().map(|text| at("retrospectives.sample", &self.id).parse_json(text));
        Ok((retrospective, sample.transpose()?))
    }

    fn pipeline_hashes(&self) -> Result<Option<PipelineHashes>> {
        let (Some(pipeline), Some(prompts)) = (&self.pipeline, &self.prompts) else { return Ok(None) };
        let parse = |column: &'static str, text: &str| at(column, &self.id).parse(text);
        Ok(Some(PipelineHashes {
            pipeline: parse("retrospectives.pipeline", pipeline)?,
            prompts: parse("retrospectives.prompts", prompts)?,
        }))
    }
}

/// Row of `retrospectives` with the progress of the retrospective.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct RetrospectiveListRecord {
    #[sqlx(flatten)]
    whole: RetrospectiveRecord,
    investigated: i64,
    changes: i64,
}

impl RetrospectiveListRecord {
    /// Converts the row to a [`RetrospectiveRow`]. Fails if a value is damaged.
    pub(crate) fn to_retrospective_row(&self) -> Result<RetrospectiveRow> {
        let (retrospective, _) = self.whole.to_retrospective()?;
        let place = at("retrospectives", retrospective.id);
        let (investigated, changes) =
            (place.parse_unsigned(self.investigated)?, place.parse_unsigned(self.changes)?);
        Ok(RetrospectiveRow { retrospective, investigated, changes })
    }
}

/// Unwraps the sample of a retrospective. Fails if it has not been drawn.
pub(crate) fn require_sample(retrospective: &Retrospective, sample: Option<Sample>) -> Result<Sample> {
    sample.ok_or_else(|| {
        at("retrospectives.sample", retrospective.id)
            .damaged_error(format!("it is {} but has no sample", retrospective.state.as_str()))
    })
}
