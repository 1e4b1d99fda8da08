//! The port of replay: sending dead letters again, alone and in batches, and discarding them.
//!
//! A dead letter has one status at a time, so if two people act on it concurrently, one succeeds, and the
//! other learns who succeeded and with which result. A replay is kept until it has a result: a crash or a
//! lost broker only causes it to be sent again, and the inbox deduplicates.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::cancel::Attribution;
use retro_core::canonical::sha256_hex;
use retro_core::dead_letter::Code;
use retro_core::id::{DeadLetterId, ReplayBatchId, ReplayId, Tenant};
use retro_core::replay::{
    BatchAction, BatchProgress, ORIGINAL_ID_HEADER, REPLAY_HEADER, ReplayOutcome, ReplayPace,
};
use serde::{Deserialize, Serialize};

use crate::cancel::DecideReopen;
use crate::{DeadLetterStatus, MessageContent, NewDeadLetter, Result};

/// A stored replay of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayRow {
    /// Id of the replay, which is also the message id at the broker.
    pub id: ReplayId,
    /// Dead letter that is replayed.
    pub letter: DeadLetterId,
    /// 1-based replay number of this dead letter.
    pub number: u32,
    /// Version that is sent; 0 is the dead letter as received.
    pub version: u32,
    /// Batch that the replay belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<ReplayBatchId>,
    /// Person, reason and time.
    #[serde(flatten)]
    pub act: Attribution,
    /// State of the replay.
    pub state: ReplayState,
    /// Time before which it is not sent, by the database's clock.
    pub due_at: Timestamp,
    /// Number of times it was sent to the broker.
    pub sendings: u32,
    /// Time at which the replay ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Outcome of the replay, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ReplayOutcome>,
}

/// State of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayState {
    /// The message was not sent yet.
    Waiting,
    /// The message was sent and has no result yet.
    Sent,
    /// The message was handled, now or before.
    Handled,
    /// The replay failed: the message was rejected again, or the broker did not accept it.
    Failed,
}

/// Outcome of requesting a replay.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestReplayResult {
    /// The replay waits for the relay.
    Scheduled(ReplayRow),
    /// An earlier replay is under way or was handled. Nothing changed.
    AlreadyRequested(ReplayRow),
    /// The dead letter records a failed retrospective, which must be reopened instead: see
    /// [`crate::CancelStore::reopen_retrospective`].
    ReopenInstead,
    /// The dead letter has no such version.
    UnknownVersion,
    /// The tenant has no such dead letter.
    NotFound,
}

/// Outcome of discarding a dead letter.
#[derive(Debug, Clone, PartialEq)]
pub enum DiscardResult {
    /// The dead letter was discarded.
    Discarded,
    /// The dead letter was discarded before. Nothing changed.
    AlreadyDiscarded(Attribution),
    /// A replay is under way or was handled. Nothing changed.
    Replayed(ReplayRow),
    /// An earlier replay opened the next retrospective. Nothing changed.
    Reopened,
    /// The tenant has no such dead letter.
    NotFound,
}

/// A replayed message as it is sent to the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingReplay {
    /// Id of the replay, used as the message id at the broker.
    pub id: ReplayId,
    /// Subject of the original message.
    pub subject: String,
    /// Original headers without the broker's own, plus two that mark the replay.
    pub headers: Vec<(String, String)>,
    /// Payload bytes.
    pub payload: Vec<u8>,
}

impl OutgoingReplay {
    /// Creates the message that replays a dead letter with the given content.
    pub fn from_dead_letter(id: ReplayId, letter: &NewDeadLetter, content: MessageContent) -> Self {
        let MessageContent { headers, payload } = content;
        let original = letter.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("Nats-Msg-Id"));
        let mut headers = sender_headers(&headers);
        headers.push((REPLAY_HEADER.to_owned(), id.to_string()));
        // The original message id moves to another header, because `Nats-Msg-Id` carries the id of the replay.
        headers.extend(original.map(|(_, value)| (ORIGINAL_ID_HEADER.to_owned(), value.clone())));
        Self { id, subject: letter.subject.clone(), headers, payload }
    }
}

impl From<&NewDeadLetter> for MessageContent {
    /// Returns the dead letter as received, which is its version 0.
    fn from(letter: &NewDeadLetter) -> Self {
        Self { headers: letter.headers.clone(), payload: letter.payload.clone() }
    }
}

