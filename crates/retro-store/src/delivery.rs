//! Storage ports for message delivery: the outbox, delivery attempts and dead letters.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::dead_letter::Rejection;
use retro_core::id::{DeadLetterId, MessageId, Tenant, Workflow, derive_uuid};
use retro_core::message::Message;
use retro_fault::{Guard, is_broken};
use serde::{Deserialize, Serialize};

use crate::{AttemptFailure, IncomingReplay, Result};

/// Transactional outbox, read by the relay.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Returns at most `limit` unsent messages, oldest first. Selects by the unsent mark rather than by the
    /// last sent id, because a message with an earlier id may be committed later and would be skipped.
    async fn list_unsent_messages(&self, limit: u32) -> Result<Vec<Message>>;

    /// Marks messages as sent. Keeps the rows, so the messages can be republished if the broker loses its
    /// data.
    async fn mark_sent(&self, ids: &[MessageId]) -> Result<()>;
}

/// Stream position of a message, as delivered to one consumer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeliveryPosition {
    /// Name of the consumer that received the message.
    pub consumer: String,
    /// Name of the stream that contains the message.
    pub stream: String,
    /// Stream sequence number of the message.
    pub sequence: u64,
}

/// A rejected message to store as a dead letter.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDeadLetter {
    /// Consumer and stream position of the message.
    pub position: DeliveryPosition,
    /// Tenant parsed from the subject; `None` if the subject names none.
    pub tenant: Option<Tenant>,
    /// Workflow parsed from the subject; `None` if the subject names none.
    pub workflow: Option<Workflow>,
    /// Subject to which the message was published.
    pub subject: String,
    /// Headers of the message as received.
    pub headers: Vec<(String, String)>,
    /// Payload of the message as received.
    pub payload: Vec<u8>,
    /// Reason why the message was rejected.
    pub rejection: Rejection,
    /// Number of attempts, including the last one.
    pub attempts: u32,
    /// Time at which the broker stored the message.
    pub stored_at: Timestamp,
}

impl NewDeadLetter {
    /// Derives the id of the dead letter from consumer, stream, sequence and payload, so storing a message
    /// twice creates one dead letter. The payload is included because a broker that lost its data reuses
    /// sequence numbers for different messages.
    pub fn id(&self) -> DeadLetterId {
        // A test that disables this guard makes the id depend on the attempt, so a repeated rejection creates
        // a second dead letter.
        let attempt = if is_broken(Guard::DeadLetterId) { self.attempts.to_string() } else { String::new() };
        derive_dead_letter_id(&self.position, &self.payload, &attempt)
    }
}

fn derive_dead_letter_id(position: &DeliveryPosition, payload: &[u8], attempt: &str) -> DeadLetterId {
    let DeliveryPosition { consumer, stream, sequence } = position;
    let hash = retro_core::canonical::sha256_hex(payload);
    DeadLetterId(derive_uuid("dead_letter", &[consumer, stream, &sequence.to_string(), &(hash + attempt)]))
}

/// Identity of a redelivered message and of the dead letter that it would become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redelivery {
    /// Consumer and stream position of the message.
    pub position: DeliveryPosition,
    /// Id of the dead letter that this message would become.
    pub dead_letter_id: DeadLetterId,
    /// Time at which the broker stored the message. If the broker loses its data, this distinguishes a new
    /// message from an old one with the same payload at the same position.
    pub stored_at: Timestamp,
}

impl Redelivery {
    /// Creates a redelivery and derives the id of its dead letter.
    pub fn new(position: DeliveryPosition, payload: &[u8], stored_at: Timestamp) -> Self {
        let dead_letter = derive_dead_letter_id(&position, payload, "");
        Self { position, dead_letter_id: dead_letter, stored_at }
    }
}

/// Result of beginning an attempt at a redelivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptStart {
    /// The attempt was counted, and the message may be handled. Contains the attempt number, which is at
    /// least 2.
    Begun(u32),
    /// The message has no attempts left and must become a dead letter. Repeating the call changes nothing.
    Exhausted,
    /// The message is already this dead letter, and only its acknowledgement was lost. No attempt was
    /// counted.
    DeadLettered(DeadLetterId),
}

/// A stored dead letter.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetter {
    /// Id of the dead letter.
    pub id: DeadLetterId,
    /// Rejected message with the reason.
    pub message: NewDeadLetter,
    /// SHA-256 of the payload, in lower-case hexadecimal.
    pub payload_sha256: String,
    /// Current status: open, replaying, handled, discarded or replayed.
    pub status: DeadLetterStatus,
    /// Number of requested replays.
    pub replays: u32,
    /// Time at which the dead letter was stored, by the database clock.
    pub created_at: Timestamp,
    /// Version of the program that rejected the message.
    pub program_version: String,
}

/// Status of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterStatus {
    /// The dead letter awaits an operator, or its last replay failed.
    Open,
    /// A replay of the dead letter is in progress.
    Replaying,
    /// A replay of the dead letter was handled successfully.
    Handled,
    /// An operator discarded the dead letter. It can still be replayed.
    Discarded,
    /// The dead letter records a failed retrospective, and its replay opened the next retrospective.
    Replayed,
}

impl DeadLetterStatus {
    /// All statuses, in display order.
    pub const ALL: [Self; 5] = [Self::Open, Self::Replaying, Self::Handled, Self::Discarded, Self::Replayed];

    /// Returns the name of the status, used in the database and in output.
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
    /// Counts an attempt at a redelivered message and stores its start time, up to `attempts_max` attempts.
    /// Must be called *before* the message is handled, so a message that crashes the process also exhausts
    /// its attempts. The first delivery is not counted, so the first counted attempt is number 2.
    async fn begin_attempt(&self, message: &Redelivery, attempts_max: u32) -> Result<AttemptStart>;

    /// Deletes the attempts at a handled message, because a redelivery after a lost acknowledgement would
    /// otherwise count as a failure. Does nothing if there are none.
    async fn clear_attempts(&self, position: &DeliveryPosition) -> Result<()>;

    /// Records the failure of an attempt that will be retried, with the database time. Recording the same
    /// attempt again overwrites the earlier failure.
    async fn record_failure(&self, position: &DeliveryPosition, failure: &AttemptFailure) -> Result<()>;

    /// Stores a dead letter with the history of its attempts, and deletes the attempt count. If the tenant
    /// and workflow are known, also adds an announcement to the outbox. Does not change an existing dead
    /// letter.
    ///
    /// A failed replay (see [`IncomingReplay`]) creates no second dead letter: the original is reopened with
    /// the failure in its history, and the replay ends as failed.
    async fn store_dead_letter(&self, dead_letter: &NewDeadLetter) -> Result<DeadLetterId>;

    /// Ends the replay of a handled message and marks its dead letter as handled. Returns `false` if the
    /// message is no replay in progress. `known` is `true` if the message's event had already been handled.
    ///
    /// Call this before acknowledging the message, so a crash in between only repeats the call.
    async fn end_replay(&self, resent: &IncomingReplay, known: bool) -> Result<bool>;
}
