//! The port of the stream checks: the stored state of the broker's streams. The broker may lose messages that
//! it acknowledged, and its operator may acknowledge or delete messages that were not handled. This port
//! stores the state that is needed to detect both.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::cancel::Attribution;
use retro_core::id::{EventKey, ReplayId};
pub use retro_core::stream::{KnownStream, StreamObservation};
use serde::{Deserialize, Serialize};

use crate::Result;

/// Selects the messages that the outbox sends again to a recreated stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepublishScope {
    /// No messages, because the stream's messages do not come from the outbox.
    Nothing,
    /// Wake-up messages of retrospectives that are still open.
    WakeUps,
    /// Every announcement that is still stored.
    Announcements,
}

/// Outcome of checking a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamCheck {
    /// The stream is the known one.
    Recognized {
        /// 1-based number among the streams that have had this name.
        number: u64,
        /// Sequence number of the last recorded waiting message, see [`BrokerStore::record_waiting_messages`];
        /// 0 when there is none.
        named_up_to: u64,
        /// Messages that had waited and were missing, unhandled, in two checks: they were purged or expired.
        lost: Vec<Loss>,
    },
    /// The stream looks like a different one. The next check decides.
    Suspected,
    /// The stream is a different one, as two checks have shown.
    Replaced {
        /// 1-based number of the new stream.
        number: u64,
        /// Consequences of the replacement.
        replacement: StreamReplacement,
    },
    /// Another process stored a newer observation meanwhile. This observation was ignored.
    Stale,
}

/// Consequences of a stream having been replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamReplacement {
    /// Time at which the broker created the previous stream.
    pub previous_created_at: String,
    /// Time at which the previous stream was last seen, by the database's clock. Messages that arrived later and
    /// were not handled are unknown.
    pub last_seen: Timestamp,
    /// Number of outbox messages that will be sent again.
    pub republished: u64,
    /// Messages lost with the previous stream, neither handled nor stored as dead letters.
    pub lost: Vec<Loss>,
}

/// The part of a waiting message that identifies a loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMessage {
    /// Subject of the message.
    pub subject: String,
    /// Identity of its event, if it can be parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventKey>,
    /// Consumers that must have handled the event before it counts as handled. Rows stored when there was only one
    /// such consumer have none, which means the counter.
    #[serde(default = "counter", skip_serializing_if = "is_counter")]
    pub readers: Vec<String>,
}

// Rows stored before there was a second consumer name no readers.
fn counter() -> Vec<String> {
    vec!["counter".to_owned()]
}

fn is_counter(readers: &[String]) -> bool {
    readers == ["counter"]
}

/// A range of positions that was lost with a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Stream that held the positions.
    pub stream: String,
    /// 1-based number among the streams that have had this name.
    pub number: u64,
    /// Lost positions.
    pub positions: RangeInclusive<u64>,
    /// Identity of a single lost message; `None` when nothing is known about the positions, not even whether they
    /// were handled.
    pub message: Option<WaitingMessage>,
}

/// Id of a loss, such as `RETRO_INTAKE/1/118`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LossKey {
    /// Stream that held the positions.
    pub stream: String,
    /// 1-based number among the streams that have had this name.
    pub number: u64,
    /// First position of the loss.
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

/// A loss that a person closed because it was reported by mistake or is acceptable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClosedLoss {
    /// Closed loss.
    #[serde(flatten)]
    pub loss: Loss,
    /// Person, reason and time.
    pub act: Attribution,
}

impl Loss {
    /// Returns the id of the loss.
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
                "positions {first} to {last} of {}: neither their events nor whether they were handled is known",
                self.stream
            ),
        }
    }
}

/// Stores the observed state of the broker's streams.
#[async_trait]
pub trait BrokerStore: Send + Sync {
    /// Returns the stored state of the current stream of this name. Call it before asking the broker;
    /// otherwise a newer state from another process would look like a stream whose positions decreased.
    async fn load_stream(&self, stream: &str) -> Result<Option<KnownStream>>;

    /// Judges an observation of a stream and stores it, in one transaction. When two checks have shown that
    /// the stream was replaced, the previous one has ended: its losses are stored, attempts at its positions
    /// are deleted, and the outbox sends again what `feed` selects. Only one of several concurrent processes
    /// does this. `held` are messages waiting in the observed stream, by position; they are not lost and are
    /// recorded as waiting in the new stream.
    async fn record_observation(
        &self,
        observation: &StreamObservation,
        held_messages: &[(u64, WaitingMessage)],
        feed: RepublishScope,
    ) -> Result<StreamCheck>;

    /// Records the identities of messages waiting in a stream, by position, unless that stream has ended or is
    /// suspected to have ended. Recording a message again is harmless.
    async fn record_waiting_messages(
        &self,
        stream: &str,
        number: u64,
        waiting: &[(u64, WaitingMessage)],
    ) -> Result<()>;

    /// Begins to reconcile a stream with the handled messages, and returns the position up to which it is
    /// reconciled. Returns `None` when another process began within the last `pause_ms` milliseconds.
    async fn begin_reconciliation(&self, stream: &str, number: u64, pause_ms: u64) -> Result<Option<u64>>;

    /// Records that the stream is reconciled up to a position. The stored position never decreases.
    async fn record_reconciled(&self, stream: &str, number: u64, to: u64) -> Result<()>;

    /// Returns those of the given positions whose message, with this SHA-256 of its payload, became a dead letter
    /// of the consumer.
    async fn find_dead_lettered(
        &self,
        consumer: &str,
        stream: &str,
        asked: &[(u64, String)],
    ) -> Result<Vec<u64>>;

    /// Returns those of the given replays that have ended. A replay that failed again is found only this way,
    /// because its dead letter has another position.
    async fn find_ended_replays(&self, asked: &[ReplayId]) -> Result<Vec<ReplayId>>;

    /// Returns losses that have not arrived again and were not closed, in the order in which they occurred.
    async fn list_losses(&self) -> Result<Vec<Loss>>;

    /// Returns closed losses in the order in which they occurred.
    async fn list_closed_losses(&self) -> Result<Vec<ClosedLoss>>;

    /// Closes those of the given losses that are open, in one transaction, and records who closed them, why
    /// and when. Returns the closed losses. A loss that was closed before keeps its original reason.
    async fn close_losses(&self, losses: &[LossKey], act: &Attribution) -> Result<Vec<LossKey>>;
}
