//! Port of the database metrics, which are totals over all tenants for the operator of the instance. No value
//! identifies a tenant.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{RetrospectiveId, Tenant};

use crate::Result;

/// Maximum up to which rows of one kind are counted. A larger number would not be more informative, and counting
/// further would take too long for reading the metrics.
pub const COUNTED_MAX: u32 = 100_000;

/// Metrics of the database, over all tenants. Ages are measured by the database's clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatabaseMetrics {
    /// Number of unsent messages in the outbox, counted up to [`COUNTED_MAX`].
    pub outbox_unsent: u64,
    /// Age of the oldest unsent message in milliseconds; `None` when there is none.
    pub outbox_age_ms: Option<u64>,
    /// Number of open dead letters for each dead-letter code, counted up to [`COUNTED_MAX`] in total.
    pub dead_letters_open: BTreeMap<String, u64>,
    /// Age of the oldest open dead letter in milliseconds; `None` when there is none.
    pub dead_letters_age_ms: Option<u64>,
    /// Number of automatic retrospectives that have not ended.
    pub retrospectives_open: u64,
    /// Age of the oldest open automatic retrospective in milliseconds; `None` when there is none.
    pub retrospectives_age_ms: Option<u64>,
    /// Earliest time of the last change among tentative memories, in policy time; `None` when no memory is tentative.
    /// Policy time differs from the time of the database, so the two must not be subtracted.
    pub oldest_tentative: Option<Timestamp>,
    /// Number of investigations that a worker may claim now.
    pub claimable: u64,
}

/// Reads metrics from the database.
#[async_trait]
pub trait MetricsStore: Send + Sync {
    /// Returns the metrics over all tenants. Runs a few bounded queries, each of which uses an index.
    async fn load_metrics(&self) -> Result<DatabaseMetrics>;

    /// Returns one delay in milliseconds for each memory that the closed retrospective confirmed and so made available
    /// to agents: the time from the storing of the confirming run to the closing. Returns at most [`COUNTED_MAX`].
    async fn load_confirmation_delays_ms(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Vec<u64>>;
}
