//! Storage ports for message delivery: the outbox, delivery attempts, and storing dead letters.

use async_trait::async_trait;
use retro_core::id::{DeadLetterId, MessageId};
use retro_core::message::Message;

use crate::dead_letter::{AttemptFailure, DeliveryPosition, NewDeadLetter, Redelivery};
use crate::{IncomingReplay, Result};

/// Transactional outbox, read by the relay.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Returns at most `limit` unsent messages, oldest first. Selects by the unsent mark rather than by the
    /// last sent id, because a message with an earlier id may be committed later and would be skipped.
    async fn list_unsent_messages(&self, limit: u32) -> Result<Vec<Message>>;

    /// Marks messages as sent. Keeps the rows, so the messages can be republished if the broker loses its
    /// data.
    async fn mark_sent(&self, ids: &[MessageId]) -> Result<()>;
}

/// Result of beginning an attempt at a redelivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptStart {
    /// The attempt was counted, and the message may be handled. Contains the attempt number, which is at
    /// least 2.
    Begun(u32),
    /// The message has no attempts left and must become a dead letter. Repeating the call changes nothing.
    Exhausted,
    /// The message is already this dead letter, and only its acknowledgement was lost. No attempt was
    /// counted.
    DeadLettered(DeadLetterId),
}

/// Counts delivery attempts and stores dead letters.
#[async_trait]
pub trait DeliveryStore: Send + Sync {
    /// Counts an attempt at a redelivered message and stores its start time, up to `attempts_max` attempts.
    /// Must be called *before* the message is handled, so a message that crashes the process also exhausts
    /// its attempts. The first delivery is not counted, so the first counted attempt is number 2.
    async fn begin_attempt(&self, message: &Redelivery, attempts_max: u32) -> Result<AttemptStart>;

    /// Deletes the attempts at a handled message, because a redelivery after a lost acknowledgement would
    /// otherwise count as a failure. Does nothing if there are none.
    async fn clear_attempts(&self, position: &DeliveryPosition) -> Result<()>;

    /// Records the failure of an attempt that will be retried, with the database time. Recording the same
    /// attempt again overwrites the earlier failure.
    async fn record_failure(&self, position: &DeliveryPosition, failure: &AttemptFailure) -> Result<()>;

    /// Stores a dead letter with the history of its attempts, and deletes the attempt count. If the tenant
    /// and workflow are known, also adds an announcement to the outbox. Does not change an existing dead
    /// letter.
    ///
    /// A failed replay (see [`IncomingReplay`]) creates no second dead letter: the original is reopened with
    /// the failure in its history, and the replay ends as failed.
    async fn store_dead_letter(&self, dead_letter: &NewDeadLetter) -> Result<DeadLetterId>;

    /// Ends the replay of a handled message and marks its dead letter as handled. Returns `false` if the
    /// message is no replay in progress. `known` is `true` if the message's event had already been handled.
    ///
    /// Call this before acknowledging the message, so a crash in between only repeats the call.
    async fn end_replay(&self, resent: &IncomingReplay, known: bool) -> Result<bool>;
}
