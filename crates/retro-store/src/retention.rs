//! The port of retention: details are purged by age, in stages of bounded size; identities are never purged.
//!
//! A stage may run in any number of processes concurrently and may be interrupted at any point. Each call is
//! one transaction, skips rows that another process is purging, and leaves the remaining rows to the next
//! call. Ages are measured by the database's clock.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Result;

/// A kind of data that is purged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetentionStage {
    /// Bodies of runs whose retrospective closed long enough ago, and all details of uncounted runs that
    /// arrived long enough ago. Bodies that a window or an open retrospective may still need are never
    /// purged. A later reader finds the body marked as purged. Bodies in the broker's object store expire
    /// there.
    Bodies,
    /// Journals and mutation batches of ended retrospectives.
    Journals,
    /// Facts of runs whose bodies were purged. Identities and ordinals are kept.
    Runs,
    /// Inbox rows. A digest of each is kept forever, so that a late duplicate is still recognised.
    Events,
    /// Outbox messages that were sent long enough ago.
    Messages,
    /// Counted attempts at messages that were not delivered again for long enough.
    Attempts,
}

impl RetentionStage {
    /// All stages, in the order in which they are purged.
    pub const ALL: [Self; 6] =
        [Self::Bodies, Self::Journals, Self::Runs, Self::Events, Self::Messages, Self::Attempts];

    /// Returns the word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bodies => "bodies",
            Self::Journals => "journals",
            Self::Runs => "runs",
            Self::Events => "events",
            Self::Messages => "messages",
            Self::Attempts => "attempts",
        }
    }
}

/// Result of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PurgeResult {
    /// Number of purged rows.
    pub rows: u64,
    /// `true` when more rows may be left, so that the caller calls again.
    pub has_more: bool,
}

/// Running total of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionTotal {
    /// Stage that the total counts.
    pub stage: RetentionStage,
    /// Rows purged since the database was created.
    pub purged: u64,
    /// Time of the last purge, by the database's clock.
    pub last: Timestamp,
}

/// Purges old details.
#[async_trait]
pub trait RetentionStore: Send + Sync {
    /// Purges rows older than `older_than_s` seconds in one transaction, the oldest first, at most `limit`.
    async fn purge_stage(&self, stage: RetentionStage, older_than_s: u64, limit: u32) -> Result<PurgeResult>;

    /// Returns the running totals by stage, without stages that never purged anything.
    async fn list_retention_totals(&self) -> Result<Vec<RetentionTotal>>;
}
