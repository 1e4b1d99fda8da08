//! Publishes internal messages from the outbox, events from emitters, and replays of dead letters.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::header::{HeaderMap, HeaderName, HeaderValue};
use async_nats::jetstream::context::{PublishError as NatsError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use futures::{FutureExt, StreamExt};
use retro_core::message::Message;
use retro_core::trace::TraceContext;
use retro_events::{PublishError, Publisher, subject};
use retro_fault::Label;
use retro_store::OutgoingReplay;
use tracing::warn;

use crate::backoff::Backoff;
use crate::broker_calls::PendingPublish;
use crate::{Bus, topology};

/// Maximum number of publications that wait for their acknowledgement. Above 5,000 the client deadlocks, and
/// 256 already keep the broker's disk busy, because the broker does one fsync for each.
const IN_FLIGHT_MAX: usize = 256;
/// Maximum number of retries for one event before emitting fails, enough for a broker that is unreachable for
/// about half a minute.
const REPUBLISH_MAX: u32 = 6;

/// Publishes internal messages under their ids, so that the broker drops duplicates.
#[derive(Debug, Clone)]
pub struct OutboxPublisher {
    bus: Bus,
}

impl OutboxPublisher {
    /// Creates a publisher that uses the given connection.
    pub fn new(bus: Bus) -> Self {
        Self { bus }
    }
}

#[async_trait]
impl Publisher for OutboxPublisher {
    async fn wait_until_ready(&self) {
        self.bus.wait_until_connected().await;
    }

    async fn publish(&self, messages: &[Message]) -> Result<(), PublishError> {
        let mut waiting: VecDeque<(String, PendingPublish)> = VecDeque::with_capacity(IN_FLIGHT_MAX);
        for message in messages {
            if waiting.len() == IN_FLIGHT_MAX
                && let Some((subject, published)) = waiting.pop_front()
            {
                self.confirm_message(subject, published).await?;
            }
            let subject = subject::message_subject(message);
            let payload = serde_json::to_vec(message).expect("a message serializes to JSON");
            let mut headers = HeaderMap::new();
            headers.insert("Content-Type", "application/json");
            insert_trace_headers(&mut headers, message.trace.as_ref());
            let publication = PublishMessage::build()
                .headers(headers)
                .message_id(message.id.to_string())
                .payload(payload.into());
            self.bus.violations.forget_subject(&subject);
            match self.bus.publish_to_stream(Label::RelayPublish, &subject, publication).await {
                Ok(published) => waiting.push_back((subject, published)),
                Err(error) => return Err(self.handle_publish_error(subject, &error).await),
            }
        }
        for (subject, published) in waiting {
            self.confirm_message(subject, published).await?;
        }
        Ok(())
    }
}

impl OutboxPublisher {
    async fn confirm_message(&self, subject: String, published: PendingPublish) -> Result<(), PublishError> {
        // An acknowledgement marked as duplicate also counts: the broker has the message.
        match self.bus.unless_refused(&subject, published.wait_for_ack().boxed()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(self.handle_publish_error(subject, &error).await),
            Err(refused) => Err(PublishError { subject, reason: refused.to_string() }),
        }
    }

    /// Returns the error to report. If the stream is missing, recreates it first, so that the next attempt can succeed.
    async fn handle_publish_error(&self, subject: String, error: &NatsError) -> PublishError {
        if error.kind() == PublishErrorKind::StreamNotFound
            && let Err(problem) = topology::prepare_streams(&self.bus).await
        {
            warn!("no stream stores {subject}, and it could not be created: {problem}");
        }
        PublishError { subject, reason: error.to_string() }
    }
}

/// Adds the trace headers to a message. Its receiver continues the trace.
pub(crate) fn insert_trace_headers(headers: &mut HeaderMap, trace: Option<&TraceContext>) {
    let Some(trace) = trace else { return };
    headers.insert("traceparent", trace.traceparent());
    if let Some(state) = &trace.state {
        headers.insert("tracestate", state.as_str());
    }
}

/// An event in the form that is sent to the broker.
#[derive(Debug, Clone)]
pub struct OutgoingEvent {
    /// Subject to which the event is published.
    pub subject: String,
    /// Names and values of the headers: `Content-Type` and, in binary mode, the `ce-` attributes.
    pub headers: Vec<(String, String)>,
    /// Payload of the message.
    pub payload: Bytes,
}

/// Publishes events in order, with many in flight, until the broker has acknowledged each of them. An event
/// whose outcome is unknown is published again; because of its identity it is not counted twice.
pub struct EventPublisher {
    bus: Bus,
    /// Unacknowledged publications. They are polled together, so after a crash of the broker all lost
    /// acknowledgements time out at once and not one after another.
    unconfirmed: FuturesOrdered<BoxFuture<'static, (PreparedEvent, Result<PublishAck, PublishFailure>)>>,
    acknowledged: usize,
}

impl std::fmt::Debug for EventPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { unconfirmed: waiting, acknowledged, .. } = self;
        f.debug_struct("EventPublisher")
            .field("waiting", &waiting.len())
            .field("acknowledged", acknowledged)
            .finish()
    }
}

