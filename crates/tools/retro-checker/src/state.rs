//! Defines the contents of the database and the broker as plain rows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Snapshot of the database and the broker.
///
/// The broker is read before the database, so the effects of every acknowledged message are in the database
/// or permanently missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct State {
    /// Contents of the broker's streams.
    pub broker: Broker,
    /// Rows of `workflows`.
    pub workflows: Vec<Workflow>,
    /// Rows of `inbox`: handled events whose identity is still stored.
    pub inbox: Vec<InboxRow>,
    /// Number of rows of `seen_events`: handled events of which only a digest is stored.
    pub digests: u64,
    /// Rows of `runs`.
    pub runs: Vec<Run>,
    /// Rows of `retrospectives`, automatic and manual ones.
    pub retrospectives: Vec<Retrospective>,
    /// Rows of `investigations`.
    pub investigations: Vec<Investigation>,
    /// Rows of `journal`: finished stages of investigations.
    pub journal: Vec<JournalEntry>,
    /// Rows of `changes`: memory changes made by the writer, in order.
    pub changes: Vec<Change>,
    /// Rows of `memories`.
    pub memories: Vec<Memory>,
    /// Rows of `tombstones`, as tenant and memory id.
    pub tombstones: Vec<(String, String)>,
    /// Rows of `outbox`: sent and unsent messages of the program.
    pub outbox: Vec<OutboxRow>,
    /// Rows of `attempts`: attempt counts of messages.
    pub attempts: Vec<Attempt>,
    /// Rows of `dead_letters`.
    pub dead_letters: Vec<DeadLetter>,
    /// Rows of `audit_log`: operator actions.
    pub audit_log: Vec<AuditEntry>,
    /// Rows of `replays`: replays of dead letters.
    pub replays: Vec<Replay>,
}

/// Row of `workflows`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workflow {
    /// Owning tenant.
    pub tenant: String,
    /// Name of the workflow.
    pub workflow: String,
    /// Number of stored runs of the workflow.
    pub recorded: u64,
    /// Highest ordinal assigned to a run.
    pub counted: u64,
    /// Highest ordinal claimed by a retrospective.
    pub claimed: u64,
    /// Epoch of the last automatic retrospective.
    pub epoch: i64,
    /// `true` if an automatic retrospective is open.
    pub open: bool,
    /// Number of handled events of the workflow.
    pub events: u64,
    /// `true` if a pause is stored because a retrospective failed or was cancelled; the pause may have ended.
    pub paused: bool,
}

/// Row of `inbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxRow {
    /// Consumer that handled the event.
    pub consumer: String,
    /// Owning tenant.
    pub tenant: String,
    /// `source` attribute of the CloudEvent.
    pub source: String,
    /// `id` attribute of the CloudEvent.
    pub event_id: String,
    /// SHA-256 of the event's `data` as canonical JSON.
    pub content_hash: String,
}

/// Row of `runs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Owning tenant.
    pub tenant: String,
    /// Workflow of the run.
    pub workflow: String,
    /// Run id assigned by the emitter.
    pub run_id: String,
    /// Arrival number: position of the run among all stored runs of the workflow.
    pub number: u64,
    /// Position of the run among the counted runs of the workflow; `None` if the run is not counted.
    pub ordinal: Option<u64>,
}

/// Row of `retrospectives`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retrospective {
    /// Owning tenant.
    pub tenant: String,
    /// Id of the retrospective.
    pub id: String,
    /// Workflow of the retrospective.
    pub workflow: String,
    /// 1-based epoch; negative for a manual retrospective.
    pub epoch: i64,
    /// Ordinal of the first run in the window.
    pub first_ordinal: u64,
    /// Ordinal of the last run in the window.
    pub last_ordinal: u64,
    /// Policy time of the retrospective.
    pub as_of: String,
    /// State: `due`, `investigating`, `settling`, `closed`, `failed` or `cancelled`.
    pub state: String,
    /// JSON of the sample (seed, order and size); `None` until the sample is drawn.
    pub sample: Option<String>,
    /// `true` for a manual retrospective.
    pub manual: bool,
}

/// Row of `investigations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Investigation {
    /// Owning tenant.
    pub tenant: String,
    /// Id of the retrospective.
    pub retrospective: String,
    /// 1-based position of the investigation in its retrospective.
    pub number: u64,
    /// Id of the investigated run.
    pub run_id: String,
    /// Fencing token of the latest claim.
    pub token: u64,
    /// Fencing token under which the investigation ended; `None` while it has not ended.
    pub ended_token: Option<u64>,
    /// Number of claims, excluding released ones.
    pub attempts: u64,
    /// `true` if the investigation has ended.
    pub ended: bool,
    /// JSON of the result; `None` until the investigation has ended.
    pub result: Option<String>,
}

/// Row of `journal`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Owning tenant.
    pub tenant: String,
    /// Id of the retrospective.
    pub retrospective: String,
    /// 1-based position of the investigation in its retrospective.
    pub number: u64,
    /// Finished stage: `briefed` or `answered`.
    pub stage: String,
    /// Fencing token of the claim that wrote the entry.
    pub token: u64,
}

