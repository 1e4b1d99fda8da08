//! Rows of `retrospectives`.

use retro_core::manual::Asked;
use retro_core::retrospective::Retrospective;
use retro_core::sample::Sample;
use retro_store::{Result, RetrospectiveRow};

use crate::{at, workflow_key};

/// A row of `retrospectives`.
#[derive(Debug, sqlx::FromRow)]
pub struct Record {
    tenant: String,
    id: String,
    workflow: String,
    epoch: i64,
    first_ordinal: i64,
    last_ordinal: i64,
    as_of: String,
    policy: String,
    state: String,
    sample: Option<String>,
    asked: Option<String>,
}

impl Record {
    /// The stored number: an epoch, or negative for one that a person asked for.
    pub const fn number(&self) -> i64 {
        self.epoch
    }

    /// The retrospective, and its sample once it is drawn.
    pub fn read(&self) -> Result<(Retrospective, Option<Sample>)> {
        let place = at("retrospectives", &self.id);
        let asked = self.asked.as_deref().map(|text| at("retrospectives.asked", &self.id).json(text));
        let asked: Option<Asked> = asked.transpose()?;
        let retrospective = Retrospective {
            id: place.parse(&self.id)?,
            key: workflow_key(&self.tenant, &self.workflow)?,
            epoch: if asked.is_some() { 0 } else { place.unsigned(self.epoch)? },
            first: place.unsigned(self.first_ordinal)?,
            last: place.unsigned(self.last_ordinal)?,
            as_of: at("retrospectives.as_of", &self.id).parse(&self.as_of)?,
            policy: at("retrospectives.policy", &self.id).json(&self.policy)?,
            state: at("retrospectives.state", &self.id).word(&self.state)?,
            asked,
        };
        let sample = self.sample.as_deref().map(|text| at("retrospectives.sample", &self.id).json(text));
        Ok((retrospective, sample.transpose()?))
    }
}

/// A row of `retrospectives` with what came of it so far.
#[derive(Debug, sqlx::FromRow)]
pub struct ListedRecord {
    #[sqlx(flatten)]
    whole: Record,
    investigated: i64,
    changes: i64,
}

impl ListedRecord {
    /// One line of a list.
    pub fn read(&self) -> Result<RetrospectiveRow> {
        let (retrospective, _) = self.whole.read()?;
        let place = at("retrospectives", retrospective.id);
        let (investigated, changes) = (place.unsigned(self.investigated)?, place.unsigned(self.changes)?);
        Ok(RetrospectiveRow { retrospective, investigated, changes })
    }
}

/// A sample that must have been drawn.
pub fn drawn(retrospective: &Retrospective, sample: Option<Sample>) -> Result<Sample> {
    sample.ok_or_else(|| {
        at("retrospectives.sample", retrospective.id)
            .damaged(format!("it is {} and has no sample", retrospective.state.as_str()))
    })
}