/// Reason why an event was not acknowledged.
#[derive(Debug)]
enum PublishFailure {
    /// The event may have been lost before the broker stored it.
    Lost(NatsError),
    /// The event was refused; publishing it again cannot succeed.
    Refused(String),
}

/// An event with validated headers, kept until the broker has acknowledged it.
#[derive(Debug)]
struct PreparedEvent {
    subject: String,
    publication: PublishMessage,
}

impl EventPublisher {
    /// Creates a publisher that uses the given connection.
    pub fn new(bus: Bus) -> Self {
        Self { bus, unconfirmed: FuturesOrdered::new(), acknowledged: 0 }
    }

    /// Publishes an event. Waits while too many earlier events are unacknowledged. Returns the number of
    /// events acknowledged so far. Fails if an event is refused, or is not acknowledged after several
    /// attempts.
    pub async fn publish_event(&mut self, event: OutgoingEvent) -> Result<usize, PublishError> {
        let event = PreparedEvent::try_from(event)?;
        if self.unconfirmed.len() == IN_FLIGHT_MAX {
            self.confirm_oldest().await?;
        }
        match publish_once(&self.bus, &event).await {
            Ok(published) => {
                let bus = self.bus.clone();
                self.unconfirmed.push_back(Box::pin(async move {
                    let outcome = wait_for_ack(&bus, &event, published).await;
                    (event, outcome)
                }));
            }
            Err(failure) => {
                // Confirm the older events first, to keep the order.
                self.confirm_all().await?;
                publish_again(&self.bus, &event, failure).await?;
                self.acknowledged += 1;
            }
        }
        Ok(self.acknowledged)
    }

    /// Waits until the broker has acknowledged every event. Returns the number of acknowledged events.
    pub async fn confirm_all(&mut self) -> Result<usize, PublishError> {
        while !self.unconfirmed.is_empty() {
            self.confirm_oldest().await?;
        }
        Ok(self.acknowledged)
    }

    async fn confirm_oldest(&mut self) -> Result<(), PublishError> {
        let Some((event, outcome)) = self.unconfirmed.next().await else { return Ok(()) };
        if let Err(failure) = outcome {
            publish_again(&self.bus, &event, failure).await?;
        }
        self.acknowledged += 1;
        Ok(())
    }
}

/// Reason why a replay was not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayPublishError {
    /// The outcome is unknown; publishing the replay again under its id is harmless.
    #[error("{0}")]
    Unavailable(PublishError),
    /// The replay was refused; publishing it again cannot succeed.
    #[error("{0}")]
    Refused(PublishError),
}

/// Publishes replays of dead letters under the id of the replay, with the bytes and headers of the chosen
/// version.
#[derive(Debug, Clone)]
pub struct ReplayPublisher {
    bus: Bus,
}

impl ReplayPublisher {
    /// Creates a publisher that uses the given connection.
    pub fn new(bus: Bus) -> Self {
        Self { bus }
    }

