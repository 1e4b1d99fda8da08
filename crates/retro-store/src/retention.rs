//! Port of retention, which purges details by age, in stages of bounded size. Identities are never purged.
//!
//! A stage may run in any number of processes concurrently and may be interrupted at any point. Each call is one
//! transaction, skips rows that another process is purging, and leaves the remaining rows to the next call. Ages are
//! measured by the database's clock.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Result;

/// A kind of data whose old rows are purged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetentionStage {
    /// Bodies of runs whose retrospective closed long enough ago, and all details of uncounted runs that arrived long
    /// enough ago. Bodies that a window or an open retrospective may still need are never purged. A later reader finds
    /// the body marked as purged. Bodies in the broker's object store expire there and are not purged here.
    Bodies,
    /// Journals and mutation batches of retrospectives that ended long enough ago.
    Journals,
    /// Facts of runs whose retrospective closed long enough ago and whose bodies have already been purged. Identities
    /// and ordinals are kept.
    Runs,
    /// Inbox rows of events that arrived long enough ago. A digest of each row is kept forever, so that a late
    /// duplicate is still recognised.
    Events,
    /// Outbox messages that were sent long enough ago.
    Messages,
    /// Counted attempts at messages whose last delivery is long enough ago.
    Attempts,
}

impl RetentionStage {
    /// All stages, in the order in which they are purged.
    pub const ALL: [Self; 6] =
        [Self::Bodies, Self::Journals, Self::Runs, Self::Events, Self::Messages, Self::Attempts];

    /// Returns the name of the stage, as stored and shown.
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

/// Result of one call that purges a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PurgeResult {
    /// Number of purged rows.
    pub rows: u64,
    /// `true` when more rows may be left to purge, so that the caller should call again.
    pub has_more: bool,
}

/// The number of rows that a stage has purged in total.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionTotal {
    /// Stage that purged the rows.
    pub stage: RetentionStage,
    /// Number of rows purged since the database was created.
    pub purged: u64,
    /// Time of the last purge, by the database's clock.
    pub last: Timestamp,
}

/// Purges details that are old enough.
#[async_trait]
pub trait RetentionStore: Send + Sync {
    /// Purges rows of a stage that are older than `older_than_s` seconds, in one transaction. The oldest rows are
    /// purged first, at most `limit`.
    async fn purge_stage(&self, stage: RetentionStage, older_than_s: u64, limit: u32) -> Result<PurgeResult>;

    /// Returns the total of each stage that has ever purged anything.
    async fn list_retention_totals(&self) -> Result<Vec<RetentionTotal>>;
}
