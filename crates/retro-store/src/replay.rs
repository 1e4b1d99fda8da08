//! The port of replay: sending dead letters again, alone and in batches, and putting them aside.
//!
//! A letter stands in one place at a time, so of two people who act on it at once one does, and the other is told whom
//! and what came of it. What is sent is kept until something came of it, so that a crash or a lost broker only sends it
//! again; the inbox makes once of it.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::canonical::sha256_hex;
use retro_core::dead_letter::Code;
use retro_core::id::{BatchId, DeadLetterId, ReplayId, Tenant};
use retro_core::replay::{Next, ORIGINAL_ID_HEADER, Outcome, Pace, Progress, REPLAY_HEADER};
use retro_core::steer::Act;
use serde::{Deserialize, Serialize};

use crate::steer::DecideReopen;
use crate::{Content, LetterStatus, NewDeadLetter, Result};

/// One sending of a letter, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayRow {
    /// Its id, which is the message's at the broker.
    pub id: ReplayId,
    /// The letter.
    pub letter: DeadLetterId,
    /// The how manieth of the letter, from 1.
    pub number: u32,
    /// Which of the letter's bytes; 0: as they came.
    pub version: u32,
    /// The batch that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchId>,
    /// Who, why and when.
    #[serde(flatten)]
    pub act: Act,
    /// How far it is.
    pub state: ReplayState,
    /// It is not sent before, by the database's clock.
    pub due_at: Timestamp,
    /// How often it went to the broker.
    pub sendings: u32,
    /// When something came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// How far a replay is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayState {
    /// It has not been sent.
    Waiting,
    /// It was sent, and nothing has come of it yet.
    Sent,
    /// It was handled, now or before.
    Handled,
    /// It was given up again.
    Failed,
}

/// What came of asking for a replay.
#[derive(Debug, Clone, PartialEq)]
pub enum Replayed {
    /// It waits for the relay now.
    Now(ReplayRow),
    /// It is under way or handled, asked for by somebody else or earlier: nothing changed.
    Before(ReplayRow),
    /// It tells of a failed retrospective, which is followed and not sent again: see [`crate::SteerStore::reopen`].
    OtherWay,
    /// The letter has no such version.
    NoVersion,
    /// The tenant has no such letter.
    Unknown,
}

/// What came of putting a letter aside.
#[derive(Debug, Clone, PartialEq)]
pub enum Discarded {
    /// It is put aside now.
    Now,
    /// It was put aside before: nothing changed.
    Before(Act),
    /// It is under way or handled: nothing changed.
    Replayed(ReplayRow),
    /// Its replay opened the next retrospective: nothing changed.
    Reopened,
    /// The tenant has no such letter.
    Unknown,
}

/// A message as it goes to the broker again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sending {
    /// The replay, and the message's id at the broker.
    pub id: ReplayId,
    /// The subject that it came by.
    pub subject: String,
    /// Its headers: those it came with, without the broker's own, and two that say what it is.
    pub headers: Vec<(String, String)>,
    /// The bytes.
    pub payload: Vec<u8>,
}

impl Sending {
    /// A letter as it is sent again, with its own content or that of a version.
    pub fn of(id: ReplayId, letter: &NewDeadLetter, content: Content) -> Self {
        let Content { headers, payload } = content;
        let original = letter.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("Nats-Msg-Id"));
        let mut headers = own_headers(&headers);
        headers.push((REPLAY_HEADER.to_owned(), id.to_string()));
        headers.extend(original.map(|(_, value)| (ORIGINAL_ID_HEADER.to_owned(), value.clone())));
        Self { id, subject: letter.subject.clone(), headers, payload }
    }
}

impl From<&NewDeadLetter> for Content {
    /// A letter as it came: its version 0.
    fn from(letter: &NewDeadLetter) -> Self {
        Self { headers: letter.headers.clone(), payload: letter.payload.clone() }
    }
}

/// Headers of whoever sent the message: neither the broker's nor ours.
fn own_headers(headers: &[(String, String)]) -> Vec<(String, String)> {
    let foreign = |name: &str| {
        let broker = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("nats-"));
        !broker && ![REPLAY_HEADER, ORIGINAL_ID_HEADER].iter().any(|ours| name.eq_ignore_ascii_case(ours))
    };
    headers.iter().filter(|(name, _)| foreign(name)).cloned().collect()
}

/// A message that says it is a replay. Anybody who may publish can say so; it is believed when that replay is under way
/// and this is, byte for byte, what was sent: then whoever sent it, it is the message that the letter holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resent {
    /// The replay that it says it is.
    pub id: ReplayId,
    /// Who handled it.
    consumer: String,
    subject: String,
    /// The sender's own headers, by name.
    headers: Vec<(String, String)>,
    payload_sha256: String,
}

impl Resent {
    /// A delivered message, if it names a replay.
    pub fn of(consumer: &str, subject: &str, headers: &[(String, String)], payload: &[u8]) -> Option<Self> {
        let named = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(REPLAY_HEADER))?;
        Some(Self {
            id: named.1.parse().ok()?,
            consumer: consumer.to_owned(),
            subject: subject.to_owned(),
            headers: sorted(own_headers(headers)),
            payload_sha256: sha256_hex(payload),
        })
    }

    /// A message that is given up, if it names a replay.
    pub fn of_letter(letter: &NewDeadLetter) -> Option<Self> {
        Self::of(&letter.position.consumer, &letter.subject, &letter.headers, &letter.payload)
    }

    /// Whether it is what was sent of this letter, to the consumer that gave it up.
    pub fn is(&self, letter: &NewDeadLetter, sent: &Content) -> bool {
        self.consumer == letter.position.consumer
            && self.subject == letter.subject
            && self.payload_sha256 == sha256_hex(&sent.payload)
            && self.headers == sorted(own_headers(&sent.headers))
    }
}