/// Returns the headers of the original sender, without the broker's and our own.
fn sender_headers(headers: &[(String, String)]) -> Vec<(String, String)> {
    let foreign = |name: &str| {
        // `get` returns `None` for a shorter name and within a multi-byte character, where slicing would
        // panic.
        let broker = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("nats-"));
        !broker && ![REPLAY_HEADER, ORIGINAL_ID_HEADER].iter().any(|ours| name.eq_ignore_ascii_case(ours))
    };
    headers.iter().filter(|(name, _)| foreign(name)).cloned().collect()
}

/// A received message that claims to be a replay. Anyone who may publish can claim that. The claim is
/// accepted only if that replay is under way and the message equals the sent one byte for byte; then it does
/// not matter who sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingReplay {
    /// Id of the claimed replay.
    pub id: ReplayId,
    /// Consumer that received the message.
    consumer: String,
    subject: String,
    /// Headers of the original sender, sorted by name.
    headers: Vec<(String, String)>,
    payload_sha256: String,
}

impl IncomingReplay {
    /// Reads the replay headers of a delivered message; returns `None` when it names no replay.
    pub fn from_message(
        consumer: &str,
        subject: &str,
        headers: &[(String, String)],
        payload: &[u8],
    ) -> Option<Self> {
        let named = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(REPLAY_HEADER))?;
        Some(Self {
            id: named.1.parse().ok()?,
            consumer: consumer.to_owned(),
            subject: subject.to_owned(),
            headers: sort_headers(sender_headers(headers)),
            payload_sha256: sha256_hex(payload),
        })
    }

    /// Reads the replay headers of a message about to become a dead letter; returns `None` when it names no
    /// replay.
    pub fn from_dead_letter(letter: &NewDeadLetter) -> Option<Self> {
        Self::from_message(&letter.position.consumer, &letter.subject, &letter.headers, &letter.payload)
    }

    /// Returns `true` when the message equals the one sent for this dead letter, to the consumer that had
    /// rejected it.
    pub fn matches_sent(&self, letter: &NewDeadLetter, sent: &MessageContent) -> bool {
        self.consumer == letter.position.consumer
            && self.subject == letter.subject
            && self.payload_sha256 == sha256_hex(&sent.payload)
            && self.headers == sort_headers(sender_headers(&sent.headers))
    }
}

/// Lowercases and sorts the headers, because the broker's client neither preserves their order nor normalises their
/// case.
fn sort_headers(mut headers: Vec<(String, String)>) -> Vec<(String, String)> {
    headers.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
    headers.sort();
    headers
}

/// A requested batch of replays.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReplayBatch {
    /// Filter by which the dead letters were chosen, as text for people.
    pub filter_text: String,
    /// Dead letters in replay order, each with its status when it was chosen.
    pub dead_letters: Vec<(DeadLetterId, DeadLetterStatus)>,
    /// Pace of the batch.
    pub pace: ReplayPace,
    /// Person, reason and time.
    pub act: Attribution,
}

impl NewReplayBatch {
    /// Returns the id, derived from the whole request, so that the same request is stored as one batch.
    pub fn id(&self, tenant: &Tenant) -> ReplayBatchId {
        ReplayBatchId::of_dead_letters(tenant, &self.act, self.dead_letters.iter().map(|(letter, _)| letter))
    }
}

/// A stored batch of replays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayBatchRow {
    /// Id of the batch.
    pub id: ReplayBatchId,
    /// Filter by which the dead letters were chosen, as text for people.
    pub asked: String,
    /// Person, reason and time.
    #[serde(flatten)]
    pub act: Attribution,
    /// Pace of the batch.
    pub pace: ReplayPace,
    /// State of the batch.
    pub state: ReplayBatchState,
    /// Progress of the batch.
    pub progress: BatchProgress,
    /// Time of the request, by the database's clock.
    pub created_at: Timestamp,
    /// Time at which the batch ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Reason why the batch ended, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// State of a batch of replays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayBatchState {
    /// The first few replays are under way, to test the rest.
    Canary,
    /// The remaining dead letters are being replayed.
    Running,
    /// The batch starts no more replays.
    Stopped,
    /// Every replay has ended.
    Done,
}

impl ReplayBatchState {
    /// Returns the word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Canary => "canary",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Done => "done",
        }
    }

    /// Returns `true` while the batch starts replays.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Canary | Self::Running)
    }
}

