//! Storage port of the stream checks, which detect lost messages.
//!
//! The broker may lose messages that it acknowledged, and a broker operator may acknowledge or delete
//! messages that were not handled. This port stores the state from which both are detected.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::attribution::Attribution;
use retro_core::id::{EventKey, ReplayId};
pub use retro_core::stream::{KnownStream, StreamObservation};
use serde::{Deserialize, Serialize};

use crate::Result;

/// Selects the outbox messages to republish after a stream was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepublishScope {
    /// Republishes nothing, because the stream is not fed from the outbox.
    Nothing,
    /// Republishes the wake-up messages of open retrospectives.
    WakeUps,
    /// Republishes every announcement still in the outbox table.
    Announcements,
}

/// Result of checking a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamCheck {
    /// The stream is the same as in the previous check.
    Recognized {
        /// 1-based incarnation of the stream; increases each time a stream of this name is replaced.
        number: u64,
        /// Highest sequence number recorded by [`BrokerStore::record_waiting_messages`]; 0 if none was
        /// recorded.
        named_up_to: u64,
        /// Messages recorded as waiting that two checks found neither in the stream nor handled, because they
        /// were purged or expired.
        lost: Vec<Loss>,
    },
    /// The stream appears to have been replaced. The next check confirms or refutes this.
    Suspected,
    /// Two checks have confirmed that the stream was replaced.
    Replaced {
        /// 1-based incarnation of the new stream.
        number: u64,
        /// Consequences of the replacement, such as lost messages.
        replacement: StreamReplacement,
    },
    /// Another process has stored a newer observation, so this observation was ignored.
    Stale,
}

/// Consequences of a stream replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamReplacement {
    /// Creation time of the previous stream, as reported by the broker.
    pub previous_created_at: String,
    /// Last time a check saw the previous stream, by the database clock. Messages that arrived later and were
    /// not handled cannot be identified.
    pub last_seen: Timestamp,
    /// Number of outbox messages to be republished.
    pub republished: u64,
    /// Messages lost with the previous stream: neither handled nor stored as dead letters.
    pub lost: Vec<Loss>,
}

/// Identity of a message waiting in a stream, from which the message is reported if it is lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMessage {
    /// Subject of the message.
    pub subject: String,
    /// Key of the message's event; `None` if the event could not be parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventKey>,
    /// Consumers that must all handle the event before it counts as handled. Defaults to the counter for rows
    /// without a list.
    #[serde(default = "counter", skip_serializing_if = "is_counter")]
    pub consumers: Vec<String>,
}

// A stored row without consumers means the counter, which was once the only consumer.
fn counter() -> Vec<String> {
    vec!["counter".to_owned()]
}

fn is_counter(consumers: &[String]) -> bool {
    consumers == ["counter"]
}

/// Range of stream positions whose messages were lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Stream name, such as `RETRO_INTAKE`.
    pub stream: String,
    /// 1-based incarnation of the stream; increases each time a stream of this name is replaced.
    pub incarnation: u64,
    /// Stream sequence numbers of the lost messages.
    pub positions: RangeInclusive<u64>,
    /// Identity of the message if the range is a single known message; `None` if nothing is known about the
    /// positions, not even whether their messages were handled.
    pub message: Option<WaitingMessage>,
}

/// Id of a loss, written as stream name, stream incarnation and first position: `RETRO_INTAKE/1/118`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LossKey {
    /// Stream name, such as `RETRO_INTAKE`.
    pub stream: String,
    /// 1-based incarnation of the stream; increases each time a stream of this name is replaced.
    pub incarnation: u64,
    /// First stream sequence number of the lost range.
    pub first: u64,
}

impl std::fmt::Display for LossKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.stream, self.incarnation, self.first)
    }
}

impl std::str::FromStr for LossKey {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        if let [stream, incarnation, first] = parts[..]
            && let (Ok(incarnation), Ok(first)) = (incarnation.parse(), first.parse())
        {
            return Ok(Self { stream: stream.to_owned(), incarnation, first });
        }
        Err(format!(
            "{text:?} is not the id of a loss, such as RETRO_INTAKE/1/118; `retro losses list` has them"
        ))
    }
}

/// Loss that an operator closed as a false report or as acceptable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClosedLoss {
    /// Closed loss.
    #[serde(flatten)]
    pub loss: Loss,
    /// Who closed the loss, when and why.
    pub act: Attribution,
}

impl Loss {
    /// Returns the id under which the loss is listed and closed.
    pub fn key(&self) -> LossKey {
        LossKey { stream: self.stream.clone(), incarnation: self.incarnation, first: *self.positions.start() }
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

/// Stores observations of the broker's streams and the losses that they reveal.
#[async_trait]
pub trait BrokerStore: Send + Sync {
    /// Returns the stored state of the current stream of this name; `None` if no check has seen one.
    ///
    /// Call this before querying the broker. Otherwise another process may store a newer state in between,
    /// and the stream's positions would appear to go backwards.
    async fn load_stream(&self, stream: &str) -> Result<Option<KnownStream>>;

    /// Compares an observation of a stream with its stored state and stores the observation, in one
    /// transaction.
    ///
    /// If two checks have confirmed that the stream was replaced, stores the losses of the previous stream,
    /// deletes the attempts at its positions and marks the outbox messages selected by `feed` as unsent. Only
    /// one of several concurrent processes does this. `held_messages` are the messages that wait in the
    /// observed stream, by position; they are not lost and are recorded as waiting in the new stream.
    async fn record_observation(
        &self,
        observation: &StreamObservation,
        held_messages: &[(u64, WaitingMessage)],
        feed: RepublishScope,
    ) -> Result<StreamCheck>;

    /// Records the identities of the messages waiting in a stream, by position. Does nothing if the stream
    /// was replaced or is suspected to have been. Recording a message again has no effect.
    async fn record_waiting_messages(
        &self,
        stream: &str,
        number: u64,
        waiting: &[(u64, WaitingMessage)],
    ) -> Result<()>;

    /// Starts reconciling a stream with the handled messages and returns the position up to which it is
    /// reconciled. Returns `None` if another process started within the last `pause_ms` milliseconds.
    async fn begin_reconciliation(&self, stream: &str, number: u64, pause_ms: u64) -> Result<Option<u64>>;

    /// Records that the stream is reconciled with the handled messages up to position `to`. The stored
    /// position never decreases.
    async fn record_reconciled(&self, stream: &str, number: u64, to: u64) -> Result<()>;

    /// Returns the given positions whose messages became dead letters of the consumer. Each position is
    /// paired with the SHA-256 of its payload, which must match.
    async fn find_dead_lettered(
        &self,
        consumer: &str,
        stream: &str,
        requested: &[(u64, String)],
    ) -> Result<Vec<u64>>;

    /// Returns the ended ones among the given replays. Only this method finds a replay that failed again,
    /// because its dead letter keeps the original stream position.
    async fn find_ended_replays(&self, requested: &[ReplayId]) -> Result<Vec<ReplayId>>;

    /// Returns the open losses, sorted by stream, incarnation and position. A loss of a known message stays
    /// open until the message is handled after all; an operator can close any loss.
    async fn list_losses(&self) -> Result<Vec<Loss>>;

    /// Returns the closed losses, sorted by stream, incarnation and position.
    async fn list_closed_losses(&self) -> Result<Vec<ClosedLoss>>;

    /// Closes the open losses among `losses` in one transaction and returns them. A loss that was already
    /// closed keeps its original attribution.
    async fn close_losses(&self, losses: &[LossKey], act: &Attribution) -> Result<Vec<LossKey>>;
}
