//! Port of replays, which send dead letters again, singly or in batches, and of discarding dead letters.
//!
//! A dead letter has one status at a time. So if two people act on it concurrently, one succeeds, and the other learns
//! who succeeded and with which result. A replay is kept until it has a result. A crash or a lost broker only causes it
//! to be sent again, and the inbox recognises duplicates.

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
    /// Id of the replay, which the broker also gets as the message id.
    pub id: ReplayId,
    /// Id of the dead letter that is replayed.
    pub letter: DeadLetterId,
    /// Number of the replay among those of the dead letter, from 1.
    pub number: u32,
    /// Version of the dead letter that is sent; 0 is the dead letter as received.
    pub version: u32,
    /// Batch to which the replay belongs; `None` when it was requested singly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<ReplayBatchId>,
    /// Person who requested the replay, with reason and time.
    #[serde(flatten)]
    pub act: Attribution,
    /// State of the replay, such as waiting or sent.
    pub state: ReplayState,
    /// Time before which the replay is not sent, by the database's clock.
    pub due_at: Timestamp,
    /// Number of times that the replay was sent to the broker.
    pub sendings: u32,
    /// Time at which the replay ended, by the database's clock; `None` until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Outcome of the replay; `None` until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ReplayOutcome>,
}

/// State of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayState {
    /// The message has not been sent yet.
    Waiting,
    /// The message was sent, and the replay has no result yet.
    Sent,
    /// The message was handled, either by this replay or before it.
    Handled,
    /// The message was rejected again, or the broker did not accept it.
    Failed,
}

/// Outcome of requesting a replay.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestReplayResult {
    /// The replay was scheduled and waits for the relay to send it. Holds the replay.
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
    /// The dead letter is now discarded.
    Discarded,
    /// The dead letter had already been discarded. Nothing changed.
    AlreadyDiscarded(Attribution),
    /// A replay of the dead letter is under way or was handled. Nothing changed.
    Replayed(ReplayRow),
    /// The dead letter records a failed retrospective, and an earlier replay opened the next one. Nothing changed.
    Reopened,
    /// The tenant has no such dead letter.
    NotFound,
}

/// A replayed message in the form in which it is sent to the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingReplay {
    /// Id of the replay, which is used as the message id at the broker.
    pub id: ReplayId,
    /// Subject of the original message.
    pub subject: String,
    /// Headers of the original message without those that the broker added, and two headers that mark the replay.
    pub headers: Vec<(String, String)>,
    /// Payload of the replayed version.
    pub payload: Vec<u8>,
}

impl OutgoingReplay {
    /// Creates the message that replays a dead letter with the given headers and payload.
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
    /// Returns the content of the dead letter as received, which is its version 0.
    fn from(letter: &NewDeadLetter) -> Self {
        Self { headers: letter.headers.clone(), payload: letter.payload.clone() }
    }
}

/// Returns the headers that the original sender set, without those of the broker and those that mark a replay.
fn sender_headers(headers: &[(String, String)]) -> Vec<(String, String)> {
    let foreign = |name: &str| {
        // `get` returns `None` for a shorter name and within a multi-byte character, where slicing would
        // panic.
        let broker = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("nats-"));
        !broker && ![REPLAY_HEADER, ORIGINAL_ID_HEADER].iter().any(|ours| name.eq_ignore_ascii_case(ours))
    };
    headers.iter().filter(|(name, _)| foreign(name)).cloned().collect()
}

/// A received message that claims to be a replay. Anyone who may publish can make this claim. It is accepted only if
/// the replay is under way and the message equals the sent one byte for byte. Then it does not matter who sent the
/// message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingReplay {
    /// Id of the replay that the message claims to be.
    pub id: ReplayId,
    /// Name of the consumer that received the message.
    consumer: String,
    subject: String,
    /// Headers that the original sender set, in lower case and sorted.
    headers: Vec<(String, String)>,
    payload_sha256: String,
}

impl IncomingReplay {
    /// Reads the replay headers of a delivered message. Returns `None` when they name no replay.
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

