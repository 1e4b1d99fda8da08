//! Storage port of retention, which purges details by age in bounded batches. Identities are never purged.
//!
//! A stage may run in several processes concurrently and may be interrupted at any point: each call is one
//! transaction, skips rows that another process is purging, and leaves the remaining rows to later calls.
//! Ages are measured by the database clock.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::Result;

/// Kind of data with a common retention period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum RetentionStage {
    /// Bodies of runs whose retrospective has closed, and all details of uncounted runs. Bodies that a window
    /// or an open retrospective may still need are never purged. A purged body is marked as such for later
    /// readers. Bodies in the broker's object store expire there and are not purged by this stage.
    Bodies,
    /// Journals and mutation batches of ended retrospectives.
    Journals,
    /// Facts of runs whose retrospective has closed and whose bodies have been purged. Identities and
    /// ordinals are kept.
    Runs,
    /// Inbox rows of events. A digest of each row is kept forever, so a late duplicate is still recognised.
    Events,
    /// Sent outbox messages.
    Messages,
    /// Attempts at messages without a dead letter.
    Attempts,
}

impl RetentionStage {
    /// All stages in purge order, which is the order of declaration: bodies before the run facts that refer to
    /// them.
    pub const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    /// Returns the name of the stage, used in the database and in output.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Result of one purge call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PurgeResult {
    /// Number of purged rows.
    pub rows: u64,
    /// `true` if more rows may be due, so the caller should call again.
    pub has_more: bool,
}

/// Total number of rows purged by a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionTotal {
    /// Stage that purged the rows.
    pub stage: RetentionStage,
    /// Number of rows purged over the lifetime of the database.
    pub purged: u64,
    /// Time of the last purge, by the database clock.
    pub last: Timestamp,
}

/// Purges details that have outlived their retention period.
#[async_trait]
pub trait RetentionStore: Send + Sync {
    /// Purges at most `limit` rows per table of a stage that are at least `older_than_s` seconds old, in one
    /// transaction.
    async fn purge_stage(&self, stage: RetentionStage, older_than_s: u64, limit: u32) -> Result<PurgeResult>;

    /// Returns the totals of all stages that have ever purged a row.
    async fn list_retention_totals(&self) -> Result<Vec<RetentionTotal>>;
}
