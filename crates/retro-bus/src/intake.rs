//! Events for the intake stream, and for that of GitHub's, from somebody who waits for the answer: one message and its
//! acknowledgement, or an atomic batch, of which the broker stores all or nothing. Neither carries a message id: the inbox deduplicates.
//!
//! The first message of a batch is answered before the others are sent, so that a full stream or a missing right is
//! told by its name, and not as the broken batch that would come of it. What fails before the commit leaves nothing: the
//! broker forgets an open batch ten seconds after its last message.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Request;
use async_nats::client::RequestErrorKind;
use async_nats::header::{
    HeaderMap, NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL, NATS_BATCH_ID, NATS_BATCH_SEQUENCE,
};
use async_nats::jetstream::{ErrorCode, publish::PublishAck, response::Response};
use async_trait::async_trait;
use bytes::Bytes;
use retro_events::{CheckedEvent, GithubIntake, GithubMessage, Intake, IntakeError, subject};
use retro_fault::Label;
use tokio::sync::Semaphore;

use crate::Bus;
use crate::publish::trace_headers;

/// Open batches of one process. The broker takes 50 a stream, of all processes together.
const BATCHES_MAX: usize = 12;
/// How long one message may wait for its answer. It costs one fsync: milliseconds. Somebody is waiting.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The intake stream, for somebody who waits.
#[derive(Debug, Clone)]
pub struct EventIntake {
    bus: Bus,
    open: Arc<Semaphore>,
}

impl EventIntake {
    /// The intake stream behind a connection.
    pub fn new(bus: Bus) -> Self {
        Self { bus, open: Arc::new(Semaphore::new(BATCHES_MAX)) }
    }

    /// What is given to a client that is not connected is sent later all the same.
    fn check_connected(&self) -> Result<(), IntakeError> {
        match self.bus.is_connected() {
            true => Ok(()),
            false => Err(IntakeError::Unavailable("there is no connection to it".to_owned())),
        }
    }

    async fn take_batch(
        &self,
        first: &CheckedEvent,
        between: &[CheckedEvent],
        last: &CheckedEvent,
    ) -> Result<(), IntakeError> {
        let _open = self.open.acquire().await.expect("it is never closed");
        let batch = Batch { bus: &self.bus, id: self.bus.client.new_inbox().replace('.', "-") };
        batch.begin(first).await?;
        for (event, sequence) in between.iter().zip(2..) {
            batch.add(event, sequence).await?;
        }
        batch.commit(last, between.len() + 2).await
    }
}

#[async_trait]
impl Intake for EventIntake {
    async fn take(&self, events: &[CheckedEvent]) -> Result<(), IntakeError> {
        self.check_connected()?;
        match events {
            [] => Ok(()),
            [event] => {
                let answer = ask(&self.bus, Label::IntakeOnePublish, event, headers()).await?;
                stored(&answer).map(|_| ())
            }
            [first, between @ .., last] => self.take_batch(first, between, last).await,
        }
    }
}

#[async_trait]
impl GithubIntake for EventIntake {
    async fn tell(&self, message: GithubMessage) -> Result<(), IntakeError> {
        self.check_connected()?;
        let GithubMessage { subject, payload } = message;
        let answer = ask_at(&self.bus, Label::BridgePublish, subject, payload, headers()).await?;
        stored(&answer).map(|_| ())
    }
}

/// One atomic batch that is being sent.
struct Batch<'a> {
    bus: &'a Bus,
    id: String,
}

impl Batch<'_> {
    async fn begin(&self, event: &CheckedEvent) -> Result<(), IntakeError> {
        let answer = ask(self.bus, Label::IntakeFirstPublish, event, self.headers(1)).await;
        let answer = answer.map_err(nothing_stored)?;
        if answer.is_empty() {
            return Ok(());
        }
        stored(&answer)?;
        Err(IntakeError::Unavailable(
            "it knows no atomic batches: nats-server 2.14.1 is the oldest that will do".to_owned(),
        ))
    }

    async fn add(&self, event: &CheckedEvent, sequence: usize) -> Result<(), IntakeError> {
        let subject = subject::run_completed(&event.key);
        let (headers, payload) = (self.headers(sequence), event.payload.clone());
        let sent = self.bus.tell(Label::IntakeNextPublish, subject.into(), headers, payload).await;
        sent.map_err(|error| IntakeError::Unavailable(error.to_string()))
    }

    async fn commit(&self, event: &CheckedEvent, sequence: usize) -> Result<(), IntakeError> {
        let mut headers = self.headers(sequence);
        headers.insert(NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL);
        let answer = ask(self.bus, Label::IntakeLastPublish, event, headers).await?;
        match stored(&answer)?.batch_size {
            Some(size) if size == sequence as u64 => Ok(()),
            size => Err(IntakeError::Unknown(format!("it has {size:?} of the batch's {sequence} events"))),
        }
    }

    fn headers(&self, sequence: usize) -> HeaderMap {
        let mut headers = headers();
        headers.insert(NATS_BATCH_ID, self.id.as_str());
        headers.insert(NATS_BATCH_SEQUENCE, sequence.to_string());
        headers
    }
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Content-Type", "application/cloudevents+json");
    trace_headers(&mut headers, retro_trace::current().as_ref());
    headers
}

async fn ask(
    bus: &Bus,
    label: Label,
    event: &CheckedEvent,
    headers: HeaderMap,
) -> Result<Bytes, IntakeError> {
    ask_at(bus, label, subject::run_completed(&event.key), event.payload.clone(), headers).await
}

async fn ask_at(
    bus: &Bus,
    label: Label,
    subject: String,
    payload: Bytes,
    headers: HeaderMap,
) -> Result<Bytes, IntakeError> {
    let request = Request::new().headers(headers).payload(payload).timeout(Some(ANSWER_MAX));
    let answer = bus.call(label, subject.into(), request).await;
    answer.map(|message| message.payload).map_err(|error| match error.kind() {
        RequestErrorKind::NoResponders => IntakeError::Unavailable("no stream takes events".to_owned()),
        RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
            IntakeError::Unavailable(error.to_string())
        }
        RequestErrorKind::TimedOut | RequestErrorKind::Other => IntakeError::Unknown(error.to_string()),
    })
}

/// An uncommitted batch is forgotten, whatever became of its messages.
fn nothing_stored(error: IntakeError) -> IntakeError {
    match error {
        IntakeError::Unknown(reason) => IntakeError::Unavailable(reason),
        certain => certain,
    }
}

fn stored(answer: &[u8]) -> Result<PublishAck, IntakeError> {
    match serde_json::from_slice(answer) {
        Ok(Response::Ok(ack)) => Ok(ack),
        Ok(Response::Err { error }) if is_full(error.error_code()) => {
            Err(IntakeError::Full(error.to_string()))
        }
        Ok(Response::Err { error }) => Err(IntakeError::Unavailable(error.to_string())),
        Err(error) => Err(IntakeError::Unknown(format!("its answer cannot be read: {error}"))),
    }
}

/// Whether the broker answers that it has no room.
pub(crate) fn is_full(code: ErrorCode) -> bool {
    [
        ErrorCode::STREAM_STORE_FAILED,
        ErrorCode::INSUFFICIENT_RESOURCES,
        ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ErrorCode::MEMORY_RESOURCES_EXCEEDED,
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
    ]
    .contains(&code)
}
