//! What database and broker hold at a moment, as plain rows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Database and broker at a moment. The broker is read first: what it holds as acknowledged is in the database already,
/// or will never be.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct State {
    /// What the broker holds.
    pub broker: Broker,
    /// Workflows.
    pub workflows: Vec<Workflow>,
    /// Events that were handled and whose details are kept.
    pub inbox: Vec<Known>,
    /// How many more are known by a digest alone.
    pub digests: u64,
    /// Runs.
    pub runs: Vec<Run>,
    /// Retrospectives, automatic and manual.
    pub retrospectives: Vec<Retrospective>,
    /// Investigations.
    pub investigations: Vec<Investigation>,
    /// What investigations journalled.
    pub journal: Vec<JournalEntry>,
    /// What the writer did, in order.
    pub changes: Vec<Change>,
    /// Memories as they are stored.
    pub memories: Vec<Memory>,
    /// Memories that left a tombstone.
    pub tombstones: Vec<(String, String)>,
    /// Messages of our own.
    pub outbox: Vec<Outgoing>,
    /// Attempts at messages.
    pub attempts: Vec<Attempt>,
    /// Dead letters.
    pub letters: Vec<Letter>,
    /// What people did.
    pub acts: Vec<Act>,
    /// What people did about letters.
    pub deeds: Vec<Deed>,
    /// Sendings of letters.
    pub replays: Vec<Replay>,
}

/// A row of `workflows`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workflow {
    /// The owner.
    pub tenant: String,
    /// Its name.
    pub workflow: String,
    /// Runs stored.
    pub recorded: u64,
    /// The last ordinal given.
    pub counted: u64,
    /// The last ordinal claimed.
    pub claimed: u64,
    /// The last epoch used.
    pub epoch: i64,
    /// Whether a retrospective is open.
    pub open: bool,
    /// Events handled.
    pub events: u64,
    /// Whether nothing opens for a time, after a failure.
    pub paused: bool,
}

/// A row of `inbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Who handled it.
    pub consumer: String,
    /// The owner.
    pub tenant: String,
    /// CloudEvents source.
    pub source: String,
    /// CloudEvents id.
    pub event_id: String,
    /// SHA-256 of its data.
    pub content_hash: String,
}

/// A row of `runs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The owner.
    pub tenant: String,
    /// Its workflow.
    pub workflow: String,
    /// The emitter's id.
    pub run_id: String,
    /// Its place of arrival.
    pub number: u64,
    /// Its place among the counted ones.
    pub ordinal: Option<u64>,
}

/// A row of `retrospectives`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retrospective {
    /// The owner.
    pub tenant: String,
    /// Its id.
    pub id: String,
    /// Its workflow.
    pub workflow: String,
    /// Its number, from 1; below 0 for one that a person asked for.
    pub epoch: i64,
    /// The window's first run.
    pub first_ordinal: u64,
    /// The window's last run.
    pub last_ordinal: u64,
    /// The policy moment.
    pub as_of: String,
    /// `due`, `investigating`, `settling`, `closed`, `failed` or `cancelled`.
    pub state: String,
    /// Seed, order and size; `None` until it is drawn.
    pub sample: Option<String>,
    /// Whether a person asked for it.
    pub manual: bool,
}

/// A row of `investigations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Investigation {
    /// The owner.
    pub tenant: String,
    /// Whose it is.
    pub retrospective: String,
    /// Its place in the sequence.
    pub number: u64,
    /// The run looked into.
    pub run_id: String,
    /// The fencing token as it stands.
    pub token: u64,
    /// The token of the claim that ended it; `None`: it has not ended.
    pub ended_token: Option<u64>,
    /// Claims, without those that were given back.
    pub attempts: u64,
    /// Whether it has ended.
    pub ended: bool,
    /// How it ended, as stored.
    pub result: Option<String>,
}

/// A row of `journal`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The owner.
    pub tenant: String,
    /// Whose.
    pub retrospective: String,
    /// Which investigation.
    pub number: u64,
    /// `briefed` or `answered`.
    pub stage: String,
    /// Of the claim that wrote it.
    pub token: u64,
}

