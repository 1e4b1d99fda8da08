//! Storage ports for the delivery attempts, edited versions and replays of dead letters.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::cancel::Attribution;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use serde::{Deserialize, Serialize};

use crate::{AuditStore, CounterStore, DeadLetterFilter, DeliveryPosition, OperatorStore, ReplayRow, Result};

/// Maximum number of attempts kept per dead letter: the first one and the newest ones. A message has up to
/// five attempts, and each replay adds more.
pub const ATTEMPTS_KEPT: u32 = 50;

/// Maximum length of a failure reason, in characters. Longer error messages of databases or brokers are
/// truncated.
pub const FAILURE_CHARS_MAX: usize = 2000;

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

/// Reads the attempts, versions and replays of a dead letter. For a dead letter of another tenant, every list
/// is empty.
#[async_trait]
pub trait DeadLetterStore: Send + Sync {
    /// Returns the recorded attempts at a dead letter's message in order, at most [`ATTEMPTS_KEPT`].
    async fn list_attempts(&self, tenant: &Tenant, dead_letter: DeadLetterId) -> Result<Vec<Attempt>>;

    /// Returns the edited versions of a dead letter without their content, sorted by version number.
    async fn list_versions(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
    ) -> Result<Vec<DeadLetterVersionRow>>;

    /// Returns an edited version of a dead letter; `None` if it does not exist. Version 0, the dead letter as
    /// received, is not an edited version.
    async fn find_version(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        version: u32,
    ) -> Result<Option<DeadLetterVersion>>;

    /// Returns the replays of a dead letter, oldest request first.
    async fn list_replays(&self, tenant: &Tenant, dead_letter: DeadLetterId) -> Result<Vec<ReplayRow>>;

    /// Counts the tenant's dead letters that match the filter, grouped by rejection, consumer and workflow.
    ///
    /// The group with the newest dead letter comes first. Returns at most `filter.limit` groups and ignores
    /// `filter.after`.
    async fn count_dead_letters(
        &self,
        tenant: &Tenant,
        filter: &DeadLetterFilter,
    ) -> Result<Vec<DeadLetterCount>>;
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

/// Stores edited versions of dead letters. The original never changes. Includes [`OperatorStore`] and
/// [`AuditStore`] because an editor reads the dead letter first, and that read is audited.
#[async_trait]
pub trait DeadLetterEditStore: OperatorStore + AuditStore + CounterStore {
    /// Stores `content`, edited from version `based_on`, as the next version of a dead letter, together with
    /// its audit row, in one transaction. Returns the 1-based number of the new version; `None` if the tenant
    /// has no such dead letter. Concurrent edits get distinct numbers.
    async fn edit_dead_letter(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        based_on: u32,
        content: &MessageContent,
        act: &Attribution,
    ) -> Result<Option<u32>>;
}
