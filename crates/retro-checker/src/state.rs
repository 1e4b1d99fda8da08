//! Contents of the database and the broker at one moment, as plain rows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Contents of the database and the broker.
///
/// The broker is read before the database. So the effects of every acknowledged message are in the database or are
/// permanently missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct State {
    /// Contents of the broker's streams.
    pub broker: Broker,
    /// Rows of `workflows`.
    pub workflows: Vec<Workflow>,
    /// Handled events whose identity is still stored.
    pub inbox: Vec<InboxRow>,
    /// Number of handled events of which only a digest is still stored.
    pub digests: u64,
    /// Rows of `runs`.
    pub runs: Vec<Run>,
    /// Rows of `retrospectives`, both automatic and manual ones.
    pub retrospectives: Vec<Retrospective>,
    /// Rows of `investigations`.
    pub investigations: Vec<Investigation>,
    /// Stages of investigations that were written to the journal.
    pub journal: Vec<JournalEntry>,
    /// Changes of memories made by the writer, in order.
    pub changes: Vec<Change>,
    /// Rows of `memories`.
    pub memories: Vec<Memory>,
    /// Tenant and memory of each tombstone.
    pub tombstones: Vec<(String, String)>,
    /// Rows of `outbox`: messages that the program sends or has sent.
    pub outbox: Vec<OutboxRow>,
    /// Rows of `attempts`: counted attempts to handle messages.
    pub attempts: Vec<Attempt>,
    /// Rows of `dead_letters`.
    pub letters: Vec<DeadLetter>,
    /// Rows of `acts`: operator actions.
    pub acts: Vec<AuditEntry>,
    /// Rows of `letter_acts`: operator actions on dead letters.
    pub deeds: Vec<DeadLetterAuditEntry>,
    /// Rows of `replays`: replays of dead letters.
    pub replays: Vec<Replay>,
}

/// A row of `workflows`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workflow {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Name of the workflow.
    pub workflow: String,
    /// Number of stored runs of the workflow.
    pub recorded: u64,
    /// Last ordinal that was assigned to a run.
    pub counted: u64,
    /// Last ordinal that a retrospective has claimed.
    pub claimed: u64,
    /// Epoch of the last retrospective.
    pub epoch: i64,
    /// True while a retrospective of the workflow is open.
    pub open: bool,
    /// Number of events of the workflow that were handled.
    pub events: u64,
    /// True while the workflow is paused and opens no retrospective, because one failed or was cancelled.
    pub paused: bool,
}

/// A row of `inbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxRow {
    /// Consumer that handled the event.
    pub consumer: String,
    /// Tenant that owns the row.
    pub tenant: String,
    /// `source` attribute of the CloudEvent.
    pub source: String,
    /// `id` attribute of the CloudEvent.
    pub event_id: String,
    /// SHA-256 of the event's data in canonical JSON.
    pub content_hash: String,
}

/// A row of `runs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Workflow of the run.
    pub workflow: String,
    /// Id that the emitter gave the run.
    pub run_id: String,
    /// Number of the run among all stored runs, in order of arrival.
    pub number: u64,
    /// Number of the run among the counted runs; `None` when the run is not counted.
    pub ordinal: Option<u64>,
}

/// A row of `retrospectives`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retrospective {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Id of the retrospective.
    pub id: String,
    /// Workflow of the retrospective.
    pub workflow: String,
    /// Epoch, from 1; negative for a manual retrospective.
    pub epoch: i64,
    /// Ordinal of the first run in the window.
    pub first_ordinal: u64,
    /// Ordinal of the last run in the window.
    pub last_ordinal: u64,
    /// Time at which the policy is evaluated.
    pub as_of: String,
    /// State of the retrospective: `due`, `investigating`, `settling`, `closed`, `failed` or `cancelled`.
    pub state: String,
    /// Seed, order and size of the sample; `None` until the sample is drawn.
    pub sample: Option<String>,
    /// True when a person requested the retrospective.
    pub manual: bool,
}

/// A row of `investigations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Investigation {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Id of the retrospective.
    pub retrospective: String,
    /// Number of the investigation within its retrospective.
    pub number: u64,
    /// Id of the investigated run.
    pub run_id: String,
    /// Fencing token of the latest claim.
    pub token: u64,
    /// Fencing token of the claim that ended the investigation; `None` while it has not ended.
    pub ended_token: Option<u64>,
    /// Number of times that the investigation was claimed, without claims that were released.
    pub attempts: u64,
    /// True when the investigation has ended.
    pub ended: bool,
    /// Stored result of the investigation; `None` until it has ended.
    pub result: Option<String>,
}

/// A row of `journal`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Id of the retrospective.
    pub retrospective: String,
    /// Number of the investigation within its retrospective.
    pub number: u64,
    /// Stage that was reached: `briefed` or `answered`.
    pub stage: String,
    /// Fencing token of the claim that wrote the entry.
    pub token: u64,
}