/// A row of `changes`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The order over everything.
    pub sequence: u64,
    /// The owner.
    pub tenant: String,
    /// Its id.
    pub id: String,
    /// The workflow.
    pub workflow: String,
    /// The memory.
    pub memory: String,
    /// What was done.
    pub kind: String,
    /// What kind of cause.
    pub cause: String,
    /// Which.
    pub cause_id: String,
    /// The change, whole.
    #[serde(deserialize_with = "json_in_text")]
    pub change: Value,
}

/// A row of `memories`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The owner.
    pub tenant: String,
    /// Its id.
    pub id: String,
    /// The column that is selected by.
    pub status: String,
    /// The column that is selected by.
    pub weight: i64,
    /// The memory, whole.
    #[serde(deserialize_with = "json_in_text")]
    pub memory: Value,
}

/// A row of `outbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// Its id, under which the broker knows it.
    pub id: String,
    /// What it says.
    pub kind: String,
    /// The workflow.
    pub workflow: String,
    /// Whether the relay has marked it as sent.
    pub sent: bool,
}

/// A row of `attempts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Who attempts.
    pub consumer: String,
    /// The message's stream.
    pub stream: String,
    /// Its place there.
    pub sequence: u64,
    /// How often.
    pub attempts: u64,
}

/// A row of `dead_letters`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// Its id.
    pub id: String,
    /// Who gave up.
    pub consumer: String,
    /// The message's stream.
    pub stream: String,
    /// Its place there.
    pub sequence: u64,
    /// Its subject.
    pub subject: String,
    /// Its payload in hex.
    pub payload_hex: String,
    /// The hash that is kept beside it.
    pub payload_sha256: String,
    /// Why.
    pub code: String,
    /// Attempts spent.
    pub attempts: u64,
    /// What people did with it.
    pub status: String,
}

/// A row of `acts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// The owner.
    pub tenant: String,
    /// `cancelled`, `replayed`, …
    pub deed: String,
    /// What it was about.
    pub subject: String,
    /// The retrospective that it opened.
    pub opened: Option<String>,
}

/// A row of `letter_acts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deed {
    /// The order over everything.
    pub sequence: u64,
    /// The owner.
    pub tenant: String,
    /// `replayed`, `edited`, `read_raw`, …
    pub deed: String,
    /// The letter, or the batch.
    pub subject: String,
    /// Who.
    pub asked_by: String,
    /// Why.
    pub reason: String,
}

/// A row of `replays`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// Its id.
    pub id: String,
    /// The letter.
    pub letter: String,
    /// The how manieth of the letter.
    pub number: u64,
    /// `waiting`, `sent`, `handled` or `failed`.
    pub state: String,
}

/// What the broker holds. Empty while it is away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Broker {
    /// Its streams.
    pub streams: Vec<Stream>,
}

/// A stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// The last place that it gave.
    pub last_sequence: u64,
    /// What it stores.
    pub messages: Vec<Stored>,
    /// Who consumes it.
    pub consumers: Vec<Consumer>,
}

/// A message that a stream stores.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stored {
    /// Its place.
    pub sequence: u64,
    /// Its subject.
    pub subject: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// A consumer of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Consumer {
    /// Its name.
    pub name: String,
    /// Up to here everything is acknowledged.
    pub ack_floor: u64,
    /// Delivered and not acknowledged.
    pub ack_pending: u64,
    /// Not delivered.
    pub pending: u64,
}

impl Broker {
    /// A stream by its name.
    pub fn stream(&self, name: &str) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.name == name)
    }
}

impl Stream {
    /// The message at a place.
    pub fn at(&self, sequence: u64) -> Option<&Stored> {
        self.messages.iter().find(|message| message.sequence == sequence)
    }
}

impl Stored {
    /// The value of a header, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

fn json_in_text<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Value, D::Error> {
    let text = String::deserialize(reader)?;
    serde_json::from_str(&text).map_err(serde::de::Error::custom)
}
