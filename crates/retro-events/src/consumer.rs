//! The one shape of every consumer: load, decide, commit, answer. The loop around it is in `retro-bus`.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{Tenant, WorkflowKey};
use retro_core::message::Message;
use retro_core::replay::REPLAY_HEADER;
use retro_core::run::{HttpsRef, ObjectRef};
use retro_core::trace::TraceContext;

/// A message as the broker delivered it, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The stream it is stored in.
    pub stream: String,
    /// Its subject.
    pub subject: String,
    /// Its position in the stream.
    pub sequence: u64,
    /// Its headers, in order; names as they came.
    pub headers: Vec<(String, String)>,
    /// Its body, as it came.
    pub payload: Bytes,
    /// How often it was delivered to this consumer, this time included, as far as the broker knows.
    pub delivered: u64,
    /// When the broker stored it.
    pub stored_at: Timestamp,
}

impl Delivery {
    /// The first header of this name, in whichever case it was written.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// What sent it, by the headers `traceparent` and `tracestate`. One that cannot be read counts as none.
    pub fn trace(&self) -> Option<TraceContext> {
        TraceContext::of_headers(self.header("traceparent")?, self.header("tracestate")).ok()
    }

    /// Whether it was handed to somebody before: delivered again by the broker, or replayed by a person.
    pub fn is_repeated(&self) -> bool {
        self.delivered > 1 || self.header(REPLAY_HEADER).is_some()
    }
}

/// The first header of this name, in whichever case it was written.
pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

impl Delivery {
    /// The message of ours that this delivery carries. Fails with a rejection when it carries something else.
    pub fn message(&self) -> Result<Message, Rejection> {
        serde_json::from_slice(&self.payload)
            .map_err(|error| Rejection::whole(Code::FieldInvalid, format!("not a message of ours: {error}")))
    }
}

/// What a consumer answers for one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Its effects are stored. It is acknowledged.
    Done,
    /// It was handled before: nothing changed. It is acknowledged.
    Known,
    /// It failed this time; an attempt is spent. After the last one it becomes a dead letter.
    RetryAfter {
        /// How long to wait.
        wait: Duration,
        /// Why, for the log and the dead letter.
        reason: String,
    },
    /// Not the message's fault (the database is away): no attempt is spent.
    Snooze {
        /// How long to wait.
        wait: Duration,
        /// Why, for the log.
        reason: String,
    },
    /// It can never be handled. It is stored as a dead letter, whole, then acknowledged.
    DeadLetter(Rejection),
}

/// Handles messages of one kind.
#[async_trait]
pub trait Consumer: Send + Sync + 'static {
    /// Its name: the durable consumer at the broker and the key in inbox, attempts and dead letters.
    fn name(&self) -> &'static str;

    /// Handles a batch and answers for each message, in order: exactly as many verdicts as messages. Effects are
    /// committed when it returns. A panic spends an attempt of each message of the batch.
    async fn handle(&self, batch: &[Delivery]) -> Vec<Verdict>;
}

/// A consumer that can tell what it has handled.
#[async_trait]
pub trait Accountable: Consumer {
    /// Which of these it has not handled, by place and in order; what it cannot read is among them. Fails with a sentence when
    /// that cannot be told now.
    async fn unhandled(&self, batch: &[Delivery]) -> Result<Vec<usize>, String>;
}

/// Publishing failed, or its outcome is unknown. Publishing again with the same id is safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not publish to {subject}: {reason}")]
pub struct PublishError {
    /// The subject.
    pub subject: String,
    /// What went wrong.
    pub reason: String,
}

/// Sends messages of our own and waits until the broker has them durably.
#[async_trait]
pub trait Publisher: Send + Sync + 'static {
    /// Publishes each message under its id. Returns when all are acknowledged; on an error any may have arrived.
    async fn publish(&self, messages: &[Message]) -> Result<(), PublishError>;
}

/// An event of an engine, checked and ready for the intake stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedEvent {
    /// Whose run it tells of: its subject follows from it.
    pub key: WorkflowKey,
    /// The event as one JSON object: structured mode.
    pub payload: Bytes,
}

/// Why the broker does not have the events that it was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntakeError {
    /// There is no room. Nothing was stored.
    #[error("the intake stream takes no more at this time: {0}")]
    Full(String),
    /// It is away, or did not take them. Nothing was stored.
    #[error("the broker is not available: {0}")]
    Unavailable(String),
    /// It did not say in time whether it has them. Giving them again is harmless: each is counted once.
    #[error("the broker did not confirm: {0}")]
    Unknown(String),
}

/// Takes events for somebody who waits for the answer.
#[async_trait]
pub trait Intake: Send + Sync + 'static {
    /// Stores one or more events, in order, all of them or none, and returns when they are on disk. At most
    /// [`INTAKE_EVENTS_MAX`] at once.
    async fn take(&self, events: &[CheckedEvent]) -> Result<(), IntakeError>;
}

/// Something that happened at GitHub, read and ready for its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GithubMessage {
    /// Whose it is and what it is: [`crate::github::subject_of`].
    pub subject: String,
    /// The event as one JSON object: structured mode.
    pub payload: Bytes,
}

/// Takes what happened at GitHub for somebody who waits for the answer.
#[async_trait]
pub trait GithubIntake: Send + Sync + 'static {
    /// Stores one event, and returns when it is on disk.
    async fn tell(&self, message: GithubMessage) -> Result<(), IntakeError>;
}

/// How many events are taken at once: the broker's own limit of an atomic batch.
pub const INTAKE_EVENTS_MAX: usize = 1000;

/// Why a body could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// It is not there, or its bytes do not have the hash that was promised. Asking again does not help.
    #[error("the body {name} is gone: {problem}")]
    Gone {
        /// The object.
        name: String,
        /// What was found instead.
        problem: String,
    },
    /// The object store is away.
    #[error("the object store is not available: {0}")]
    Unavailable(String),
}

/// Bodies that are too large for a message: the broker's object store.
#[async_trait]
pub trait Objects: Send + Sync + 'static {
    /// Stores bytes under a name of the tenant's own prefix, derived from their hash; storing again is harmless.
    async fn put(&self, tenant: &Tenant, bytes: Bytes) -> Result<ObjectRef, ObjectError>;

    /// Fetches an object and checks its size and hash.
    async fn get(&self, object: &ObjectRef) -> Result<Bytes, ObjectError>;
}

/// Bodies that stay where their emitter keeps them.
#[async_trait]
pub trait Https: Send + Sync + 'static {
    /// Fetches a body from a host that is allowed, and checks its size and hash.
    async fn get(&self, body: &HttpsRef) -> Result<Bytes, ObjectError>;
}
