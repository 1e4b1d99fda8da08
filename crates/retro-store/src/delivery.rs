//! The broker's side: outbox, delivery attempts and dead letters.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::dead_letter::Rejection;
use retro_core::id::{DeadLetterId, MessageId, Tenant, Workflow, derive_uuid};
use retro_core::message::Message;
use retro_fault::{Guard, is_broken};
use serde::{Deserialize, Serialize};

use crate::{AttemptFailure, IncomingReplay, Result};

/// The outbox: messages waiting to be sent.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Returns the oldest unsent messages, at most `limit`. Selects by "not sent", never by "after the last one
    /// sent": a message with an earlier id may be committed later and would be skipped.
    async fn list_unsent_messages(&self, limit: u32) -> Result<Vec<Message>>;

    /// Marks messages as sent. The rows are kept, so that their messages can be sent again to a broker that
    /// lost its data.
    async fn mark_sent(&self, ids: &[MessageId]) -> Result<()>;
}

/// Position of a message at the broker, for one of its consumers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeliveryPosition {
    /// Consumer that received the message.
    pub consumer: String,
    /// Stream that holds the message.
    pub stream: String,
    /// Sequence number in the stream.
    pub sequence: u64,
}

/// A message to be stored as a dead letter, complete.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDeadLetter {
    /// Consumer and position. The id of the dead letter is derived from them.
    pub position: DeliveryPosition,
    /// Tenant in the subject; `None` when it cannot be read from the subject.
    pub tenant: Option<Tenant>,
    /// Workflow in the subject; `None` when it cannot be read from the subject.
    pub workflow: Option<Workflow>,
    /// Subject of the message.
    pub subject: String,
    /// Headers as received.
    pub headers: Vec<(String, String)>,
    /// Payload as received.
    pub payload: Vec<u8>,
    /// Reason why the message could not be handled.
    pub rejection: Rejection,
    /// Number of attempts, the last one included.
    pub attempts: u32,
    /// Time at which the broker stored the message.
    pub stored_at: Timestamp,
}

impl NewDeadLetter {
    /// Returns the id, derived from consumer, stream, sequence and payload. Storing the same message twice
    /// therefore leaves one dead letter, and a broker that lost its data and counts from 1 again does not hide a
    /// second one.
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

/// A redelivered message, reduced to what identifies its dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redelivery {
    /// Consumer and position of the message.
    pub position: DeliveryPosition,
    /// Id of the dead letter that this message would become.
    pub dead_letter_id: DeadLetterId,
    /// Time at which the broker stored the message. It distinguishes the same bytes at the same position of a
    /// broker that lost its data and started again.
    pub stored_at: Timestamp,
}

impl Redelivery {
    /// Creates the redelivery of the message with this payload at this position.
    pub fn new(position: DeliveryPosition, payload: &[u8], stored_at: Timestamp) -> Self {
        let dead_letter = derive_dead_letter_id(&position, payload, "");
        Self { position, dead_letter_id: dead_letter, stored_at }
    }
}

/// Decision on handling a redelivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptStart {
    /// The message may be handled and the attempt is counted. Holds the number of the attempt; the first counted
    /// attempt is number 2.
    Begun(u32),
    /// All attempts are used up. Repeating the call changes nothing.
    Exhausted,
    /// The message already is a dead letter and only its acknowledgement was lost. Nothing was counted.
    DeadLettered(DeadLetterId),
}

/// A dead letter as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetter {
    /// Id of the dead letter.
    pub id: DeadLetterId,
    /// Message, with the reason for its rejection.
    pub message: NewDeadLetter,
    /// SHA-256 of the payload, in hexadecimal.
    pub payload_sha256: String,
    /// Status of the dead letter.
    pub status: DeadLetterStatus,
    /// Number of replays.
    pub replays: u32,
    /// Time at which it was stored, by the database's clock.
    pub created_at: Timestamp,
    /// Version of the program that rejected the message.
    pub program_version: String,
}

/// Status of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterStatus {
    /// No person has acted on it, or its last replay failed.
    Open,
    /// A replay is under way.
    Replaying,
    /// A replay was handled.
    Handled,
    /// A person discarded it. It can still be replayed.
    Discarded,
    /// The dead letter recorded a failed retrospective, and its replay opened the next one.
    Replayed,
}

impl DeadLetterStatus {
    /// All statuses.
    pub const ALL: [Self; 5] = [Self::Open, Self::Replaying, Self::Handled, Self::Discarded, Self::Replayed];

    /// Returns the word as stored and shown.
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
    /// Counts an attempt at a message *before* it is handled, up to `attempts_max`, so that a message that
    /// kills the process runs out of attempts too. The first delivery is not counted; the first counted
    /// attempt is number 2. The start time of the attempt is stored in the history.
    async fn begin_attempt(&self, message: &Redelivery, attempts_max: u32) -> Result<AttemptStart>;

    /// Deletes the attempts at a message that was handled. Otherwise a redelivery after a lost
    /// acknowledgement would look like a failure. Deleting attempts that do not exist is not an error.
    async fn clear_attempts(&self, position: &DeliveryPosition) -> Result<()>;

    /// Records that an attempt failed and that another one follows, with the database's time. Recording the same
    /// attempt again overwrites the earlier record.
    async fn record_failure(&self, position: &DeliveryPosition, failure: &AttemptFailure) -> Result<()>;

    /// Stores a dead letter, moves the history of its attempts to it, deletes their count, and puts an
    /// announcement into the outbox when the dead letter has a tenant and a workflow. An existing dead letter is
    /// not changed. A failed replay (see [`IncomingReplay`]) creates no second dead letter: the original is open
    /// again with the failure in its history, and the replay records why it failed.
    async fn store_dead_letter(&self, dead_letter: &NewDeadLetter) -> Result<DeadLetterId>;

    /// Ends the replay that a handled message belongs to, and marks its dead letter as handled. `known` means
    /// that the message had been handled before. Returns `false` when the message is not a replay that is
    /// under way. Call it before acknowledging the message: a crash in between then only repeats the call.
    async fn end_replay(&self, resent: &IncomingReplay, known: bool) -> Result<bool>;
}