/// A row of `changes`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Number of the change in the order of all changes.
    pub sequence: u64,
    /// Tenant that owns the row.
    pub tenant: String,
    /// Id of the change.
    pub id: String,
    /// Workflow that the memory belongs to.
    pub workflow: String,
    /// Id of the changed memory.
    pub memory: String,
    /// Kind of the change, such as `promoted` or `reweighted`.
    pub kind: String,
    /// Kind of the object that caused the change.
    pub cause: String,
    /// Id of the object that caused the change.
    pub cause_id: String,
    /// The whole change as JSON.
    #[serde(deserialize_with = "deserialize_json_text")]
    pub change: Value,
}

/// A row of `memories`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Id of the memory.
    pub id: String,
    /// Status of the memory, copied to a column for queries.
    pub status: String,
    /// Weight of the memory in thousandths, copied to a column for queries.
    pub weight: i64,
    /// The whole memory as JSON.
    #[serde(deserialize_with = "deserialize_json_text")]
    pub memory: Value,
}

/// A row of `outbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxRow {
    /// Id of the message, also used as its id at the broker.
    pub id: String,
    /// Kind of the notice in the message.
    pub kind: String,
    /// Workflow that the notice is about.
    pub workflow: String,
    /// True when the relay has marked the message as sent.
    pub sent: bool,
}

/// A row of `attempts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Consumer that handles the message.
    pub consumer: String,
    /// Stream that contains the message.
    pub stream: String,
    /// Sequence number of the message in its stream.
    pub sequence: u64,
    /// Number of attempts at the message so far.
    pub attempts: u64,
}

/// A row of `dead_letters`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Id of the dead letter.
    pub id: String,
    /// Consumer that gave up on the message.
    pub consumer: String,
    /// Stream from which the message came.
    pub stream: String,
    /// Sequence number of the message in its stream.
    pub sequence: u64,
    /// Subject of the message.
    pub subject: String,
    /// Payload of the message as hex digits.
    pub payload_hex: String,
    /// SHA-256 of the payload as the program stored it.
    pub payload_sha256: String,
    /// Code of the reason why the message could not be handled.
    pub code: String,
    /// Number of attempts that were made at the message.
    pub attempts: u64,
    /// Status of the dead letter: `open`, `replaying`, `handled`, `discarded` or `replayed`.
    pub status: String,
}

/// A row of `acts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Tenant that owns the row.
    pub tenant: String,
    /// What the operator did, such as `cancelled` or `replayed`.
    pub deed: String,
    /// Id of the object that was acted on.
    pub subject: String,
    /// Id of the retrospective that the action opened; `None` when it opened none.
    pub opened: Option<String>,
}

/// A row of `letter_acts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetterAuditEntry {
    /// Number of the entry in the order of all entries.
    pub sequence: u64,
    /// Tenant that owns the row.
    pub tenant: String,
    /// What the operator did, such as `replayed`, `edited` or `read_raw`.
    pub deed: String,
    /// Id of the dead letter or batch that was acted on.
    pub subject: String,
    /// Name of the operator.
    pub asked_by: String,
    /// Reason that the operator gave.
    pub reason: String,
}

/// A row of `replays`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// Id of the replay.
    pub id: String,
    /// Id of the dead letter.
    pub letter: String,
    /// Number of the replay among those of its dead letter, from 1.
    pub number: u64,
    /// State of the replay: `waiting`, `sent`, `handled` or `failed`.
    pub state: String,
}

/// Contents of the broker; empty when the broker was not read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Broker {
    /// The program's streams that exist at the broker.
    pub streams: Vec<Stream>,
}

/// A stream with its messages and consumers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stream {
    /// Name of the stream.
    pub name: String,
    /// Last sequence number that was assigned.
    pub last_sequence: u64,
    /// Messages that the stream contains.
    pub messages: Vec<StoredMessage>,
    /// Consumers of the stream.
    pub consumers: Vec<Consumer>,
}

/// A message stored in a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StoredMessage {
    /// Sequence number of the message in its stream.
    pub sequence: u64,
    /// Subject of the message.
    pub subject: String,
    /// Names and values of the headers.
    pub headers: Vec<(String, String)>,
    /// Bytes of the payload.
    pub payload: Vec<u8>,
}

/// A consumer of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Consumer {
    /// Name of the consumer.
    pub name: String,
    /// Sequence number up to which every message is acknowledged.
    pub ack_floor: u64,
    /// Number of messages that were delivered but not acknowledged.
    pub ack_pending: u64,
    /// Number of messages that were not delivered yet.
    pub pending: u64,
}

impl Broker {
    /// Returns the stream with this name; `None` if there is none.
    pub fn find_stream(&self, name: &str) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.name == name)
    }
}

impl Stream {
    /// Returns the message with this sequence number; `None` if there is none.
    pub fn message_at(&self, sequence: u64) -> Option<&StoredMessage> {
        self.messages.iter().find(|message| message.sequence == sequence)
    }
}

impl StoredMessage {
    /// Returns the value of a header, whose name is compared without regard to case; `None` if it is missing.
    pub fn find_header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

fn deserialize_json_text<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Value, D::Error> {
    let text = String::deserialize(reader)?;
    serde_json::from_str(&text).map_err(serde::de::Error::custom)
}
