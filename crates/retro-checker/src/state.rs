//! Contents of database and broker at one moment, as plain rows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Contents of database and broker.
///
/// The broker is read before the database. So the effects of every acknowledged message are in the database,
/// or are permanently missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct State {
    /// Contents of the broker.
    pub broker: Broker,
    /// Rows of `workflows`.
    pub workflows: Vec<Workflow>,
    /// Handled events whose details are kept.
    pub inbox: Vec<InboxRow>,
    /// Number of handled events for which only a digest is kept.
    pub digests: u64,
    /// Rows of `runs`.
    pub runs: Vec<Run>,
    /// Automatic and manual retrospectives.
    pub retrospectives: Vec<Retrospective>,
    /// Rows of `investigations`.
    pub investigations: Vec<Investigation>,
    /// Journalled stages of investigations.
    pub journal: Vec<JournalEntry>,
    /// Changes by the writer, in order.
    pub changes: Vec<Change>,
    /// Memories as stored.
    pub memories: Vec<Memory>,
    /// Tenant and memory of each tombstone.
    pub tombstones: Vec<(String, String)>,
    /// Messages that the program sends.
    pub outbox: Vec<OutboxRow>,
    /// Attempts at messages.
    pub attempts: Vec<Attempt>,
    /// Rows of `dead_letters`.
    pub letters: Vec<DeadLetter>,
    /// Rows of `acts`: operator actions.
    pub acts: Vec<AuditEntry>,
    /// Rows of `letter_acts`: operator actions on dead letters.
    pub deeds: Vec<DeadLetterAuditEntry>,
    /// Replays of dead letters.
    pub replays: Vec<Replay>,
}

/// A row of `workflows`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workflow {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Workflow name.
    pub workflow: String,
    /// Number of stored runs.
    pub recorded: u64,
    /// Last ordinal assigned.
    pub counted: u64,
    /// Last ordinal claimed.
    pub claimed: u64,
    /// Last epoch used.
    pub epoch: i64,
    /// True while a retrospective is open.
    pub open: bool,
    /// Number of handled events.
    pub events: u64,
    /// True while no retrospective opens, after a failed one.
    pub paused: bool,
}

/// A row of `inbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxRow {
    /// Consumer that handled the event.
    pub consumer: String,
    /// Tenant that owns the row.
    pub tenant: String,
    /// CloudEvents source.
    pub source: String,
    /// CloudEvents id.
    pub event_id: String,
    /// SHA-256 of the event's data.
    pub content_hash: String,
}

/// A row of `runs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Workflow of the run.
    pub workflow: String,
    /// Run id given by the emitter.
    pub run_id: String,
    /// Number in order of arrival.
    pub number: u64,
    /// Number among the counted runs; `None` when the run is not counted.
    pub ordinal: Option<u64>,
}

/// A row of `retrospectives`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retrospective {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Retrospective id.
    pub id: String,
    /// Workflow of the retrospective.
    pub workflow: String,
    /// Epoch, from 1; negative for a manual retrospective.
    pub epoch: i64,
    /// First ordinal of the window.
    pub first_ordinal: u64,
    /// Last ordinal of the window.
    pub last_ordinal: u64,
    /// Moment at which the policy is evaluated.
    pub as_of: String,
    /// State: `due`, `investigating`, `settling`, `closed`, `failed` or `cancelled`.
    pub state: String,
    /// Seed, order and size of the sample; `None` until it is drawn.
    pub sample: Option<String>,
    /// True when a person requested it.
    pub manual: bool,
}

/// A row of `investigations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Investigation {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Retrospective id.
    pub retrospective: String,
    /// Position in the sequence.
    pub number: u64,
    /// Investigated run.
    pub run_id: String,
    /// Current fencing token.
    pub token: u64,
    /// Fencing token of the claim that ended it; `None` while it is open.
    pub ended_token: Option<u64>,
    /// Number of claims, without released ones.
    pub attempts: u64,
    /// True when it has ended.
    pub ended: bool,
    /// Stored result.
    pub result: Option<String>,
}

/// A row of `journal`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Retrospective id.
    pub retrospective: String,
    /// Position of the investigation in the sequence.
    pub number: u64,
    /// Stage: `briefed` or `answered`.
    pub stage: String,
    /// Fencing token of the claim that wrote the entry.
    pub token: u64,
}

