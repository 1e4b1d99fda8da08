//! Storage port that replays dead letters, singly or in batches, and discards them.
//!
//! A dead letter has one status at a time: if two operators act on it concurrently, one succeeds, and the
//! other gets the result of the first. A replay is kept until it has a result, so a crash or a broker failure
//! only causes the message to be sent again, and the inbox recognises duplicates.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::attribution::Attribution;
use retro_core::canonical::sha256_hex;
use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::{DeadLetterId, ReplayBatchId, ReplayId, Tenant};
use retro_core::replay::{
    BatchAction, BatchProgress, ORIGINAL_ID_HEADER, REPLAY_HEADER, ReplayOutcome, ReplayPace,
};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::cancel::DecideReopen;
use crate::dead_letter::{DeadLetterStatus, MessageContent, NewDeadLetter};
use crate::result::Result;

/// A stored replay of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayRow {
    /// Id of the replay, also used as the broker's message id.
    pub id: ReplayId,
    /// Id of the replayed dead letter.
    pub dead_letter: DeadLetterId,
    /// 1-based replay number of this dead letter.
    pub number: u32,
    /// Replayed version of the dead letter; 0 is the dead letter as received.
    pub version: u32,
    /// Batch that requested the replay; `None` if it was requested singly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<ReplayBatchId>,
    /// Who requested the replay, when and why.
    #[serde(flatten)]
    pub act: Attribution,
    /// State of the replay: waiting, sent, handled or failed.
    pub state: ReplayState,
    /// Earliest time at which the replay is sent, by the database clock.
    pub due_at: Timestamp,
    /// Number of times the replay was published to the broker.
    pub publications: u32,
    /// Time at which the replay ended, by the database clock; `None` until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Outcome of the replay; `None` until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ReplayOutcome>,
}

/// State of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayState {
    /// The message has not been sent yet.
    Waiting,
    /// The message was sent and has no result yet.
    Sent,
    /// The message was handled, by this replay or earlier.
    Handled,
    /// The message was rejected again, or the broker did not accept it.
    Failed,
}

/// Outcome of requesting a replay.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestReplayResult {
    /// The replay was scheduled and waits for the relay.
    Scheduled(ReplayRow),
    /// An earlier replay is in progress or was handled. Nothing changed.
    AlreadyRequested(ReplayRow),
    /// The dead letter records a failed retrospective, which must be reopened instead with
    /// [`crate::CancelStore::reopen_retrospective`].
    ReopenInstead,
    /// The dead letter holds the spans of a trace, which are no message. Nothing changed.
    NoMessage,
    /// The dead letter has no such version.
    UnknownVersion,
    /// The tenant has no such dead letter.
    NotFound,
}

/// Outcome of discarding a dead letter.
#[derive(Debug, Clone, PartialEq)]
pub enum DiscardResult {
    /// The dead letter was open and is now discarded.
    Discarded,
    /// The dead letter had already been discarded. Nothing changed.
    AlreadyDiscarded(Attribution),
    /// A replay of the dead letter is in progress or was handled. Nothing changed.
    Replayed(ReplayRow),
    /// The dead letter records a failed retrospective, and an earlier replay opened the next one. Nothing
    /// changed.
    Reopened,
    /// The tenant has no such dead letter.
    NotFound,
}

/// Replayed message, ready to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingReplay {
    /// Id of the replay, also used as the broker's message id.
    pub id: ReplayId,
    /// Subject of the original message.
    pub subject: String,
    /// Headers of the original message without broker headers, plus the two headers that mark a replay.
    pub headers: Vec<(String, String)>,
    /// Payload of the replayed version.
    pub payload: Vec<u8>,
}

impl OutgoingReplay {
    /// Creates the message that replays `content` to the subject of the dead letter.
    pub fn from_dead_letter(id: ReplayId, dead_letter: &NewDeadLetter, content: MessageContent) -> Self {
        let MessageContent { headers, payload } = content;
        let original = dead_letter.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("Nats-Msg-Id"));
        let mut headers = sender_headers(&headers);
        headers.push((REPLAY_HEADER.to_owned(), id.to_string()));
        // The original message id moves to another header, because `Nats-Msg-Id` must be the replay id: with
        // the original one the broker would drop the replay as a duplicate.
        headers.extend(original.map(|(_, value)| (ORIGINAL_ID_HEADER.to_owned(), value.clone())));
        Self { id, subject: dead_letter.subject.clone(), headers, payload }
    }
}

impl From<&NewDeadLetter> for MessageContent {
    /// Copies the content of the dead letter as received (version 0).
    fn from(dead_letter: &NewDeadLetter) -> Self {
        Self { headers: dead_letter.headers.clone(), payload: dead_letter.payload.clone() }
    }
}