    /// Publishes a replay and returns after the broker has stored it on disk.
    pub async fn publish_replay(&self, sending: &OutgoingReplay) -> Result<(), ReplayPublishError> {
        let OutgoingReplay { id, subject, headers, payload } = sending.clone();
        let event = OutgoingEvent { subject: subject.clone(), headers, payload: payload.into() };
        let mut event = PreparedEvent::try_from(event).map_err(ReplayPublishError::Refused)?;
        // The replay's own id: the broker would drop the original id as a duplicate.
        event.publication = event.publication.message_id(id.to_string());
        self.bus.violations.forget_subject(&subject);
        let sent =
            self.bus.publish_to_stream(Label::ReplayPublish, &subject, event.publication.clone()).await;
        let outcome = match sent.map_err(PublishFailure::from) {
            Ok(ack) => wait_for_ack(&self.bus, &event, ack).await,
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(_) => Ok(()),
            Err(PublishFailure::Refused(reason)) => {
                Err(ReplayPublishError::Refused(PublishError { subject, reason }))
            }
            Err(PublishFailure::Lost(error)) => {
                let notices = OutboxPublisher::new(self.bus.clone());
                Err(ReplayPublishError::Unavailable(notices.handle_publish_error(subject, &error).await))
            }
        }
    }
}

impl TryFrom<OutgoingEvent> for PreparedEvent {
    type Error = PublishError;

    fn try_from(event: OutgoingEvent) -> Result<Self, PublishError> {
        let OutgoingEvent { subject, headers, payload } = event;
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let refused = |reason: String| PublishError {
                subject: subject.clone(),
                reason: format!("the header {name:?} cannot be sent: {reason}"),
            };
            let parsed: HeaderName = name.parse().map_err(|error| refused(format!("{error}")))?;
            let value: HeaderValue = value.parse().map_err(|error| refused(format!("{error}")))?;
            map.append(parsed, value);
        }
        let publication = PublishMessage::build().headers(map).payload(payload);
        Ok(Self { subject, publication })
    }
}

async fn publish_once(bus: &Bus, event: &PreparedEvent) -> Result<PendingPublish, PublishFailure> {
    bus.violations.forget_subject(&event.subject);
    let sent = bus.publish_to_stream(Label::EmitPublish, &event.subject, event.publication.clone()).await;
    sent.map_err(PublishFailure::from)
}

async fn wait_for_ack(
    bus: &Bus,
    event: &PreparedEvent,
    published: PendingPublish,
) -> Result<PublishAck, PublishFailure> {
    match bus.unless_refused(&event.subject, published.wait_for_ack().boxed()).await {
        Ok(answer) => answer.map_err(PublishFailure::from),
        Err(refused) => Err(PublishFailure::Refused(refused.to_string())),
    }
}

async fn publish_again(
    bus: &Bus,
    event: &PreparedEvent,
    mut failure: PublishFailure,
) -> Result<(), PublishError> {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(8));
    for resend in 0..REPUBLISH_MAX {
        if matches!(failure, PublishFailure::Refused(_)) {
            break;
        }
        // The first retry is immediate: after a crash of the broker there are many of these, and the broker
        // is already back.
        if resend > 0 {
            tokio::time::sleep(backoff.next_wait()).await;
        }
        let outcome = match publish_once(bus, event).await {
            Ok(published) => wait_for_ack(bus, event, published).await,
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(_) => return Ok(()),
            Err(again) => failure = again,
        }
    }
    let reason = match failure {
        PublishFailure::Lost(error) if error.kind() == PublishErrorKind::TimedOut => format!(
            "the broker did not confirm it in {} attempts ({error}): its disk may be full, which its log and `/readyz` of \
             `retro up` say; what it confirmed is safe, and sending everything again counts nothing twice",
            REPUBLISH_MAX + 1
        ),
        PublishFailure::Lost(error) => error.to_string(),
        PublishFailure::Refused(reason) => reason,
    };
    Err(PublishError { subject: event.subject.clone(), reason })
}

impl From<NatsError> for PublishFailure {
    fn from(error: NatsError) -> Self {
        match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => Self::Refused(error.to_string()),
            _ => Self::Lost(error),
        }
    }
}
