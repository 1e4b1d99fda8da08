//! Publishes events to the intake stream and the GitHub stream for a caller that waits for the result. An
//! event is published alone, or in an atomic batch, which the broker stores completely or not at all. The
//! messages carry no message id, because the inbox deduplicates them.
//!
//! The first message of a batch is acknowledged before the others are sent, so a full stream or a missing
//! permission is reported as the cause, and not the broken batch that would result from it. If a batch fails
//! before the commit, nothing is stored: the broker discards an open batch ten seconds after its last
//! message.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Request;
use async_nats::client::RequestErrorKind;
use async_nats::header::{
    HeaderMap, NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL, NATS_BATCH_ID, NATS_BATCH_SEQUENCE,
};
use async_nats::jetstream::{publish::PublishAck, response::Response};
use async_trait::async_trait;
use bytes::Bytes;
use retro_events::{GithubMessage, GithubPublisher, IntakeError, IntakePublisher, ValidatedEvent, subject};
use retro_fault::Label;
use tokio::sync::Semaphore;

use crate::Bus;
use crate::error_codes::is_storage_full;
use crate::publish::insert_trace_headers;

/// Maximum number of open batches of one process. The broker allows 50 open batches per stream across all
/// processes.
const OPEN_BATCHES_MAX: usize = 12;
/// Timeout for one acknowledgement. An acknowledgement costs one fsync, which takes milliseconds, and a
/// client is waiting for it.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// Publishes to the intake and GitHub streams and waits for the broker's acknowledgement.
#[derive(Debug, Clone)]
pub struct NatsIntakePublisher {
    bus: Bus,
    batch_slots: Arc<Semaphore>,
}

impl NatsIntakePublisher {
    /// Creates a publisher that uses the given connection.
    pub fn new(bus: Bus) -> Self {
        Self { bus, batch_slots: Arc::new(Semaphore::new(OPEN_BATCHES_MAX)) }
    }

    /// Fails unless the client is connected. A client that is not connected would buffer the message and send it after
    /// the caller has already received an error.
    fn check_connected(&self) -> Result<(), IntakeError> {
        match self.bus.is_connected() {
            true => Ok(()),
            false => Err(IntakeError::Unavailable("not connected".to_owned())),
        }
    }

    async fn publish_batch(
        &self,
        first: &ValidatedEvent,
        between: &[ValidatedEvent],
        last: &ValidatedEvent,
    ) -> Result<(), IntakeError> {
        // Held until the commit, to limit the number of open batches.
        let _open = self.batch_slots.acquire().await.expect("the semaphore is never closed");
        let batch = AtomicBatch { bus: &self.bus, id: self.bus.client.new_inbox().replace('.', "-") };
        batch.publish_first(first).await?;
        for (event, sequence) in between.iter().zip(2..) {
            batch.publish_next(event, sequence).await?;
        }
        batch.publish_last(last, between.len() + 2).await
    }
}

#[async_trait]
impl IntakePublisher for NatsIntakePublisher {
    async fn publish_events(&self, events: &[ValidatedEvent]) -> Result<(), IntakeError> {
        self.check_connected()?;
        match events {
            [] => Ok(()),
            [event] => {
                let answer =
                    request_event_ack(&self.bus, Label::IntakeOnePublish, event, event_headers()).await?;
                parse_ack(&answer).map(|_| ())
            }
            [first, between @ .., last] => self.publish_batch(first, between, last).await,
        }
    }
}

#[async_trait]
impl GithubPublisher for NatsIntakePublisher {
    async fn publish_message(&self, message: GithubMessage) -> Result<(), IntakeError> {
        self.check_connected()?;
        let GithubMessage { subject, payload } = message;
        let answer = request_ack(&self.bus, Label::BridgePublish, subject, payload, event_headers()).await?;
        parse_ack(&answer).map(|_| ())
    }
}

/// An atomic batch in progress.
struct AtomicBatch<'a> {
    bus: &'a Bus,
    id: String,
}

