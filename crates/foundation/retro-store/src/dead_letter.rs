//! Defines dead letters: rejected messages with the attempts at them and their edited versions.

use jiff::Timestamp;
use retro_core::attribution::Attribution;
use retro_core::canonical::sha256_hex;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{DeadLetterId, Tenant, Workflow, derive_uuid};
use retro_fault::{Guard, is_broken};
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

/// Maximum number of attempts kept per dead letter: the first one and the newest ones. A message has up to
/// five attempts, and each replay adds more.
pub const ATTEMPTS_KEPT: u32 = 50;

/// Maximum length of a failure reason, in characters. Longer error messages of databases or brokers are
/// truncated.
pub const FAILURE_CHARS_MAX: usize = 2000;

/// Subject of dead letters that hold the spans of a trace instead of a message. Nothing is published to it.
pub const SPANS_SUBJECT: &str = "POST /v1/traces";

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
    /// Returns `true` if the dead letter holds the spans of a trace: no message that could be sent again.
    pub fn holds_spans(&self) -> bool {
        self.subject == SPANS_SUBJECT
    }

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
    let hash = sha256_hex(payload);
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
#[derive(EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
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
    /// Returns the name of the status, used in the database and in output.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Failure of one attempt to handle a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFailure {
    /// 1-based attempt number.
    pub attempt: u32,
    /// Dead-letter code; `None` if the message will be retried.
    pub code: Option<DeadLetterCode>,
    /// Path of the message field that caused the failure; `None` if no single field did.
    pub path: Option<String>,
    /// Human-readable reason in one sentence, at most [`FAILURE_CHARS_MAX`] characters. Contains no secrets
    /// from the message.
    pub detail: String,
}

impl AttemptFailure {
    /// Creates the failure of an attempt that is followed by a retry.
    pub fn from_error(attempt: u32, detail: &str) -> Self {
        Self { attempt, code: None, path: None, detail: truncate_detail(detail) }
    }

    /// Creates the failure of the final attempt, after which the message becomes a dead letter.
    pub fn from_rejection(attempt: u32, rejection: &Rejection) -> Self {
        let Rejection { code, path, detail } = rejection;
        Self { attempt, code: Some(*code), path: path.clone(), detail: truncate_detail(detail) }
    }
}

fn truncate_detail(text: &str) -> String {
    // Counts characters, because slicing inside a multi-byte character would panic.
    text.chars().take(FAILURE_CHARS_MAX).collect()
}

/// Recorded attempt to handle a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Consumer and stream position of the message.
    pub position: DeliveryPosition,
    /// 1-based attempt number at this position.
    pub attempt: u32,
    /// Start of the attempt, by the database clock; `None` for the first delivery, which is not counted.
    pub started_at: Option<Timestamp>,
    /// Time of the failure, by the database clock; `None` if no failure was recorded, for example because the
    /// process crashed.
    pub failed_at: Option<Timestamp>,
    /// Dead-letter code; `None` if the message was retried or no failure was recorded.
    pub code: Option<DeadLetterCode>,
    /// Path of the message field that caused the failure; `None` if no single field did.
    pub path: Option<String>,
    /// Human-readable reason in one sentence; `None` if no failure was recorded.
    pub detail: Option<String>,
    /// Version of the program that handled the attempt.
    pub program_version: String,
}

/// Headers and payload of one version of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageContent {
    /// Headers as (name, value) pairs, in sending order.
    pub headers: Vec<(String, String)>,
    /// Payload bytes, which need not be valid JSON.
    pub payload: Vec<u8>,
}

/// An edited version of a dead letter. A stored version never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterVersion {
    /// 1-based version number. Version 0 is the dead letter as received.
    pub version: u32,
    /// Version on which the edit is based; 0 is the dead letter as received.
    pub based_on: u32,
    /// Headers and payload after the edit.
    pub content: MessageContent,
    /// SHA-256 of the payload, in lower-case hexadecimal.
    pub payload_sha256: String,
    /// Who made the edit, when and why.
    pub act: Attribution,
}

/// A [`DeadLetterVersion`] without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetterVersionRow {
    /// 1-based version number.
    pub version: u32,
    /// Version on which the edit is based; 0 is the dead letter as received.
    pub based_on: u32,
    /// Size of the payload in bytes.
    pub payload_bytes: u64,
    /// SHA-256 of the payload, in lower-case hexadecimal.
    pub payload_sha256: String,
    /// Who made the edit, when and why.
    #[serde(flatten)]
    pub act: Attribution,
}

/// Group of dead letters with the same rejection, consumer and workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterCount {
    /// Rejection shared by the group, including the exact detail text.
    pub rejection: Rejection,
    /// Consumer that rejected the messages.
    pub consumer: String,
    /// Workflow parsed from the subject; `None` if the subject names none.
    pub workflow: Option<Workflow>,
    /// Number of dead letters in the group.
    pub total: u64,
    /// Number of open dead letters in the group.
    pub open: u64,
    /// Time at which the oldest dead letter of the group was stored, by the database clock.
    pub first_seen: Timestamp,
    /// Time at which the newest dead letter of the group was stored, by the database clock.
    pub last_seen: Timestamp,
    /// Id of the newest dead letter of the group, as an example.
    pub example: DeadLetterId,
}

/// Filter for a list of dead letters. A field that is `None` matches any dead letter. Text search is not
/// supported, because the stored text is not redacted; callers search the redacted text that they display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Ids of the dead letters; an empty list matches any id.
    pub ids: Vec<DeadLetterId>,
    /// Dead-letter code.
    pub code: Option<DeadLetterCode>,
    /// Role name of the consumer that rejected the messages.
    pub consumer: Option<String>,
    /// Workflow parsed from the subject.
    pub workflow: Option<Workflow>,
    /// Inclusive lower bound of the storage time, by the database clock.
    pub since: Option<Timestamp>,
    /// Exclusive upper bound of the storage time, by the database clock.
    pub until: Option<Timestamp>,
    /// Status of the dead letters.
    pub status: Option<DeadLetterStatus>,
    /// Pagination cursor: the last dead letter of the previous page; `None` for the first page.
    pub after: Option<DeadLetterId>,
    /// Maximum number of results, newest dead letter first.
    pub limit: u32,
}

impl DeadLetterFilter {
    /// Default of `limit`: a page that is still readable. Not 0, because with 0 a caller that only checks for
    /// the existence of a dead letter would never find one.
    pub const DEFAULT_LIMIT: u32 = 100;
}

impl Default for DeadLetterFilter {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            code: None,
            consumer: None,
            workflow: None,
            since: None,
            until: None,
            status: None,
            after: None,
            limit: Self::DEFAULT_LIMIT,
        }
    }
}