    /// Reads the replay headers of a message that is about to become a dead letter. Returns `None` when they name no
    /// replay.
    pub fn from_dead_letter(letter: &NewDeadLetter) -> Option<Self> {
        Self::from_message(&letter.position.consumer, &letter.subject, &letter.headers, &letter.payload)
    }

    /// Returns `true` when the message equals the replay of this dead letter as it was sent, and was received by the
    /// consumer that had rejected the dead letter.
    pub fn matches_sent(&self, letter: &NewDeadLetter, sent: &MessageContent) -> bool {
        self.consumer == letter.position.consumer
            && self.subject == letter.subject
            && self.payload_sha256 == sha256_hex(&sent.payload)
            && self.headers == sort_headers(sender_headers(&sent.headers))
    }
}

/// Converts header names to lower case and sorts the headers, because the broker's client preserves neither their order
/// nor their case.
fn sort_headers(mut headers: Vec<(String, String)>) -> Vec<(String, String)> {
    headers.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
    headers.sort();
    headers
}

/// A batch of replays to be stored, as a person requested it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReplayBatch {
    /// Filter that selected the dead letters, as text for people.
    pub filter_text: String,
    /// Dead letters in the order in which they are replayed, each with its status at the time of the request.
    pub dead_letters: Vec<(DeadLetterId, DeadLetterStatus)>,
    /// Speed of the batch, the number of replays to try first, and the tolerated share of failures.
    pub pace: ReplayPace,
    /// Person who requested the batch, with reason and time.
    pub act: Attribution,
}

impl NewReplayBatch {
    /// Returns the id of the batch, derived from person, reason, time and dead letters, so that the same request is
    /// stored as one batch.
    pub fn id(&self, tenant: &Tenant) -> ReplayBatchId {
        ReplayBatchId::of_dead_letters(tenant, &self.act, self.dead_letters.iter().map(|(letter, _)| letter))
    }
}

/// A stored batch of replays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayBatchRow {
    /// Id of the batch.
    pub id: ReplayBatchId,
    /// Filter that selected the dead letters, as text for people.
    pub asked: String,
    /// Person who requested the batch, with reason and time.
    #[serde(flatten)]
    pub act: Attribution,
    /// Speed of the batch, the number of replays to try first, and the tolerated share of failures.
    pub pace: ReplayPace,
    /// State of the batch, such as running or done.
    pub state: ReplayBatchState,
    /// Number of dead letters of the batch in each state.
    pub progress: BatchProgress,
    /// Time at which the batch was stored, by the database's clock.
    pub created_at: Timestamp,
    /// Time at which the batch ended, by the database's clock; `None` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Reason why the batch ended, in one sentence; `None` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// State of a batch of replays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayBatchState {
    /// The first few dead letters are being replayed. The rest is replayed only if they succeed.
    Canary,
    /// The remaining dead letters are being replayed.
    Running,
    /// The batch starts no more replays, because it was cancelled or too many replays failed.
    Stopped,
    /// Every dead letter of the batch has a final result.
    Done,
}

impl ReplayBatchState {
    /// Returns the name of the state, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Canary => "canary",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Done => "done",
        }
    }

    /// Returns `true` while the batch may start more replays.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Canary | Self::Running)
    }
}

/// A dead letter as part of a batch of replays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayBatchItem {
    /// Place of the dead letter in the batch, from 1.
    pub place: u32,
    /// Id of the dead letter that is replayed.
    pub letter: DeadLetterId,
    /// State of the dead letter within the batch: `waiting`, `under_way`, `handled`, `failed` or `skipped`.
    pub state: String,
    /// Result of the replay as text for people; `None` when there is none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

/// Outcome of cancelling a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum CancelBatchResult {
    /// The batch was cancelled. Replays that are under way continue.
    Cancelled(ReplayBatchRow),
    /// The batch had already ended. Nothing changed.
    AlreadyEnded(ReplayBatchRow),
    /// The tenant has no such batch.
    NotFound,
}

