//! The port of retention: details are purged by age, in stages of bounded size; identities stay for ever.
//!
//! A stage may run in any number of processes at once, at any moment, and be cut short anywhere: each call is one
//! transaction, takes what nobody else has in hand, and leaves what it did not reach to the next one. Ages are by the
//! database's clock.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Result;

/// What is purged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Bodies of runs whose retrospective closed so long ago, and all details of runs that were not counted and came so
    /// long ago. Never those that a window or an open retrospective may still ask for. Who asks later finds the body
    /// dropped on purpose. Bodies in the broker's store are its own to age out.
    Bodies,
    /// Journals, and batches of mutations, of retrospectives that have ended.
    Journals,
    /// What the events of runs said, of those whose bodies were purged; their identities and ordinals stay.
    Runs,
    /// Inbox rows: a digest of each stays for ever.
    Events,
    /// Messages that were sent so long ago.
    Messages,
    /// Attempts at messages of which nothing was heard for so long.
    Attempts,
}

impl Stage {
    /// Every stage, in the order in which they are gone through.
    pub const ALL: [Self; 6] =
        [Self::Bodies, Self::Journals, Self::Runs, Self::Events, Self::Messages, Self::Attempts];

    /// The word as stored and shown.
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

/// What one call purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Purged {
    /// Rows.
    pub rows: u64,
    /// Whether there may be more of it: call again.
    pub more: bool,
}

/// How much a stage has purged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeRow {
    /// The stage.
    pub stage: Stage,
    /// Rows, all times together.
    pub purged: u64,
    /// When it purged something last, by the database's clock.
    pub last: Timestamp,
}

/// Retention.
#[async_trait]
pub trait RetentionStore: Send + Sync {
    /// One transaction: purges what is older than `older_than_s` seconds, the oldest first and at most `limit` rows.
    async fn purge(&self, stage: Stage, older_than_s: u64, limit: u32) -> Result<Purged>;

    /// What was purged so far, by stage; a stage that never purged anything is left out.
    async fn purges(&self) -> Result<Vec<PurgeRow>>;
}