/// The broker's client keeps names in an order of its own, and a name in any case.
fn sorted(mut headers: Vec<(String, String)>) -> Vec<(String, String)> {
    headers.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
    headers.sort();
    headers
}

/// A batch that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct NewBatch {
    /// The filter as it was asked for, for people.
    pub asked: String,
    /// The letters and where each stood when it was chosen, in the order in which they go.
    pub letters: Vec<(DeadLetterId, LetterStatus)>,
    /// How it is to go.
    pub pace: Pace,
    /// Who, why and when.
    pub act: Act,
}

impl NewBatch {
    /// Derived from everything that is asked: the same request is one batch.
    pub fn id(&self, tenant: &Tenant) -> BatchId {
        BatchId::of(tenant, &self.act, self.letters.iter().map(|(letter, _)| letter))
    }
}

/// A batch as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchRow {
    /// Its id.
    pub id: BatchId,
    /// The filter as it was asked for.
    pub asked: String,
    /// Who, why and when.
    #[serde(flatten)]
    pub act: Act,
    /// How it is to go.
    pub pace: Pace,
    /// Where it stands.
    pub state: BatchState,
    /// How far it is.
    pub progress: Progress,
    /// When it was asked for, by the database's clock.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Why it ended, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Where a batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchState {
    /// Those that go first are under way.
    Canary,
    /// The rest goes.
    Running,
    /// It takes up no more letters.
    Stopped,
    /// Every letter has ended.
    Done,
}

impl BatchState {
    /// The word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Canary => "canary",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Done => "done",
        }
    }

    /// Whether it takes up letters.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Canary | Self::Running)
    }
}

/// A letter of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchLetter {
    /// Its place, from 1.
    pub place: u32,
    /// The letter.
    pub letter: DeadLetterId,
    /// Where it stands in the batch: waiting, under_way, handled, failed or skipped.
    pub state: String,
    /// What came of it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

/// What came of calling a batch off.
#[derive(Debug, Clone, PartialEq)]
pub enum BatchCancelled {
    /// It takes up no more letters; those under way go on.
    Now(BatchRow),
    /// It had ended before: nothing changed.
    Ended(BatchRow),
    /// The tenant has no such batch.
    Unknown,
}

/// Decides what is done about a batch: how it is to go, how far it is, when its next letter is due, and the moment.
pub type DecideNext<'a> = &'a (dyn Fn(&Pace, &Progress, Timestamp, Timestamp) -> Next + Send + Sync);

/// Replaying and discarding.
#[async_trait]
pub trait ReplayStore: Send + Sync {
    /// One transaction: if the letter is open or discarded, marks it as being replayed, stores what the relay is to send,
    /// due after everything that waits already, and the act. `version` says which bytes; without one the newest.
    async fn replay(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        version: Option<u32>,
        act: &Act,
    ) -> Result<Replayed>;

    /// What a replay of the tenant's letter would send, before the headers that say it is one: of a version, 0 as it came,
    /// or without one of the newest, which is told. `None` when there is no such letter or version.
    async fn content(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        version: Option<u32>,
    ) -> Result<Option<(u32, Content)>>;

    /// One transaction: puts every letter aside that is open, each with the act. Answers for each, in order.
    async fn discard(&self, tenant: &Tenant, letters: &[DeadLetterId], act: &Act) -> Result<Vec<Discarded>>;

    /// What is due to be sent, the longest due first: what was never sent, and what was sent so long ago without anything
    /// coming of it that the broker must have lost it. That time doubles with each sending.
    async fn due_replays(&self, limit: u32, lost_after_s: u64) -> Result<Vec<Sending>>;

    /// Marks a replay as sent once more, unless something came of it meanwhile.
    async fn mark_replay_sent(&self, id: ReplayId) -> Result<()>;

    /// Ends a replay that the broker does not take: the letter is open again. Nothing changes when it had ended.
    async fn refuse_replay(&self, id: ReplayId, problem: &str) -> Result<()>;

    /// Stores a batch with its letters, or finds it stored; ids that are not the tenant's are left out.
    async fn start_batch(&self, tenant: &Tenant, batch: &NewBatch) -> Result<BatchId>;

    /// Every batch that takes up letters, of every tenant, the oldest first.
    async fn open_batches(&self) -> Result<Vec<BatchId>>;

    /// One transaction under the lock of the batch: asks `next` and does what it says. A letter that stands elsewhere than
    /// when it was chosen is left alone; one of a failed retrospective is followed as `reopen` decides. Returns what was
    /// decided; `None` when the batch has ended or is not there.
    async fn step_batch(
        &self,
        id: BatchId,
        next: DecideNext<'_>,
        reopen: DecideReopen<'_>,
    ) -> Result<Option<Next>>;

    /// Calls a batch off.
    async fn cancel_batch(&self, tenant: &Tenant, id: BatchId, act: &Act) -> Result<BatchCancelled>;

    /// The tenant's batches, the newest first.
    async fn batches(&self, tenant: &Tenant, limit: u32) -> Result<Vec<BatchRow>>;

    /// One batch with its letters, at most `limit` of them, those first that something came of.
    async fn batch(
        &self,
        tenant: &Tenant,
        id: BatchId,
        limit: u32,
    ) -> Result<Option<(BatchRow, Vec<BatchLetter>)>>;
}

/// Whether a letter of this code is followed instead of sent again.
pub const fn is_followed(code: Code) -> bool {
    matches!(code, Code::RetrospectiveFailed)
}
