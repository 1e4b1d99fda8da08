//! Defines the ports to the broker through which messages are published, and bodies stored and fetched.

use async_trait::async_trait;
use bytes::Bytes;
use retro_core::id::{Tenant, WorkflowKey};
use retro_core::message::Message;
use retro_core::run::{GithubLogRef, HttpsRef, ObjectRef};

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
    /// Waits until the broker is connected.
    async fn wait_until_ready(&self);

    /// Publishes each message under its id. Returns when all messages are acknowledged. After an error, any of the
    /// messages may have been stored.
    async fn publish(&self, messages: &[Message]) -> Result<(), PublishError>;
}

/// Tells how far a consumer has handled its stream.
#[async_trait]
pub trait StreamProgress: Send + Sync + 'static {
    /// Returns the position up to which all processes of the consumer together have acknowledged the messages of the
    /// stream; 0 if it is none. Fails with the reason if the broker does not say.
    async fn acknowledged_up_to(&self) -> Result<u64, String>;
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

/// End of the log of a job that failed. It is not redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobLog {
    /// Name of the job.
    pub job: String,
    /// Name of the step that failed; `None` if the CI system does not name one.
    pub step: Option<String>,
    /// Last bytes of the log, usually UTF-8.
    pub log: Bytes,
}

/// Fetches the logs of failed jobs from the CI system that ran them.
#[async_trait]
pub trait JobLogFetcher: Send + Sync + 'static {
    /// Fetches the logs of the jobs that failed in a workflow run of this tenant's repository: at least one, and
    /// a small number at most. Fails with [`ObjectError::Gone`] if there is none, or if the repository is not
    /// the tenant's.
    async fn fetch_failed_jobs(&self, tenant: &Tenant, of: &GithubLogRef)
    -> Result<Vec<JobLog>, ObjectError>;
}