/// A row of `changes`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Global sequence number.
    pub sequence: u64,
    /// Tenant that owns the row.
    pub tenant: String,
    /// Change id.
    pub id: String,
    /// Workflow of the memory.
    pub workflow: String,
    /// Memory id.
    pub memory: String,
    /// Kind of change.
    pub kind: String,
    /// Kind of cause.
    pub cause: String,
    /// Id of the cause.
    pub cause_id: String,
    /// The full change.
    #[serde(deserialize_with = "deserialize_json_text")]
    pub change: Value,
}

/// A row of `memories`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Memory id.
    pub id: String,
    /// Status column, a copy for queries.
    pub status: String,
    /// Weight column in thousandths, a copy for queries.
    pub weight: i64,
    /// The full memory.
    #[serde(deserialize_with = "deserialize_json_text")]
    pub memory: Value,
}

/// A row of `outbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxRow {
    /// Message id, also its id at the broker.
    pub id: String,
    /// Kind of notice.
    pub kind: String,
    /// Workflow of the notice.
    pub workflow: String,
    /// True when the relay has marked it as sent.
    pub sent: bool,
}

/// A row of `attempts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Consumer that attempts the message.
    pub consumer: String,
    /// Stream of the message.
    pub stream: String,
    /// Sequence in the stream.
    pub sequence: u64,
    /// Number of attempts.
    pub attempts: u64,
}

/// A row of `dead_letters`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Dead-letter id.
    pub id: String,
    /// Consumer that gave up.
    pub consumer: String,
    /// Stream of the message.
    pub stream: String,
    /// Sequence in the stream.
    pub sequence: u64,
    /// Subject of the message.
    pub subject: String,
    /// Payload, hex.
    pub payload_hex: String,
    /// Stored SHA-256 of the payload.
    pub payload_sha256: String,
    /// Dead-letter code.
    pub code: String,
    /// Number of attempts used up.
    pub attempts: u64,
    /// Status: `open`, `replaying`, `handled`, `discarded` or `replayed`.
    pub status: String,
}

/// A row of `acts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Tenant that owns the row.
    pub tenant: String,
    /// Action: `cancelled`, `replayed`, …
    pub deed: String,
    /// Id of the object that was acted on.
    pub subject: String,
    /// Retrospective that the action opened.
    pub opened: Option<String>,
}

/// A row of `letter_acts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetterAuditEntry {
    /// Global sequence number.
    pub sequence: u64,
    /// Tenant that owns the row.
    pub tenant: String,
    /// Action: `replayed`, `edited`, `read_raw`, …
    pub deed: String,
    /// Dead letter or batch.
    pub subject: String,
    /// Operator who acted.
    pub asked_by: String,
    /// Reason given by the operator.
    pub reason: String,
}

/// A row of `replays`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// Replay id.
    pub id: String,
    /// Dead-letter id.
    pub letter: String,
    /// 1-based replay number of this dead letter.
    pub number: u64,
    /// State: `waiting`, `sent`, `handled` or `failed`.
    pub state: String,
}

/// Contents of the broker; empty when it could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Broker {
    /// Streams of the broker.
    pub streams: Vec<Stream>,
}

/// A stream with its messages and consumers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stream {
    /// Stream name.
    pub name: String,
    /// Last sequence assigned.
    pub last_sequence: u64,
    /// Stored messages.
    pub messages: Vec<StoredMessage>,
    /// Consumers of the stream.
    pub consumers: Vec<Consumer>,
}

/// A message stored in a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StoredMessage {
    /// Sequence in the stream.
    pub sequence: u64,
    /// Subject of the message.
    pub subject: String,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// Payload bytes.
    pub payload: Vec<u8>,
}

/// A consumer of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Consumer {
    /// Consumer name.
    pub name: String,
    /// Highest sequence up to which every message is acknowledged.
    pub ack_floor: u64,
    /// Messages delivered and not acknowledged.
    pub ack_pending: u64,
    /// Messages not delivered yet.
    pub pending: u64,
}

impl Broker {
    /// Finds a stream by name.
    pub fn find_stream(&self, name: &str) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.name == name)
    }
}

impl Stream {
    /// Finds the message with this sequence.
    pub fn message_at(&self, sequence: u64) -> Option<&StoredMessage> {
        self.messages.iter().find(|message| message.sequence == sequence)
    }
}

impl StoredMessage {
    /// Finds a header, ignoring case.
    pub fn find_header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

fn deserialize_json_text<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Value, D::Error> {
    let text = String::deserialize(reader)?;
    serde_json::from_str(&text).map_err(serde::de::Error::custom)
}
