//! Port of the stream checks, which detect lost messages. The broker may lose messages that it acknowledged, and its
//! operator may acknowledge or delete messages that were not handled. This port stores the state that is needed to
//! detect both.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::cancel::Attribution;
use retro_core::id::{EventKey, ReplayId};
pub use retro_core::stream::{KnownStream, StreamObservation};
use serde::{Deserialize, Serialize};

use crate::Result;

/// Selects the messages that the outbox sends again after a stream was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepublishScope {
    /// No messages, because the stream's messages do not come from the outbox.
    Nothing,
    /// The wake-up messages of retrospectives that are still open.
    WakeUps,
    /// All announcements that are still stored.
    Announcements,
}

/// Result of checking a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamCheck {
    /// The stream is the one that was seen before.
    Recognized {
        /// Number of the stream among those that have had this name, from 1.
        number: u64,
        /// Sequence number of the last message that [`BrokerStore::record_waiting_messages`] recorded; 0 when there is
        /// none.
        named_up_to: u64,
        /// Messages that were recorded as waiting, but that two checks found neither in the stream nor handled. They
        /// were purged or expired.
        lost: Vec<Loss>,
    },
    /// The stream looks like a different one. The next check confirms or refutes this.
    Suspected,
    /// The stream was replaced by a different one, as two checks have shown.
    Replaced {
        /// Number of the new stream among those that have had this name, from 1.
        number: u64,
        /// Consequences of the replacement, such as lost messages.
        replacement: StreamReplacement,
    },
    /// Another process stored a newer observation in the meantime, so this one was ignored.
    Stale,
}

/// Consequences of the replacement of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamReplacement {
    /// Time at which the broker created the previous stream, as the broker reported it.
    pub previous_created_at: String,
    /// Time of the last check that saw the previous stream, by the database's clock. Messages that arrived after it and
    /// were not handled are unknown.
    pub last_seen: Timestamp,
    /// Number of outbox messages that will be sent again.
    pub republished: u64,
    /// Messages that were lost with the previous stream, being neither handled nor stored as dead letters.
    pub lost: Vec<Loss>,
}

/// A message waiting in a stream, reduced to the facts that identify it when it is lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMessage {
    /// Subject of the message.
    pub subject: String,
    /// Identity of the message's event; `None` when the event could not be parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventKey>,
    /// Consumers that must all have handled the event before it counts as handled. Old rows have no list, because the
    /// counter was the only such consumer then.
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

/// A range of positions whose messages were lost with a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Name of the stream that contained the positions.
    pub stream: String,
    /// Number of the stream among those that have had this name, from 1.
    pub number: u64,
    /// Sequence numbers of the lost messages in the stream.
    pub positions: RangeInclusive<u64>,
    /// Identity of the message when the range is a single known message; `None` when nothing is known about the
    /// positions, not even whether they were handled.
    pub message: Option<WaitingMessage>,
}

/// Identifies a loss by stream, number of the stream and first position, such as `RETRO_INTAKE/1/118`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LossKey {
    /// Name of the stream that contained the positions.
    pub stream: String,
    /// Number of the stream among those that have had this name, from 1.
    pub number: u64,
    /// First sequence number of the lost range.
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
    /// The loss that was closed.
    #[serde(flatten)]
    pub loss: Loss,
    /// Person who closed the loss, with reason and time.
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
    /// Returns the stored state of the current stream of this name; `None` when no check has seen one. Call it before
    /// asking the broker. Otherwise another process may store a newer state first, and the stream's positions would
    /// seem to decrease.
    async fn load_stream(&self, stream: &str) -> Result<Option<KnownStream>>;

    /// Compares an observation of a stream with its stored state and stores it, in one transaction. When two checks
    /// have shown that the stream was replaced, the losses of the previous stream are stored, the attempts at its
    /// positions are deleted, and the outbox sends again what `feed` selects. Only one of several concurrent processes
    /// does this. `held_messages` are the messages waiting in the observed stream, by position. They are not lost and
    /// are recorded as waiting in the new stream.
    async fn record_observation(
        &self,
        observation: &StreamObservation,
        held_messages: &[(u64, WaitingMessage)],
        feed: RepublishScope,
    ) -> Result<StreamCheck>;

    /// Records the identities of messages waiting in a stream, by position. Does nothing when that stream was replaced
    /// or is suspected to have been replaced. Recording a message again is harmless.
    async fn record_waiting_messages(
        &self,
        stream: &str,
        number: u64,
        waiting: &[(u64, WaitingMessage)],
    ) -> Result<()>;

    /// Begins to compare a stream with the handled messages. Returns the position up to which this has been done.
    /// Returns `None` when another process began within the last `pause_ms` milliseconds.
    async fn begin_reconciliation(&self, stream: &str, number: u64, pause_ms: u64) -> Result<Option<u64>>;

    /// Records that the stream has been compared with the handled messages up to a position. The stored position never
    /// decreases.
    async fn record_reconciled(&self, stream: &str, number: u64, to: u64) -> Result<()>;

    /// Returns those of the given positions whose message became a dead letter of the consumer. Each position comes
    /// with the SHA-256 of its payload, which must match too.
    async fn find_dead_lettered(
        &self,
        consumer: &str,
        stream: &str,
        asked: &[(u64, String)],
    ) -> Result<Vec<u64>>;

    /// Returns those of the given replays that have ended. This is the only way to find a replay that failed again,
    /// because its dead letter has another position.
    async fn find_ended_replays(&self, asked: &[ReplayId]) -> Result<Vec<ReplayId>>;

    /// Returns the open losses in the order in which they occurred. A loss is open until its messages have arrived
    /// again or a person closes it.
    async fn list_losses(&self) -> Result<Vec<Loss>>;

    /// Returns the closed losses in the order in which they occurred.
    async fn list_closed_losses(&self) -> Result<Vec<ClosedLoss>>;

    /// Closes those of the given losses that are open, in one transaction, and records the person, reason and time.
    /// Returns the losses that this call closed. A loss that was closed before keeps its original reason.
    async fn close_losses(&self, losses: &[LossKey], act: &Attribution) -> Result<Vec<LossKey>>;
}
