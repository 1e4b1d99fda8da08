//! The port of what is measured in the database: how things stand over all tenants, for whoever runs the whole. No answer
//! says whose anything is.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{RetrospectiveId, Tenant};

use crate::Result;

/// Rows of one kind are counted up to here: more says no more, and counting them would take longer than a look may.
pub const COUNTED_MAX: u32 = 100_000;

/// How things stand. Ages are by the database's clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Levels {
    /// Messages that wait to be sent, up to [`COUNTED_MAX`].
    pub outbox_unsent: u64,
    /// How long the oldest of them has waited, milliseconds.
    pub outbox_age_ms: Option<u64>,
    /// Dead letters that nobody has acted on, by code as stored; up to [`COUNTED_MAX`] together.
    pub letters_open: BTreeMap<String, u64>,
    /// How long the oldest of them has been there, milliseconds.
    pub letters_age_ms: Option<u64>,
    /// Automatic retrospectives that are open.
    pub retrospectives_open: u64,
    /// How long the oldest of them has been open, milliseconds.
    pub retrospectives_age_ms: Option<u64>,
    /// Since when the tentative memory that has stood longest has been as it is: policy time, which is not the database's.
    pub oldest_tentative: Option<Timestamp>,
    /// Investigations that a worker may claim now.
    pub claimable: u64,
}

/// Measuring.
#[async_trait]
pub trait LevelStore: Send + Sync {
    /// How things stand, over all tenants. A few bounded questions, each answered from an index.
    async fn levels(&self) -> Result<Levels>;

    /// For each memory that a closed retrospective confirmed, so that it may be handed out: how long it was from the
    /// storing of the run that confirmed it to the closing, milliseconds. At most [`COUNTED_MAX`].
    async fn confirmed_after_ms(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Vec<u64>>;
}
