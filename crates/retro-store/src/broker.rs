//! The port of the backstop: what is known of the broker's streams. The broker may lose what it acknowledged, and whoever
//! operates it may acknowledge or delete what nobody handled; here stands what is needed to notice.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{EventKey, ReplayId};
use retro_core::steer::Act;
pub use retro_core::stream::{KnownStream, StreamSight};
use serde::{Deserialize, Serialize};

use crate::Result;

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
pub enum Look {
    /// It is the stream that is known.
    Recognized {
        /// 1-based number among the streams that have had its name.
        number: u64,
        /// The last message that is known by name, see [`BrokerStore::name_waiting`]; 0 for none.
        named_to: u64,
        /// What had waited in it and is gone, unhandled, at the second look: it was purged, or grew too old.
        gone: Vec<Loss>,
    },
    /// It looks like another stream; the next look decides.
    Suspected,
    /// It is another stream than the known one, as two looks have shown.
    Replaced {
        /// 1-based number of the new one.
        number: u64,
        /// What ended with the known one.
        anew: Anew,
    },
    /// Another process has stored a newer look meanwhile; this one says nothing.
    Stale,
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

/// Identifies a loss: `RETRO_INTAKE/1/118`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LossKey {
    /// The stream.
    pub stream: String,
    /// 1-based number among the streams that have had its name.
    pub number: u64,
    /// The first of its positions.
    pub first: u64,
}

impl std::fmt::Display for LossKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.stream, self.number, self.first)
    }
}

impl std::str::FromStr for LossKey {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        if let [stream, number, first] = parts[..]
            && let (Ok(number), Ok(first)) = (number.parse(), first.parse())
        {
            return Ok(Self { stream: stream.to_owned(), number, first });
        }
        Err(format!(
            "{text:?} is not the id of a loss, such as RETRO_INTAKE/1/118; `retro losses list` has them"
        ))
    }
}

/// A loss that somebody has closed: it was told wrongly, or nobody misses it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClosedLoss {
    /// The loss itself.
    #[serde(flatten)]
    pub loss: Loss,
    /// Who closed it, why and when.
    pub act: Act,
}

impl Loss {
    /// Its id.
    pub fn key(&self) -> LossKey {
        LossKey { stream: self.stream.clone(), number: self.number, first: *self.positions.start() }
    }
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
    /// Returns what is remembered of the present stream of a name; asked for before the broker is.
    async fn load_stream(&self, stream: &str) -> Result<Option<KnownStream>>;

    /// One transaction: judges a sight and remembers how the stream looks. When two looks have shown that it is another one,
    /// the one before has ended: its losses are stored, attempts at its positions are forgotten, and the outbox feeds the
    /// new one. Of any number of processes one does so. `held` are messages that wait in what the broker shows, by position:
    /// they are not lost, and remembered as waiting in the new one.
    async fn record_sight(
        &self,
        sight: &StreamSight,
        held: &[(u64, WaitingMessage)],
        feed: Feed,
    ) -> Result<Look>;

    /// Remembers what messages are called that wait in a stream, by position, unless that one has ended or is suspected to
    /// have. Naming one again is harmless.
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

    /// Returns what was lost with the broker's streams, has not come again since and was closed by nobody, in the order in
    /// which it was lost.
    async fn losses(&self) -> Result<Vec<Loss>>;

    /// Returns the losses that were closed, in the order in which they were lost.
    async fn closed_losses(&self) -> Result<Vec<ClosedLoss>>;

    /// One transaction: closes the open ones of some losses, with who, why and when on each. Returns those that it closed;
    /// what was closed before keeps its words.
    async fn close_losses(&self, losses: &[LossKey], act: &Act) -> Result<Vec<LossKey>>;
}
