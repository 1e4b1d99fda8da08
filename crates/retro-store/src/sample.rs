//! The sampler's port.

use async_trait::async_trait;
use retro_core::id::{Ordinal, RetrospectiveId, Tenant};
use retro_core::investigate::Next;
use retro_core::retrospective::Retrospective;
use retro_core::sample::Sample;

use crate::{Result, Step, TraceStore};

/// What the sampler decides: the sample, and the first investigation.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Stored before anything is investigated.
    pub sample: Sample,
    /// What becomes due.
    pub first: Next,
}

/// What a sampler decides with: the retrospective and the ordinals of its window in, the sample out.
pub type Decide<'a> = &'a (dyn Fn(&Retrospective, Vec<Ordinal>) -> Sampling + Send + Sync);

/// Sampling.
#[async_trait]
pub trait SamplerStore: TraceStore {
    /// One transaction: if the retrospective is still due, lets `decide` draw, stores the sample, makes the first
    /// investigation due with its message ([`retro_core::message::Notice::InvestigationDue`]) and moves the
    /// retrospective to investigating.
    async fn sample(&self, tenant: &Tenant, id: RetrospectiveId, decide: Decide<'_>) -> Result<Step>;

    /// Retrospectives that have been due for `older_than_s` seconds: their wake-up was lost. At most `limit`.
    async fn overdue_samples(&self, older_than_s: u64, limit: u32) -> Result<Vec<(Tenant, RetrospectiveId)>>;
}