/// Returns the headers set by the original sender, without broker headers and replay marks.
fn sender_headers(headers: &[(String, String)]) -> Vec<(String, String)> {
    let foreign = |name: &str| {
        // `get` returns `None` for a short name and inside a multi-byte character, where slicing would panic.
        let broker = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("nats-"));
        !broker && ![REPLAY_HEADER, ORIGINAL_ID_HEADER].iter().any(|ours| name.eq_ignore_ascii_case(ours))
    };
    headers.iter().filter(|(name, _)| foreign(name)).cloned().collect()
}

/// Received message that claims to be a replay. Any publisher can make this claim, so it is accepted only if
/// the replay is in progress and the message is identical to the one sent; then the sender does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingReplay {
    /// Claimed replay id.
    pub id: ReplayId,
    /// Name of the consumer that received the message.
    consumer: String,
    subject: String,
    /// Headers set by the original sender, sorted, with names in lower case.
    headers: Vec<(String, String)>,
    payload_sha256: String,
}

impl IncomingReplay {
    /// Parses the replay header of a delivered message. Returns `None` if the header is missing or invalid.
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

    /// Parses the replay header of a message that is about to become a dead letter. Returns `None` if the
    /// header is missing or invalid.
    pub fn from_dead_letter(dead_letter: &NewDeadLetter) -> Option<Self> {
        Self::from_message(
            &dead_letter.position.consumer,
            &dead_letter.subject,
            &dead_letter.headers,
            &dead_letter.payload,
        )
    }

    /// Returns `true` if the message is identical to the replay of `dead_letter` as sent, and was received by
    /// the consumer that rejected the dead letter.
    pub fn matches_sent(&self, dead_letter: &NewDeadLetter, sent: &MessageContent) -> bool {
        self.consumer == dead_letter.position.consumer
            && self.subject == dead_letter.subject
            && self.payload_sha256 == sha256_hex(&sent.payload)
            && self.headers == sort_headers(sender_headers(&sent.headers))
    }
}

/// Lower-cases the header names and sorts the headers, because the broker's client preserves neither order
/// nor case.
fn sort_headers(mut headers: Vec<(String, String)>) -> Vec<(String, String)> {
    headers.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
    headers.sort();
    headers
}

/// Requested batch of replays, before it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReplayBatch {
    /// Human-readable filter that selected the dead letters.
    pub filter_text: String,
    /// Dead letters in replay order, each with its status at the time of the request.
    pub dead_letters: Vec<(DeadLetterId, DeadLetterStatus)>,
    /// Replay rate, canary size and tolerated share of failures.
    pub pace: ReplayPace,
    /// Who requested the batch, when and why.
    pub act: Attribution,
}

impl NewReplayBatch {
    /// Derives the id of the batch from attribution and dead letters, so a repeated request refers to the
    /// same batch.
    pub fn id(&self, tenant: &Tenant) -> ReplayBatchId {
        ReplayBatchId::of_dead_letters(
            tenant,
            &self.act,
            self.dead_letters.iter().map(|(dead_letter, _)| dead_letter),
        )
    }
}

/// A stored batch of replays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = Batch))]
pub struct ReplayBatchRow {
    /// Id of the batch.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub id: ReplayBatchId,
    /// Human-readable filter that selected the dead letters.
    pub filter_text: String,
    /// Who requested the batch, when and why.
    #[serde(flatten)]
    pub act: Attribution,
    /// Replay rate, canary size and tolerated share of failures.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub pace: ReplayPace,
    /// State of the batch: canary, running, stopped or done.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub state: ReplayBatchState,
    /// Number of dead letters of the batch in each state.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub progress: BatchProgress,
    /// Time at which the batch was stored, by the database clock.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub created_at: Timestamp,
    /// Time at which the batch ended, by the database clock; `None` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub ended_at: Option<Timestamp>,
    /// Human-readable reason why the batch ended; `None` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<String>,
}

/// State of a batch of replays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ReplayBatchState {
    /// The first few dead letters are being replayed. The rest follow only if these succeed.
    Canary,
    /// The remaining dead letters are being replayed.
    Running,
    /// The batch starts no more replays because it was cancelled or too many replays failed.
    Stopped,
    /// Every dead letter of the batch has a final result.
    Done,
}

impl ReplayBatchState {
    /// Returns the name of the state, used in the database and in output.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns `true` while the batch may start more replays.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Canary | Self::Running)
    }
}

/// A dead letter in a replay batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayBatchItem {
    /// 1-based position of the dead letter in the batch.
    pub position: u32,
    /// Id of the replayed dead letter.
    pub dead_letter: DeadLetterId,
    /// State within the batch: `waiting`, `under_way`, `handled`, `failed` or `skipped`.
    pub state: String,
    /// Human-readable progress or result; `None` while the dead letter is waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// Outcome of cancelling a replay batch.
