//! Storage port of the database metrics: totals across all tenants that identify none of them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::memory::MemoryStatus;

use crate::Result;

/// Cap on counts of rows. A larger count is not more informative, and counting further would slow down each
/// metrics collection.
pub const COUNTED_MAX: u32 = 100_000;

/// Metrics of the database across all tenants. Ages are measured by the database clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatabaseMetrics {
    /// Number of unsent outbox messages, capped at [`COUNTED_MAX`].
    pub outbox_unsent: u64,
    /// Age of the oldest unsent outbox message, in milliseconds; `None` if there is none.
    pub outbox_age_ms: Option<u64>,
    /// Number of open dead letters per code, capped at [`COUNTED_MAX`] in total.
    pub dead_letters_open: BTreeMap<String, u64>,
    /// Age of the oldest open dead letter, in milliseconds; `None` if there is none.
    pub dead_letters_age_ms: Option<u64>,
    /// Number of open automatic retrospectives.
    pub retrospectives_open: u64,
    /// Age of the oldest open automatic retrospective, in milliseconds; `None` if there is none.
    pub retrospectives_age_ms: Option<u64>,
    /// Policy time of the last change of the least recently changed tentative memory; `None` if no memory is
    /// tentative. Do not subtract it from the database time: policy time is a different clock.
    pub oldest_tentative: Option<Timestamp>,
    /// Number of memories that are held until a person decides, per status, capped at [`COUNTED_MAX`] in total.
    /// Statuses without a held memory are missing.
    pub memories_held: BTreeMap<MemoryStatus, u64>,
    /// Number of engaged kill switches per kind of their scope ([`retro_core::kill_switch::KillSwitchScope::kind`]). Kinds without one are missing.
    pub kill_switches_engaged: BTreeMap<&'static str, u64>,
    /// Number of investigations that can be claimed now.
    pub claimable: u64,
    /// Number of traces of which spans are stored that no run was read from yet, capped at [`COUNTED_MAX`].
    pub traces_waiting: u64,
    /// Time since the last span of that among them whose last span is the oldest, in milliseconds; `None` if there is none.
    pub traces_waiting_age_ms: Option<u64>,
}

/// Reads the metrics of the database.
#[async_trait]
pub trait MetricsStore: Send + Sync {
    /// Returns the metrics across all tenants, from a few bounded queries that each use an index.
    async fn load_metrics(&self) -> Result<DatabaseMetrics>;

    /// Returns the confirmation delay, in milliseconds, of each memory that a closed retrospective confirmed
    /// and thus made available to agents: the time between the storing of the confirming run and the closing.
    /// Returns at most [`COUNTED_MAX`] delays.
    async fn load_confirmation_delays_ms(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Vec<u64>>;
}