/// Row of `changes`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Position of the change in the change log.
    pub sequence: u64,
    /// Owning tenant.
    pub tenant: String,
    /// Id of the change.
    pub id: String,
    /// Workflow of the memory.
    pub workflow: String,
    /// Id of the changed memory.
    pub memory: String,
    /// Kind of the change, such as `promoted` or `reweighted`.
    pub kind: String,
    /// Kind of the cause, such as `run`.
    pub cause: String,
    /// Id of the cause.
    pub cause_id: String,
    /// Complete change as JSON.
    #[serde(deserialize_with = "deserialize_json_text")]
    pub change: Value,
}

/// Row of `memories`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Owning tenant.
    pub tenant: String,
    /// Id of the memory.
    pub id: String,
    /// Status of the memory, duplicated from `memory` for queries.
    pub status: String,
    /// Weight of the memory in thousandths, duplicated from `memory` for queries.
    pub weight: i64,
    /// Complete memory as JSON.
    #[serde(deserialize_with = "deserialize_json_text")]
    pub memory: Value,
}

/// Row of `outbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxRow {
    /// Message id, also used as the broker's message id.
    pub id: String,
    /// Kind of the notice in the message.
    pub kind: String,
    /// Workflow of the notice.
    pub workflow: String,
    /// `true` if the relay has marked the message as sent.
    pub sent: bool,
}

/// Row of `attempts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Consumer that handles the message.
    pub consumer: String,
    /// Stream that contains the message.
    pub stream: String,
    /// Sequence number of the message in its stream.
    pub sequence: u64,
    /// Number of counted attempts, without the first delivery.
    pub attempts: u64,
}

/// Row of `dead_letters`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Id of the dead letter.
    pub id: String,
    /// Consumer that rejected the message.
    pub consumer: String,
    /// Stream of the message.
    pub stream: String,
    /// Sequence number of the message in its stream.
    pub sequence: u64,
    /// Subject of the message.
    pub subject: String,
    /// Payload, in lower-case hexadecimal.
    pub payload_hex: String,
    /// SHA-256 of the payload, as computed by the program.
    pub payload_sha256: String,
    /// Dead-letter code.
    pub code: String,
    /// Number of attempts, including the last one.
    pub attempts: u64,
    /// Status: `open`, `replaying`, `handled`, `discarded` or `replayed`.
    pub status: String,
}

/// Row of `audit_log`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Position of the entry in the audit log.
    pub sequence: u64,
    /// Owning tenant.
    pub tenant: String,
    /// Kind of the subject: `retrospective`, `dead_letter` or `replay_batch`.
    pub subject_kind: String,
    /// Id of the subject.
    pub subject_id: String,
    /// Name of the action, such as `cancelled`, `replayed` or `edited`.
    pub action: String,
    /// Operator who requested the action.
    pub requested_by: String,
    /// Reason given by the operator.
    pub reason: String,
    /// Id of the retrospective opened by the action; `None` if the action opened none.
    pub opened_retrospective: Option<String>,
}

/// Row of `replays`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// Id of the replay.
    pub id: String,
    /// Id of the dead letter.
    pub dead_letter: String,
    /// 1-based replay number of the dead letter.
    pub number: u64,
    /// State: `waiting`, `sent`, `handled` or `failed`.
    pub state: String,
}

/// Contents of the broker; empty if the broker was not read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Broker {
    /// Existing streams of the program.
    pub streams: Vec<Stream>,
}

/// Stream with its messages and consumers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stream {
    /// Name of the stream.
    pub name: String,
    /// Last assigned sequence number.
    pub last_sequence: u64,
    /// Messages in the stream.
    pub messages: Vec<StoredMessage>,
    /// Consumers of the stream.
    pub consumers: Vec<Consumer>,
}

/// Message stored in a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StoredMessage {
    /// Sequence number of the message in its stream.
    pub sequence: u64,
    /// Subject of the message.
    pub subject: String,
    /// Headers as (name, value) pairs.
    pub headers: Vec<(String, String)>,
    /// Payload bytes.
    pub payload: Vec<u8>,
}

/// Durable consumer of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Consumer {
    /// Name of the consumer.
    pub name: String,
    /// Sequence number up to which every message is acknowledged.
    pub ack_floor: u64,
    /// Number of delivered but unacknowledged messages.
    pub ack_pending: u64,
    /// Number of undelivered messages.
    pub pending: u64,
}

impl Broker {
    /// Returns the stream with a name; `None` if it does not exist.
    pub fn find_stream(&self, name: &str) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.name == name)
    }
}

impl Stream {
    /// Returns the message with a sequence number; `None` if it does not exist.
    pub fn message_at(&self, sequence: u64) -> Option<&StoredMessage> {
        self.messages.iter().find(|message| message.sequence == sequence)
    }
}

impl StoredMessage {
    /// Returns the value of a header by its case-insensitive name; `None` if it is missing.
    pub fn find_header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

fn deserialize_json_text<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Value, D::Error> {
    let text = String::deserialize(reader)?;
    serde_json::from_str(&text).map_err(serde::de::Error::custom)
}

/// Numbers of what the program has done and is doing, across all tenants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkCounts {
    /// Number of counted runs.
    pub counted: u64,
    /// Number of retrospectives that are being investigated.
    pub investigating: u64,
    /// Number of retrospectives whose mutations are stored and that are not closed.
    pub settling: u64,
    /// Number of changes of memories.
    pub changes: u64,
}