#[derive(Debug, Clone, PartialEq)]
pub enum CancelBatchResult {
    /// The batch was cancelled. Replays in progress continue.
    Cancelled(ReplayBatchRow),
    /// The batch had already ended. Nothing changed.
    AlreadyEnded(ReplayBatchRow),
    /// The tenant has no such batch.
    NotFound,
}

/// Callback that decides the next action of a batch, from its pace, its progress, the due time of its next
/// replay and the current time.
pub type DecideBatchStep<'a> =
    &'a (dyn Fn(&ReplayPace, &BatchProgress, Timestamp, Timestamp) -> BatchAction + Send + Sync);

/// Replays and discards dead letters, singly and in batches.
#[async_trait]
pub trait ReplayStore: Send + Sync {
    /// Requests a replay in one transaction. If the dead letter is open or discarded, marks it as replaying,
    /// schedules the replay after all scheduled ones, and appends the audit row. `version` selects the
    /// content; `None` selects the newest version.
    async fn replay_dead_letter(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        version: Option<u32>,
        act: &Attribution,
    ) -> Result<RequestReplayResult>;

    /// Returns the number and content of the version that a replay would send, without the replay headers.
    /// `version` 0 is the dead letter as received; `None` selects the newest version. Returns `None` if the
    /// tenant has no such dead letter or version.
    async fn find_replay_content(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        version: Option<u32>,
    ) -> Result<Option<(u32, MessageContent)>>;

    /// Discards the open ones among the given dead letters and appends an audit row for each, in one
    /// transaction. Returns one result per dead letter, in order.
    async fn discard_dead_letters(
        &self,
        tenant: &Tenant,
        dead_letters: &[DeadLetterId],
        act: &Attribution,
    ) -> Result<Vec<DiscardResult>>;

    /// Returns at most `limit` due replays, earliest due time first. A replay that was sent `lost_after_s`
    /// seconds ago and has no result is presumed lost by the broker and due again; this time doubles with
    /// each publication.
    async fn list_due_replays(&self, limit: u32, lost_after_s: u64) -> Result<Vec<OutgoingReplay>>;

    /// Counts a publication of a replay. Also marks the replay as sent unless it has already ended.
    async fn mark_replay_sent(&self, id: ReplayId) -> Result<()>;

    /// Ends a replay that the broker refused, with the reason, and reopens the dead letter. Does nothing if
    /// the replay has already ended.
    async fn refuse_replay(&self, id: ReplayId, problem: &str) -> Result<()>;

    /// Stores a batch with its dead letters and returns its id. A repeated request changes nothing. Ignores
    /// dead letters of other tenants.
    async fn start_replay_batch(&self, tenant: &Tenant, batch: &NewReplayBatch) -> Result<ReplayBatchId>;

    /// Returns the open batches of all tenants, oldest first.
    async fn list_open_batches(&self) -> Result<Vec<ReplayBatchId>>;

    /// Advances a batch by one step in one transaction under the batch lock: calls `next`, performs the
    /// returned action and returns it. Returns `None` if the batch has ended or does not exist.
    ///
    /// Skips a dead letter whose status has changed since it was selected. A dead letter that records a
    /// failed retrospective is reopened as `reopen` decides.
    async fn step_replay_batch(
        &self,
        id: ReplayBatchId,
        next: DecideBatchStep<'_>,
        reopen: DecideReopen<'_>,
    ) -> Result<Option<BatchAction>>;

    /// Cancels a batch, which then starts no more replays, and appends the audit row.
    async fn cancel_replay_batch(
        &self,
        tenant: &Tenant,
        id: ReplayBatchId,
        act: &Attribution,
    ) -> Result<CancelBatchResult>;

    /// Returns at most `limit` of the tenant's replay batches, newest first.
    async fn list_replay_batches(&self, tenant: &Tenant, limit: u32) -> Result<Vec<ReplayBatchRow>>;

    /// Returns a batch and at most `limit` of its dead letters, those no longer waiting first; `None` if the
    /// tenant has no such batch.
    async fn find_replay_batch(
        &self,
        tenant: &Tenant,
        id: ReplayBatchId,
        limit: u32,
    ) -> Result<Option<(ReplayBatchRow, Vec<ReplayBatchItem>)>>;
}

/// Returns `true` if dead letters with this code record failed retrospectives, which are reopened rather than
/// replayed.
pub const fn is_reopenable(code: DeadLetterCode) -> bool {
    matches!(code, DeadLetterCode::RetrospectiveFailed)
}
