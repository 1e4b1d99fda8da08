//! Ports for the attempts at a dead letter's message, and for the versions that people create of it.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::cancel::Attribution;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use serde::{Deserialize, Serialize};

use crate::{AuditStore, CounterStore, DeadLetterFilter, DeliveryPosition, OperatorStore, ReplayRow, Result};

/// Maximum number of attempts kept for one dead letter: the first one and the newest ones. A message has up to five
/// attempts, and each replay adds more.
pub const ATTEMPTS_KEPT: u32 = 50;

/// Maximum length of the reason for a failure, in characters. Longer error texts of databases or brokers are truncated.
pub const FAILURE_CHARS_MAX: usize = 2000;

/// The failure of one attempt to handle a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFailure {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Dead-letter code; `None` when the message will be retried.
    pub code: Option<Code>,
    /// Path of the message's field that caused the failure; `None` when no single field did.
    pub path: Option<String>,
    /// Reason for the failure in one sentence, at most [`FAILURE_CHARS_MAX`] characters. It is shown to people, so it
    /// never contains secrets from the message.
    pub detail: String,
}

impl AttemptFailure {
    /// Creates the failure of an attempt that will be retried.
    pub fn from_error(attempt: u32, detail: &str) -> Self {
        Self { attempt, code: None, path: None, detail: truncate_detail(detail) }
    }

    /// Creates the failure of the last attempt, after which the message becomes a dead letter.
    pub fn from_rejection(attempt: u32, rejection: &Rejection) -> Self {
        let Rejection { code, path, detail } = rejection;
        Self { attempt, code: Some(*code), path: path.clone(), detail: truncate_detail(detail) }
    }
}

fn truncate_detail(text: &str) -> String {
    // Counts characters, because cutting within one would panic.
    text.chars().take(FAILURE_CHARS_MAX).collect()
}

/// A stored attempt to handle a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Consumer and position of the message.
    pub position: DeliveryPosition,
    /// Number of the attempt at this position, from 1.
    pub attempt: u32,
    /// Time at which the attempt was counted, by the database's clock; `None` for the first delivery, which is not
    /// counted.
    pub begun_at: Option<Timestamp>,
    /// Time of the failure, by the database's clock; `None` when no failure was recorded, for example because the
    /// process died.
    pub failed_at: Option<Timestamp>,
    /// Dead-letter code; `None` when the message was to be retried or no failure was recorded.
    pub code: Option<Code>,
    /// Path of the message's field that caused the failure; `None` when no single field did.
    pub path: Option<String>,
    /// Reason for the failure in one sentence; `None` when no failure was recorded.
    pub detail: Option<String>,
    /// Version of the program that made the attempt.
    pub program_version: String,
}

/// Headers and payload of one version of a dead letter, as a replay sends them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageContent {
    /// Headers as pairs of name and value, in the order in which they are sent.
    pub headers: Vec<(String, String)>,
    /// Payload bytes, which need not be valid JSON.
    pub payload: Vec<u8>,
}

/// An edited version of a dead letter. A stored version never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterVersion {
    /// Number of the version, from 1. Version 0 is the dead letter as received.
    pub version: u32,
    /// Number of the version that was edited; 0 is the dead letter as received.
    pub based_on: u32,
    /// Headers and payload of the version.
    pub content: MessageContent,
    /// SHA-256 of the payload, in hexadecimal.
    pub payload_sha256: String,
    /// Person who made the edit, with reason and time.
    pub act: Attribution,
}

/// A [`DeadLetterVersion`] without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetterVersionRow {
    /// Number of the version, from 1.
    pub version: u32,
    /// Number of the version that was edited; 0 is the dead letter as received.
    pub based_on: u32,
    /// Size of the payload in bytes.
    pub payload_bytes: u64,
    /// SHA-256 of the payload, in hexadecimal.
    pub payload_sha256: String,
    /// Person who made the edit, with reason and time.
    #[serde(flatten)]
    pub act: Attribution,
}

/// Reads the attempts, versions and replays of a dead letter. A dead letter of another tenant appears to have none.
#[async_trait]
pub trait DeadLetterStore: Send + Sync {
    /// Returns the attempts at a dead letter's message in order, at most [`ATTEMPTS_KEPT`].
    async fn list_attempts(&self, tenant: &Tenant, dead_letter: DeadLetterId) -> Result<Vec<Attempt>>;

    /// Returns the edited versions of a dead letter in order, without their content.
    async fn list_versions(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
    ) -> Result<Vec<DeadLetterVersionRow>>;

    /// Returns one edited version of a dead letter, numbered from 1; `None` when it does not exist.
    async fn find_version(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        version: u32,
    ) -> Result<Option<DeadLetterVersion>>;

    /// Returns the replays of a dead letter in the order in which they were requested.
    async fn list_replays(&self, tenant: &Tenant, dead_letter: DeadLetterId) -> Result<Vec<ReplayRow>>;

    /// Counts the tenant's dead letters that match the filter, in groups of equal rejection, consumer and workflow. The
    /// group with the latest dead letter comes first. Returns at most as many groups as the filter's limit. The
    /// filter's `after` is ignored.
    async fn count_dead_letters(
        &self,
        tenant: &Tenant,
        filter: &DeadLetterFilter,
    ) -> Result<Vec<DeadLetterCount>>;
}

/// The size of a group of dead letters with the same rejection, consumer and workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterCount {
    /// Rejection of the messages, which is the same word for word in the whole group.
    pub rejection: Rejection,
    /// Consumer that rejected the messages.
    pub consumer: String,
    /// Workflow that the messages' subject names; `None` when it could not be read.
    pub workflow: Option<Workflow>,
    /// Number of dead letters in the group.
    pub total: u64,
    /// Number of dead letters in the group that are open.
    pub open: u64,
    /// Time at which the first dead letter of the group was stored, by the database's clock.
    pub first_seen: Timestamp,
    /// Time at which the latest dead letter of the group was stored, by the database's clock.
    pub last_seen: Timestamp,
    /// Id of the latest dead letter of the group, as an example.
    pub example: DeadLetterId,
}

/// Stores edited versions of dead letters. To edit a dead letter a person must read it first, and this read is recorded
/// in the audit log. The dead letter itself never changes.
#[async_trait]
pub trait DeadLetterEditStore: OperatorStore + AuditStore + CounterStore {
    /// Stores `content` as the next version of a dead letter, edited from version `based_on`, and an audit row, in one
    /// transaction. Returns the number of the new version, from 1; `None` when the tenant has no such dead letter.
    /// Concurrent edits get different numbers.
    async fn edit_dead_letter(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        based_on: u32,
        content: &MessageContent,
        act: &Attribution,
    ) -> Result<Option<u32>>;
}
