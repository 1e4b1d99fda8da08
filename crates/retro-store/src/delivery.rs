//! Ports for exchanging messages with the broker: the outbox, delivery attempts and dead letters.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::dead_letter::Rejection;
use retro_core::id::{DeadLetterId, MessageId, Tenant, Workflow, derive_uuid};
use retro_core::message::Message;
use retro_fault::{Guard, is_broken};
use serde::{Deserialize, Serialize};

use crate::{AttemptFailure, IncomingReplay, Result};

/// Reads the outbox, which contains the messages to send to the broker.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Returns the oldest unsent messages, at most `limit`. It selects every message that is marked as unsent, rather
    /// than those after the last sent one, because a message with an earlier id may be committed later and would be
    /// skipped.
    async fn list_unsent_messages(&self, limit: u32) -> Result<Vec<Message>>;

    /// Marks messages as sent. The rows are kept, so that the messages can be sent again to a broker that lost its
    /// data.
    async fn mark_sent(&self, ids: &[MessageId]) -> Result<()>;
}

/// Position of a message in a stream of the broker, as delivered to one consumer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeliveryPosition {
    /// Name of the consumer that received the message.
    pub consumer: String,
    /// Name of the stream that contains the message.
    pub stream: String,
    /// Sequence number of the message in the stream.
    pub sequence: u64,
}

/// A message to be stored as a dead letter, with everything that the dead letter records about it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDeadLetter {
    /// Consumer and position of the message. The id of the dead letter is derived from them and the payload.
    pub position: DeliveryPosition,
    /// Tenant that the subject names; `None` when it cannot be read from the subject.
    pub tenant: Option<Tenant>,
    /// Workflow that the subject names; `None` when it cannot be read from the subject.
    pub workflow: Option<Workflow>,
    /// Subject under which the message was published.
    pub subject: String,
    /// Headers of the message as received.
    pub headers: Vec<(String, String)>,
    /// Payload of the message as received.
    pub payload: Vec<u8>,
    /// Reason why the message could not be handled.
    pub rejection: Rejection,
    /// Number of attempts to handle the message, including the last one.
    pub attempts: u32,
    /// Time at which the broker stored the message.
    pub stored_at: Timestamp,
}

impl NewDeadLetter {
    /// Returns the id of the dead letter, derived from consumer, stream, sequence and payload. Storing the same message
    /// twice therefore leaves one dead letter. Because the payload is included, a broker that lost its data and numbers
    /// its messages from 1 again does not make two different messages share an id.
    pub fn id(&self) -> DeadLetterId {
        // With the guard disabled the id depends on the attempt, so a repeated rejection leaves a second dead
        // letter.
        let attempt = if is_broken(Guard::LetterId) { self.attempts.to_string() } else { String::new() };
        derive_dead_letter_id(&self.position, &self.payload, &attempt)
    }
}

fn derive_dead_letter_id(position: &DeliveryPosition, payload: &[u8], attempt: &str) -> DeadLetterId {
    let DeliveryPosition { consumer, stream, sequence } = position;
    let hash = retro_core::canonical::sha256_hex(payload);
    DeadLetterId(derive_uuid("dead_letter", &[consumer, stream, &sequence.to_string(), &(hash + attempt)]))
}

/// A redelivered message, reduced to the facts that identify its dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redelivery {
    /// Consumer and position of the message.
    pub position: DeliveryPosition,
    /// Id of the dead letter that this message would become.
    pub dead_letter_id: DeadLetterId,
    /// Time at which the broker stored the message. If a broker loses its data and starts again, this distinguishes a
    /// new message from an old one with the same bytes at the same position.
    pub stored_at: Timestamp,
}

impl Redelivery {
    /// Creates the redelivery of a message from its position, its payload and the time at which the broker stored it.
    pub fn new(position: DeliveryPosition, payload: &[u8], stored_at: Timestamp) -> Self {
        let dead_letter = derive_dead_letter_id(&position, payload, "");
        Self { position, dead_letter_id: dead_letter, stored_at }
    }
}

/// Result of beginning an attempt at a redelivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptStart {
    /// The message may be handled, and the attempt was counted. Holds the number of the attempt; the first counted
    /// attempt is number 2.
    Begun(u32),
    /// All attempts are used up, so the message becomes a dead letter. Repeating the call changes nothing.
    Exhausted,
    /// The message is already a dead letter, and only its acknowledgement was lost. No attempt was counted.
    DeadLettered(DeadLetterId),
}

/// A stored dead letter.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetter {
    /// Id of the dead letter.
    pub id: DeadLetterId,
    /// Message that was rejected, with the reason.
    pub message: NewDeadLetter,
    /// SHA-256 of the payload, in hexadecimal.
    pub payload_sha256: String,
    /// Status of the dead letter, such as open or handled.
    pub status: DeadLetterStatus,
    /// Number of replays that were requested for the dead letter.
    pub replays: u32,
    /// Time at which the dead letter was stored, by the database's clock.
    pub created_at: Timestamp,
    /// Version of the program that rejected the message.
    pub program_version: String,
}

/// What has happened to a dead letter since it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterStatus {
    /// No person has acted on the dead letter, or its last replay failed.
    Open,
    /// A replay of the dead letter is under way.
    Replaying,
    /// A replay of the dead letter was handled.
    Handled,
    /// A person discarded the dead letter. It can still be replayed.
    Discarded,
    /// The dead letter records a failed retrospective, and its replay opened the next retrospective.
    Replayed,
}

impl DeadLetterStatus {
    /// All statuses that a dead letter can have.
    pub const ALL: [Self; 5] = [Self::Open, Self::Replaying, Self::Handled, Self::Discarded, Self::Replayed];

    /// Returns the name of the status, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Replaying => "replaying",
            Self::Handled => "handled",
            Self::Discarded => "discarded",
            Self::Replayed => "replayed",
        }
    }
}

/// Counts delivery attempts and stores dead letters.
#[async_trait]
pub trait DeliveryStore: Send + Sync {
    /// Counts an attempt at a message *before* it is handled, up to `attempts_max`, so that a message that kills the
    /// process runs out of attempts too. The first delivery is not counted, so the first counted attempt is number 2.
    /// The start time of the attempt is stored too.
    async fn begin_attempt(&self, message: &Redelivery, attempts_max: u32) -> Result<AttemptStart>;

    /// Deletes the attempts at a message after it was handled. Otherwise a redelivery after a lost acknowledgement
    /// would look like a failure. Deleting attempts that do not exist is not an error.
    async fn clear_attempts(&self, position: &DeliveryPosition) -> Result<()>;

    /// Records that an attempt failed and that another one will follow, with the time of the database. Recording the
    /// same attempt again overwrites the earlier record.
    async fn record_failure(&self, position: &DeliveryPosition, failure: &AttemptFailure) -> Result<()>;

    /// Stores a dead letter, moves the history of its attempts to it, and deletes their count. Puts an announcement
    /// into the outbox when the dead letter has a tenant and a workflow. An existing dead letter is not changed. A
    /// failed replay (see [`IncomingReplay`]) creates no second dead letter. Instead the original one is open again
    /// with the failure in its history, and the replay records why it failed.
    async fn store_dead_letter(&self, dead_letter: &NewDeadLetter) -> Result<DeadLetterId>;

    /// Ends the replay that a handled message belongs to, and marks its dead letter as handled. `known` is `true` when
    /// the message's event had been handled before. Returns `false` when the message is not a replay that is under way.
    /// Call it before acknowledging the message, so that a crash in between only repeats the call.
    async fn end_replay(&self, resent: &IncomingReplay, known: bool) -> Result<bool>;
}