/// A dead letter of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayBatchItem {
    /// Place in the batch, from 1.
    pub place: u32,
    /// Dead letter that is replayed.
    pub letter: DeadLetterId,
    /// State within the batch: waiting, under_way, handled, failed or skipped.
    pub state: String,
    /// Result as text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

/// Outcome of cancelling a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum CancelBatchResult {
    /// The batch was cancelled. Replays under way continue.
    Cancelled(ReplayBatchRow),
    /// The batch had ended before. Nothing changed.
    AlreadyEnded(ReplayBatchRow),
    /// The tenant has no such batch.
    NotFound,
}

/// Decides the next action of a batch from its pace, its progress, the time at which its next replay is due, and the
/// present time.
pub type DecideBatchStep<'a> =
    &'a (dyn Fn(&ReplayPace, &BatchProgress, Timestamp, Timestamp) -> BatchAction + Send + Sync);

/// Replays and discards dead letters.
#[async_trait]
pub trait ReplayStore: Send + Sync {
    /// Requests a replay in one transaction. If the dead letter is open or discarded, marks it as replaying,
    /// stores the message for the relay, due after everything that already waits, and records the audit row.
    /// `version` selects the content; `None` selects the newest version.
    async fn replay_dead_letter(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        version: Option<u32>,
        act: &Attribution,
    ) -> Result<RequestReplayResult>;

    /// Returns the number and content of the version that a replay would send, without the headers that mark a
    /// replay. Version 0 is the dead letter as received; `None` selects the newest. Returns `None` when there is
    /// no such dead letter or version.
    async fn find_replay_content(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        version: Option<u32>,
    ) -> Result<Option<(u32, MessageContent)>>;

    /// Discards those of the given dead letters that are open, each with an audit row, in one transaction. Returns
    /// one result per dead letter, in order.
    async fn discard_dead_letters(
        &self,
        tenant: &Tenant,
        letters: &[DeadLetterId],
        act: &Attribution,
    ) -> Result<Vec<DiscardResult>>;

    /// Returns due replays, the longest due first: those never sent, and those sent so long ago without a result
    /// that the broker must have lost them. That time starts at `lost_after_s` seconds and doubles with each
    /// sending.
    async fn list_due_replays(&self, limit: u32, lost_after_s: u64) -> Result<Vec<OutgoingReplay>>;

    /// Marks a replay as sent once more, unless it has ended meanwhile.
    async fn mark_replay_sent(&self, id: ReplayId) -> Result<()>;

    /// Ends a replay that the broker does not accept, so that the dead letter is open again. Does nothing when the
    /// replay had ended.
    async fn refuse_replay(&self, id: ReplayId, problem: &str) -> Result<()>;

    /// Stores a batch with its dead letters, or finds it stored. Ids of other tenants are ignored.
    async fn start_replay_batch(&self, tenant: &Tenant, batch: &NewReplayBatch) -> Result<ReplayBatchId>;

    /// Returns the batches of all tenants that start replays, the oldest first.
    async fn list_open_batches(&self) -> Result<Vec<ReplayBatchId>>;

    /// Advances a batch in one transaction under its lock: calls `next` and performs the action that it
    /// returns. A dead letter whose status has changed since it was chosen is skipped. A dead letter that
    /// records a failed retrospective is reopened as `reopen` decides. Returns the action taken; `None` when
    /// the batch has ended or does not exist.
    async fn step_replay_batch(
        &self,
        id: ReplayBatchId,
        next: DecideBatchStep<'_>,
        reopen: DecideReopen<'_>,
    ) -> Result<Option<BatchAction>>;

    /// Cancels a batch.
    async fn cancel_replay_batch(
        &self,
        tenant: &Tenant,
        id: ReplayBatchId,
        act: &Attribution,
    ) -> Result<CancelBatchResult>;

    /// Returns the tenant's batches, the newest first.
    async fn list_replay_batches(&self, tenant: &Tenant, limit: u32) -> Result<Vec<ReplayBatchRow>>;

    /// Returns a batch with at most `limit` of its dead letters; those with a result come first.
    async fn find_replay_batch(
        &self,
        tenant: &Tenant,
        id: ReplayBatchId,
        limit: u32,
    ) -> Result<Option<(ReplayBatchRow, Vec<ReplayBatchItem>)>>;
}

/// Returns `true` when replaying a dead letter with this code reopens a retrospective instead of sending the message
/// again.
pub const fn is_reopenable(code: Code) -> bool {
    matches!(code, Code::RetrospectiveFailed)
}
