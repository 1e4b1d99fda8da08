//! The port of database metrics: totals over all tenants, for the operator of the instance. No value identifies a
//! tenant.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{RetrospectiveId, Tenant};

use crate::Result;

/// Maximum to which rows of one kind are counted. A larger number would not be more informative, and counting
/// further would exceed the time for reading the metrics.
pub const COUNTED_MAX: u32 = 100_000;

/// Metrics of the database. Ages are measured by the database's clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatabaseMetrics {
    /// Unsent messages of the outbox, up to [`COUNTED_MAX`].
    pub outbox_unsent: u64,
    /// Age of the oldest unsent message in milliseconds; `None` when there is none.
    pub outbox_age_ms: Option<u64>,
    /// Open dead letters by stored code; up to [`COUNTED_MAX`] in total.
    pub dead_letters_open: BTreeMap<String, u64>,
    /// Age of the oldest open dead letter in milliseconds; `None` when there is none.
    pub dead_letters_age_ms: Option<u64>,
    /// Open automatic retrospectives.
    pub retrospectives_open: u64,
    /// Age of the oldest open retrospective in milliseconds; `None` when there is none.
    pub retrospectives_age_ms: Option<u64>,
    /// Time since which the oldest tentative memory has been unchanged. It is policy time, which differs from the
    /// database's.
    pub oldest_tentative: Option<Timestamp>,
    /// Investigations that a worker may claim now.
    pub claimable: u64,
}

/// Reads metrics from the database.
#[async_trait]
pub trait MetricsStore: Send + Sync {
    /// Returns the metrics over all tenants. It runs a few bounded queries, each answered from an index.
    async fn load_metrics(&self) -> Result<DatabaseMetrics>;

    /// Returns, for each memory that a closed retrospective confirmed and so made available to agents, the
    /// milliseconds from the storing of the confirming run to the closing. At most [`COUNTED_MAX`].
    async fn load_confirmation_delays_ms(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Vec<u64>>;
}
