//! The broker's side: outbox, attempts and dead letters.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::dead_letter::Rejection;
use retro_core::id::{DeadLetterId, MessageId, Tenant, Workflow, derive};
use retro_core::message::Message;
use serde::{Deserialize, Serialize};

use crate::Result;

/// Messages that wait to be sent.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// The oldest unsent messages, at most `limit`. Selected by "not sent", never by "after the last one".
    async fn unsent(&self, limit: u32) -> Result<Vec<Message>>;

    /// Marks messages as sent; the rows stay, so that a lost broker can be fed again.
    async fn mark_sent(&self, ids: &[MessageId]) -> Result<()>;
}

/// Where a message stands at the broker, for one consumer of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The consumer.
    pub consumer: String,
    /// The stream.
    pub stream: String,
    /// The position in the stream.
    pub sequence: u64,
}

/// A message that is given up, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDeadLetter {
    /// Who gave up on what; the letter's id is derived from it.
    pub position: Position,
    /// The tenant of the subject; `None` when the subject names none that can be read.
    pub tenant: Option<Tenant>,
    /// The workflow of the subject, likewise.
    pub workflow: Option<Workflow>,
    /// The subject.
    pub subject: String,
    /// The headers as they came.
    pub headers: Vec<(String, String)>,
    /// The bytes as they came.
    pub payload: Vec<u8>,
    /// Why.
    pub rejection: Rejection,
    /// Attempts spent, the last one included.
    pub attempts: u32,
    /// When the broker stored the message.
    pub stored_at: Timestamp,
}

impl NewDeadLetter {
    /// Derived from consumer, stream, position and payload: giving up twice leaves one letter, and a broker that
    /// was wiped and numbers its messages anew does not hide a second one.
    pub fn id(&self) -> DeadLetterId {
        let Position { consumer, stream, sequence } = &self.position;
        let hash = retro_core::canonical::sha256_hex(&self.payload);
        DeadLetterId(derive("dead_letter", &[consumer, stream, &sequence.to_string(), &hash]))
    }
}

/// A dead letter as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetter {
    /// Its id.
    pub id: DeadLetterId,
    /// The message and why it was given up.
    pub letter: NewDeadLetter,
    /// SHA-256 of the payload, hex.
    pub payload_sha256: String,
    /// Where it stands.
    pub status: LetterStatus,
    /// When it was stored, by the database's clock.
    pub created_at: Timestamp,
    /// The version of the program that gave up.
    pub program_version: String,
}

/// Where a dead letter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterStatus {
    /// Nobody has acted on it.
    Open,
    /// Somebody has replayed it.
    Replayed,
}

impl LetterStatus {
    /// The word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Replayed => "replayed",
        }
    }
}

/// Attempts and dead letters.
#[async_trait]
pub trait DeliveryStore: Send + Sync {
    /// Counts an attempt at a message *before* it is handled, and returns how many that makes.
    async fn begin_attempt(&self, position: &Position) -> Result<u32>;

    /// Stores a dead letter, whole, forgets its attempts, and leaves an announcement in the outbox when the letter
    /// has a tenant and a workflow; a letter that is already there is left as it is.
    async fn bury(&self, letter: &NewDeadLetter) -> Result<DeadLetterId>;
}
