//! Defines the interface of consumers, which load, decide, commit and return an outcome for each message. The
//! loop that calls them is in `retro-bus`.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{Tenant, WorkflowKey};
use retro_core::message::Message;
use retro_core::replay::REPLAY_HEADER;
use retro_core::run::{HttpsRef, ObjectRef};
use retro_core::trace::TraceContext;

/// A complete message as delivered by the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Stream that stores the message.
    pub stream: String,
    /// Subject of the message.
    pub subject: String,
    /// Sequence number of the message in the stream.
    pub sequence: u64,
    /// Headers in order, with names in their original case.
    pub headers: Vec<(String, String)>,
    /// Payload as delivered by the broker.
    pub payload: Bytes,
    /// Number of deliveries to this consumer so far, including this one, as counted by the broker.
    pub delivered: u64,
    /// Time at which the broker stored the message.
    pub stored_at: Timestamp,
}

impl Delivery {
    /// Returns the first header of this name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }

    /// Returns the trace context from the headers `traceparent` and `tracestate`; `None` if it cannot be
    /// parsed.
    pub fn trace_context(&self) -> Option<TraceContext> {
        TraceContext::from_headers(self.header("traceparent")?, self.header("tracestate")).ok()
    }

    /// Returns `true` if the message may have been handled before, because the broker redelivered it or an
    /// operator replayed it.
    pub fn is_repeated(&self) -> bool {
        self.delivered > 1 || self.header(REPLAY_HEADER).is_some()
    }
}

/// Returns the first header of this name, ignoring case.
pub(crate) fn find_header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

impl Delivery {
    /// Parses the internal message in this delivery. Fails with a rejection if the delivery is not an
    /// internal message.
    pub fn parse_message(&self) -> Result<Message, Rejection> {
        serde_json::from_slice(&self.payload).map_err(|error| {
            Rejection::of_message(DeadLetterCode::FieldInvalid, format!("not a message of ours: {error}"))
        })
    }
}

/// Outcome of handling one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandlerOutcome {
    /// The effects of the message are stored. The message is acknowledged.
    Done,
    /// The message was handled before, and nothing changed. It is acknowledged.
    Duplicate,
    /// Handling failed, which uses up an attempt. After the last attempt the message becomes a dead letter.
    RetryAfter {
        /// Delay before the next attempt.
        wait: Duration,
        /// Reason for the failure, for the log and the dead letter.
        reason: String,
    },
    /// The message is not at fault, for example if the database is unreachable. No attempt is used up.
    Snooze {
        /// Delay before the message is handled again.
        wait: Duration,
        /// Reason for the delay, for the log.
        reason: String,
    },
    /// The message can never be handled. It is stored completely as a dead letter and then acknowledged.
    DeadLetter(Rejection),
}

/// Handles messages of one kind.
#[async_trait]
pub trait Consumer: Send + Sync + 'static {
    /// Returns the name of the durable consumer at the broker, which also identifies it in the inbox, the attempts
    /// and the dead letters.
    fn name(&self) -> &'static str;

    /// Handles a batch and returns one outcome for each message, in order. All effects must be committed
    /// before this function returns. A panic costs each message of the batch an attempt.
    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome>;
}

/// A consumer that can determine which messages it has not processed.
#[async_trait]
pub trait Reconcilable: Consumer {
    /// Returns the indexes of the messages that this consumer has not processed, in order. Unreadable
    /// messages are included. Fails with an explanation if this cannot be determined now.
    async fn find_unprocessed(&self, batch: &[Delivery]) -> Result<Vec<usize>, String>;
}

/// Failure to publish a message, or an unknown outcome. Publishing again with the same id is safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not publish to {subject}: {reason}")]
pub struct PublishError {
    /// Subject of the message.
    pub subject: String,
    /// Cause of the failure.
    pub reason: String,
}

/// Publishes internal messages and waits until the broker has stored them.
#[async_trait]
pub trait Publisher: Send + Sync + 'static {
    /// Publishes each message under its id. Returns when all messages are acknowledged. After an error, any of the
    /// messages may have been stored.
    async fn publish(&self, messages: &[Message]) -> Result<(), PublishError>;
}

/// A validated event of a finished run, ready for the intake stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidatedEvent {
    /// Tenant and workflow of the run, from which the subject is built.
    pub key: WorkflowKey,
    /// The event as one JSON object (structured mode).
    pub payload: Bytes,
}

/// Reason why events were not confirmed as stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntakeError {
    /// The stream is full. Nothing was stored.
    #[error("the intake stream is full: {0}")]
    Full(String),
    /// The broker is unreachable or rejected the events. Nothing was stored.
    #[error("the broker is not available: {0}")]
    Unavailable(String),
    /// The broker did not confirm in time and may have stored the events. Publishing them again is harmless,
    /// because each event is counted once.
    #[error("the broker did not confirm: {0}")]
    Unconfirmed(String),
}

/// Publishes events to the intake stream for a caller that waits for the result.
#[async_trait]
pub trait IntakePublisher: Send + Sync + 'static {
    /// Stores up to [`INTAKE_EVENTS_MAX`] events in order, all or none, and returns when they are on disk.
    async fn publish_events(&self, events: &[ValidatedEvent]) -> Result<(), IntakeError>;
}

/// A GitHub event, ready for its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GithubMessage {
    /// Subject with the tenant and the kind of event: see [`crate::github::event_subject`].
    pub subject: String,
    /// The event as one JSON object (structured mode).
    pub payload: Bytes,
}

/// Publishes GitHub events for a caller that waits for the result.
#[async_trait]
pub trait GithubPublisher: Send + Sync + 'static {
    /// Stores one event and returns when it is on disk.
    async fn publish_message(&self, message: GithubMessage) -> Result<(), IntakeError>;
}

/// Maximum number of events published at once: the broker's own limit for an atomic batch.
pub const INTAKE_EVENTS_MAX: usize = 1000;

/// Failure to fetch or store a body.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The body is missing, or its bytes do not match the promised hash. Retrying does not help.
    #[error("the body {name} is gone: {problem}")]
    Gone {
        /// Name of the object.
        name: String,
        /// Explanation of what is missing or different.
        problem: String,
    },
    /// The object store is unreachable.
    #[error("the object store is not available: {0}")]
    Unavailable(String),
}

/// Stores bodies that are too large for a message in the broker's object store.
#[async_trait]
pub trait ObjectStorage: Send + Sync + 'static {
    /// Stores bytes under the tenant's prefix and a name derived from their hash. Storing them again is
    /// harmless.
    async fn put(&self, tenant: &Tenant, bytes: Bytes) -> Result<ObjectRef, ObjectError>;

    /// Fetches an object and checks its size and hash.
    async fn get(&self, object: &ObjectRef) -> Result<Bytes, ObjectError>;
}

/// Fetches bodies that are stored at a host of their emitter.
#[async_trait]
pub trait BodyFetcher: Send + Sync + 'static {
    /// Fetches a body from an allowed host, and checks its size and hash.
    async fn fetch_body(&self, body: &HttpsRef) -> Result<Bytes, ObjectError>;
}
