//! The broker's side: outbox, attempts and dead letters.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::dead_letter::Rejection;
use retro_core::id::{DeadLetterId, MessageId, Tenant, Workflow, derive};
use retro_core::message::Message;
use retro_fault::{Guard, broken};
use serde::{Deserialize, Serialize};

use crate::{Failure, Resent, Result};

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
        let attempt = if broken(Guard::LetterId) { self.attempts.to_string() } else { String::new() };
        derive_letter_id(&self.position, &self.payload, &attempt)
    }
}

fn derive_letter_id(position: &Position, payload: &[u8], attempt: &str) -> DeadLetterId {
    let Position { consumer, stream, sequence } = position;
    let hash = retro_core::canonical::sha256_hex(payload);
    DeadLetterId(derive("dead_letter", &[consumer, stream, &sequence.to_string(), &(hash + attempt)]))
}

/// A message that the broker delivers once more, as far as its dead letter is recognised by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redelivery {
    /// Who is handed what.
    pub position: Position,
    /// Id of the dead letter that giving up this message leaves.
    pub letter: DeadLetterId,
    /// When the broker stored the message: a broker that was wiped may give the same bytes the same position.
    pub stored_at: Timestamp,
}

impl Redelivery {
    /// The message with this payload in this position.
    pub fn new(position: Position, payload: &[u8], stored_at: Timestamp) -> Self {
        let letter = derive_letter_id(&position, payload, "");
        Self { position, letter, stored_at }
    }
}

/// Whether a message that was delivered before may be handled once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptStart {
    /// It may, and the attempt is counted. Holds the attempt's own number, which is 2 for the first that is counted.
    Begun(u32),
    /// Every attempt is spent. Asking again changes nothing.
    Exhausted,
    /// The message is a dead letter already and only its acknowledgement was lost. Nothing was counted.
    DeadLettered(DeadLetterId),
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
    /// How often it was sent again.
    pub replays: u32,
    /// When it was stored, by the database's clock.
    pub created_at: Timestamp,
    /// The version of the program that gave up.
    pub program_version: String,
}

/// Where a dead letter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterStatus {
    /// Nobody has acted on it, or its replay failed again.
    Open,
    /// It is being sent again, and nothing has come of it yet.
    Replaying,
    /// It was sent again and handled.
    Handled,
    /// A person put it aside; it can be replayed all the same.
    Discarded,
    /// It told of a failed retrospective, and replaying it opened the next one.
    Replayed,
}

impl LetterStatus {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Open, Self::Replaying, Self::Handled, Self::Discarded, Self::Replayed];

    /// The word as stored and shown.
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

/// Attempts and dead letters.
#[async_trait]
pub trait DeliveryStore: Send + Sync {
    /// Counts an attempt at a message *before* it is handled, of at most `attempts_max`. The first delivery is not counted,
    /// so the first attempt that is has number 2. The history has under its number when it began.
    async fn begin_attempt(&self, message: &Redelivery, attempts_max: u32) -> Result<AttemptStart>;

    /// Forgets the attempts at a message that was handled: one whose acknowledgement is lost comes again, and has not
    /// failed. Forgetting what is not there is no error.
    async fn forget_attempts(&self, position: &Position) -> Result<()>;

    /// Notes that an attempt at a message failed and that another follows, with the time of the database. Noting the
    /// same attempt again leaves the last word.
    async fn note_failure(&self, position: &Position, failure: &Failure) -> Result<()>;

    /// Stores a dead letter, whole, makes the history of its attempts the letter's, forgets their count, and leaves an
    /// announcement in the outbox when the letter has a tenant and a workflow; a letter that is already there is left as
    /// it is. A message that is a replay (see [`Resent`]) leaves no second letter: its own is open again with the failure in
    /// its history, and the replay says why it failed.
    async fn bury(&self, letter: &NewDeadLetter) -> Result<DeadLetterId>;

    /// Ends the replay that a handled message says it is, if it is one that is under way, and its letter with it; `known`
    /// says that it had been handled before. Returns whether it was one. To be called before the message is acknowledged.
    async fn settle(&self, resent: &Resent, known: bool) -> Result<bool>;
}