/// Decides the next action of a batch from its pace, its progress, the time at which its next replay is due, and the
/// current time.
pub type DecideBatchStep<'a> =
    &'a (dyn Fn(&ReplayPace, &BatchProgress, Timestamp, Timestamp) -> BatchAction + Send + Sync);

/// Replays and discards dead letters, singly and in batches.
#[async_trait]
pub trait ReplayStore: Send + Sync {
    /// Requests a replay in one transaction. If the dead letter is open or discarded, marks it as replaying, stores the
    /// message for the relay, and records the audit row. The message becomes due after all replays that already wait.
    /// `version` selects the content; `None` selects the newest version.
    async fn replay_dead_letter(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        version: Option<u32>,
        act: &Attribution,
    ) -> Result<RequestReplayResult>;

    /// Returns the number and content of the version that a replay would send, without the headers that mark a replay.
    /// `version` selects it: 0 is the dead letter as received, and `None` selects the newest. Returns `None` when there
    /// is no such dead letter or version.
    async fn find_replay_content(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        version: Option<u32>,
    ) -> Result<Option<(u32, MessageContent)>>;

    /// Discards those of the given dead letters that are open, and records an audit row for each, in one transaction.
    /// Returns one result per dead letter, in order.
    async fn discard_dead_letters(
        &self,
        tenant: &Tenant,
        letters: &[DeadLetterId],
        act: &Attribution,
    ) -> Result<Vec<DiscardResult>>;

    /// Returns due replays, those that have been due longest first. A replay is due if it was never sent, or was sent
    /// so long ago without a result that the broker must have lost it. This time is `lost_after_s` seconds at first and
    /// doubles each time the replay is sent.
    async fn list_due_replays(&self, limit: u32, lost_after_s: u64) -> Result<Vec<OutgoingReplay>>;

    /// Records that a replay was sent once more, unless it has ended in the meantime.
    async fn mark_replay_sent(&self, id: ReplayId) -> Result<()>;

    /// Ends a replay that the broker did not accept, so that the dead letter is open again. Does nothing when the
    /// replay has already ended.
    async fn refuse_replay(&self, id: ReplayId, problem: &str) -> Result<()>;

    /// Stores a batch with its dead letters, or returns the stored batch if the request was made before. Ids of other
    /// tenants' dead letters are ignored.
    async fn start_replay_batch(&self, tenant: &Tenant, batch: &NewReplayBatch) -> Result<ReplayBatchId>;

    /// Returns the open batches of all tenants. The oldest batch comes first.
    async fn list_open_batches(&self) -> Result<Vec<ReplayBatchId>>;

    /// Advances a batch in one transaction under the lock of the batch: calls `next` and performs the action that it
    /// returns. A dead letter whose status has changed since it was selected is skipped. A dead letter that records a
    /// failed retrospective is reopened as `reopen` decides. Returns the action; `None` when the batch has ended or
    /// does not exist.
    async fn step_replay_batch(
        &self,
        id: ReplayBatchId,
        next: DecideBatchStep<'_>,
        reopen: DecideReopen<'_>,
    ) -> Result<Option<BatchAction>>;

    /// Cancels a batch, so that it starts no more replays. Records the person, reason and time.
    async fn cancel_replay_batch(
        &self,
        tenant: &Tenant,
        id: ReplayBatchId,
        act: &Attribution,
    ) -> Result<CancelBatchResult>;

    /// Returns the tenant's batches of replays. The newest batch comes first.
    async fn list_replay_batches(&self, tenant: &Tenant, limit: u32) -> Result<Vec<ReplayBatchRow>>;

    /// Returns a batch and at most `limit` of its dead letters, of which those with a result come first. Returns `None`
    /// when the tenant has no such batch.
    async fn find_replay_batch(
        &self,
        tenant: &Tenant,
        id: ReplayBatchId,
        limit: u32,
    ) -> Result<Option<(ReplayBatchRow, Vec<ReplayBatchItem>)>>;
}

/// Returns `true` when a dead letter with this code records a failed retrospective, so that replaying it reopens the
/// retrospective instead of sending a message.
pub const fn is_reopenable(code: Code) -> bool {
    matches!(code, Code::RetrospectiveFailed)
}