impl AtomicBatch<'_> {
    async fn publish_first(&self, event: &ValidatedEvent) -> Result<(), IntakeError> {
        let answer =
            request_event_ack(self.bus, Label::IntakeFirstPublish, event, self.batch_headers(1)).await;
        let answer = answer.map_err(not_stored_error)?;
        // An empty response acknowledges the first message of an open batch.
        if answer.is_empty() {
            return Ok(());
        }
        // A broker without support for batches has stored the message like any other.
        parse_ack(&answer)?;
        Err(IntakeError::Unavailable(
            "it does not support atomic batches; nats-server 2.14.1 or later is required".to_owned(),
        ))
    }

    async fn publish_next(&self, event: &ValidatedEvent, sequence: usize) -> Result<(), IntakeError> {
        let subject = subject::run_completed_subject(&event.key);
        let (headers, payload) = (self.batch_headers(sequence), event.payload.clone());
        let sent = self.bus.publish_core(Label::IntakeNextPublish, subject.into(), headers, payload).await;
        sent.map_err(|error| IntakeError::Unavailable(error.to_string()))
    }

    async fn publish_last(&self, event: &ValidatedEvent, sequence: usize) -> Result<(), IntakeError> {
        let mut headers = self.batch_headers(sequence);
        headers.insert(NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL);
        let answer = request_event_ack(self.bus, Label::IntakeLastPublish, event, headers).await?;
        // Another size means that the broker stored something other than this batch.
        match parse_ack(&answer)?.batch_size {
            Some(size) if size == sequence as u64 => Ok(()),
            size => {
                Err(IntakeError::Unconfirmed(format!("it stored {size:?} of the batch's {sequence} events")))
            }
        }
    }

    fn batch_headers(&self, sequence: usize) -> HeaderMap {
        let mut headers = event_headers();
        headers.insert(NATS_BATCH_ID, self.id.as_str());
        headers.insert(NATS_BATCH_SEQUENCE, sequence.to_string());
        headers
    }
}

fn event_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Content-Type", "application/cloudevents+json");
    insert_trace_headers(&mut headers, retro_telemetry::trace::current_trace_context().as_ref());
    headers
}

async fn request_event_ack(
    bus: &Bus,
    label: Label,
    event: &ValidatedEvent,
    headers: HeaderMap,
) -> Result<Bytes, IntakeError> {
    request_ack(bus, label, subject::run_completed_subject(&event.key), event.payload.clone(), headers).await
}

async fn request_ack(
    bus: &Bus,
    label: Label,
    subject: String,
    payload: Bytes,
    headers: HeaderMap,
) -> Result<Bytes, IntakeError> {
    let request = Request::new().headers(headers).payload(payload).timeout(Some(ACK_TIMEOUT));
    let answer = bus.request_answer(label, subject.into(), request).await;
    answer.map(|message| message.payload).map_err(|error| match error.kind() {
        RequestErrorKind::NoResponders => IntakeError::Unavailable("no stream stores events".to_owned()),
        RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
            IntakeError::Unavailable(error.to_string())
        }
        RequestErrorKind::TimedOut | RequestErrorKind::Other => IntakeError::Unconfirmed(error.to_string()),
    })
}

/// Turns an unknown outcome of an uncommitted batch into "not stored": the broker discards the batch even if
/// its messages arrived.
fn not_stored_error(error: IntakeError) -> IntakeError {
    match error {
        IntakeError::Unconfirmed(reason) => IntakeError::Unavailable(reason),
        certain => certain,
    }
}

fn parse_ack(answer: &[u8]) -> Result<PublishAck, IntakeError> {
    match serde_json::from_slice(answer) {
        Ok(Response::Ok(ack)) => Ok(ack),
        Ok(Response::Err { error }) if is_storage_full(error.error_code()) => {
            Err(IntakeError::Full(error.to_string()))
        }
        Ok(Response::Err { error }) => Err(IntakeError::Unavailable(error.to_string())),
        Err(error) => Err(IntakeError::Unconfirmed(format!("its answer cannot be parsed: {error}"))),
    }
}
