//! Storage port of the sampler, which draws the sample of each retrospective.

use async_trait::async_trait;
use retro_core::id::{Ordinal, RetrospectiveId, Tenant};
use retro_core::investigate::NextStage;
use retro_core::retrospective::Retrospective;
use retro_core::sample::Sample;

use crate::{CommitResult, Result, TraceStore};

/// Sample and first investigation of a retrospective.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnSample {
    /// Drawn sample, which is stored before any run is investigated.
    pub sample: Sample,
    /// First stage, which becomes due when the sample is stored.
    pub first: NextStage,
}

/// Callback that draws the sample of a retrospective from the ordinals of its window.
pub type DecideSample<'a> = &'a (dyn Fn(&Retrospective, Vec<Ordinal>) -> DrawnSample + Send + Sync);

/// Draws and stores the samples of retrospectives.
#[async_trait]
pub trait SamplerStore: TraceStore {
    /// Draws the sample of a retrospective in one transaction.
    ///
    /// If the retrospective is still due, calls `decide`, stores the sample, makes the first investigation
    /// due, stores its message ([`retro_core::message::Notice::InvestigationDue`]), and moves the
    /// retrospective to investigating.
    async fn draw_sample(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        decide: DecideSample<'_>,
    ) -> Result<CommitResult>;

    /// Returns at most `limit` retrospectives that have been due for at least `older_than_s` seconds, so
    /// their wake-up messages are presumed lost.
    async fn list_overdue_samples(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, RetrospectiveId)>>;
}
