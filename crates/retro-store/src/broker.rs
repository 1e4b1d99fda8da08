//! The port of the backstop: what is known of the broker's streams. The broker may lose what it acknowledged, and whoever
//! operates it may acknowledge or delete what nobody handled; here stands what is needed to notice.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{EventKey, ReplayId};
use serde::{Deserialize, Serialize};

use crate::Result;

/// A stream as the broker shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSight {
    /// Its name.
    pub stream: String,
    /// When the broker made it, as the broker says: one that was made anew says another time.
    pub made: String,
    /// Its first position that still holds something.
    pub first: u64,
    /// Its last position.
    pub last: u64,
    /// Everything up to here was acknowledged by each of its consumers; [`Self::last`] where losing it loses nothing.
    pub handled: u64,
}

/// What the outbox feeds a stream again that was made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feed {
    /// Nothing: its messages are not ours.
    Nothing,
    /// Wake-ups of retrospectives that are still open.
    WakeUps,
    /// Every announcement that is still kept.
    Announcements,
}

/// What came of looking at a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The how manieth stream of this name it is, from 1.
    pub number: u64,
    /// The last message that is known by name, see [`BrokerStore::name_waiting`]; 0 for none.
    pub named_to: u64,
    /// What had waited in it and is gone, unhandled: it was purged, or grew too old.
    pub gone: Vec<Loss>,
    /// Set when it was not the one that was there before.
    pub anew: Option<Anew>,
}

/// A stream stands in the place of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anew {
    /// When the broker had made the one before.
    pub before: String,
    /// When that one was last seen, by the database's clock: what came later and was not handled is known to nobody here.
    pub last_seen: Timestamp,
    /// Messages of the outbox that are sent once more.
    pub fed_again: u64,
    /// What went with the one before and was neither handled nor given up.
    pub lost: Vec<Loss>,
}

/// What a message that waits is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMessage {
    /// Its subject.
    pub subject: String,
    /// The event in it, where it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventKey>,
    /// The consumers that have to remember the event: it is handled when each of them does. Of a message that was named before
    /// there was more than one, it is the counter.
    #[serde(default = "counter", skip_serializing_if = "is_counter")]
    pub readers: Vec<String>,
}

fn counter() -> Vec<String> {
    vec!["counter".to_owned()]
}

fn is_counter(readers: &[String]) -> bool {
    readers == ["counter"]
}

/// Positions that were lost with a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The stream.
    pub stream: String,
    /// The how manieth of its name.
    pub number: u64,
    /// The positions.
    pub positions: RangeInclusive<u64>,
    /// What a single one is called; without it, nothing is known of the positions, not even whether they were handled.
    pub message: Option<WaitingMessage>,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, last) = (self.positions.start(), self.positions.end());
        match &self.message {
            Some(WaitingMessage { event: Some(EventKey { tenant, source, id }), .. }) => {
                write!(
                    f,
                    "event {id:?} of {source:?} of the tenant {tenant}, position {first} of {}",
                    self.stream
                )
            }
            Some(WaitingMessage { subject, event: None, .. }) => {
                write!(f, "an unreadable message to {subject:?}, position {first} of {}", self.stream)
            }
            None => write!(
                f,
                "positions {first} to {last} of {}: no names are known, and not whether they were handled",
                self.stream
            ),
        }
    }
}

/// What is known of the broker's streams.
#[async_trait]
pub trait BrokerStore: Send + Sync {
    /// One transaction: remembers how a stream looks. When it is not the one of the last look, or has lost its end, the one
    /// before has ended: its losses are stored, attempts at its positions are forgotten, and the outbox feeds the new one.
    /// `None` when another process has found so at this moment.
    async fn look(&self, sight: &StreamSight, feed: Feed) -> Result<Option<Look>>;

    /// Remembers what messages are called that wait in the present stream, by position. Naming one again is harmless.
    async fn name_waiting(&self, stream: &str, number: u64, waiting: &[(u64, WaitingMessage)]) -> Result<()>;

    /// Begins to compare a stream with what was done; returns up to where it was compared. `None` when another process began
    /// within the last `pause_ms`.
    async fn begin_comparing(&self, stream: &str, number: u64, pause_ms: u64) -> Result<Option<u64>>;

    /// Everything in this stream up to a position was compared with what was done. Never goes back.
    async fn checked(&self, stream: &str, number: u64, to: u64) -> Result<()>;

    /// The positions of a stream, of those given, at which a consumer gave up on a message with this payload's SHA-256.
    async fn given_up(&self, consumer: &str, stream: &str, asked: &[(u64, String)]) -> Result<Vec<u64>>;

    /// Those of some replays that have ended: one that failed again is told of in its letter, which has another position.
    async fn ended_replays(&self, asked: &[ReplayId]) -> Result<Vec<ReplayId>>;

    /// What was lost with the broker's streams and has not come again since, in the order in which it was lost.
    async fn losses(&self) -> Result<Vec<Loss>>;
}
