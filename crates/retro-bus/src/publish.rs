//! Publishing: our own messages out of the outbox, and events of engines for whoever emits them.

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
use retro_store::Sending;
use tracing::warn;

use crate::backoff::Backoff;
use crate::step::Published;
use crate::{Bus, topology};

/// How many publications may wait for their acknowledgement. Beyond 5,000 the client deadlocks; 256 already keep
/// the broker's disk busy, which does one fsync each.
const IN_FLIGHT_MAX: usize = 256;
/// How often one event is published again before emitting fails: about half a minute of a broker that is away.
const RESENDS_MAX: u32 = 6;

/// Sends messages of our own under their ids, so that the broker drops what it has already.
#[derive(Debug, Clone)]
pub struct NoticePublisher {
    bus: Bus,
}

impl NoticePublisher {
    /// A publisher over a connection.
    pub fn new(bus: Bus) -> Self {
        Self { bus }
    }
}

#[async_trait]
impl Publisher for NoticePublisher {
    async fn publish(&self, messages: &[Message]) -> Result<(), PublishError> {
        let mut waiting: VecDeque<(String, Published)> = VecDeque::with_capacity(IN_FLIGHT_MAX);
        for message in messages {
            if waiting.len() == IN_FLIGHT_MAX
                && let Some((subject, published)) = waiting.pop_front()
            {
                self.confirm(subject, published).await?;
            }
            let subject = subject::of_message(message);
            let payload = serde_json::to_vec(message).expect("a message is plain data");
            let mut headers = HeaderMap::new();
            headers.insert("Content-Type", "application/json");
            trace_headers(&mut headers, message.trace.as_ref());
            let publication = PublishMessage::build()
                .headers(headers)
                .message_id(message.id.to_string())
                .payload(payload.into());
            self.bus.refusals.forget(&subject);
            match self.bus.send(Label::RelayPublish, &subject, publication).await {
                Ok(published) => waiting.push_back((subject, published)),
                Err(error) => return Err(self.failed(subject, &error).await),
            }
        }
        for (subject, published) in waiting {
            self.confirm(subject, published).await?;
        }
        Ok(())
    }
}

impl NoticePublisher {
    async fn confirm(&self, subject: String, published: Published) -> Result<(), PublishError> {
        // An answer that says "duplicate" is as good: the broker has it.
        match self.bus.unless_refused(&subject, published.acknowledged().boxed()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(self.failed(subject, &error).await),
            Err(refused) => Err(PublishError { subject, reason: refused.to_string() }),
        }
    }

    /// A broker that lost its streams gets them back, so that the next attempt can succeed.
    async fn failed(&self, subject: String, error: &NatsError) -> PublishError {
        if error.kind() == PublishErrorKind::StreamNotFound
            && let Err(problem) = topology::prepare(&self.bus).await
        {
            warn!("no stream takes {subject}, and it could not be created: {problem}");
        }
        PublishError { subject, reason: error.to_string() }
    }
}

/// Lets whoever receives the message continue the trace.
pub(crate) fn trace_headers(headers: &mut HeaderMap, trace: Option<&TraceContext>) {
    let Some(trace) = trace else { return };
    headers.insert("traceparent", trace.parent());
    if let Some(state) = &trace.state {
        headers.insert("tracestate", state.as_str());
    }
}

/// An event as it goes to the broker.
#[derive(Debug, Clone)]
pub struct OutgoingEvent {
    /// The subject.
    pub subject: String,
    /// Header names and values; `Content-Type` and, in binary mode, the `ce-` attributes.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub payload: Bytes,
}

/// Publishes events in order, many at a time, and knows of each that the broker has it. An event whose outcome is
/// unknown is published again: counting it twice is prevented by its identity, not here.
pub struct EventPublisher {
    bus: Bus,
    /// Polled together, so that after a crash of the broker all lost answers time out at once and not one by one.
    waiting: FuturesOrdered<BoxFuture<'static, (Outgoing, Result<PublishAck, Failure>)>>,
    acknowledged: usize,
}

impl std::fmt::Debug for EventPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { waiting, acknowledged, .. } = self;
        f.debug_struct("EventPublisher")
            .field("waiting", &waiting.len())
            .field("acknowledged", acknowledged)
            .finish()
    }
}

/// Why the broker does not have an event.
#[derive(Debug)]
enum Failure {
    /// It may have been lost on the way.
    Lost(NatsError),
    /// Trying again would change nothing.
    Refused(String),
}

/// An event whose headers were checked, kept until the broker has it.
#[derive(Debug)]
struct Outgoing {
    subject: String,
    publication: PublishMessage,
}

impl EventPublisher {
    /// A publisher over a connection.
    pub fn new(bus: Bus) -> Self {
        Self { bus, waiting: FuturesOrdered::new(), acknowledged: 0 }
    }

    /// Publishes an event, waiting for older ones while too many are unacknowledged. Returns how many of all events so
    /// far the broker has for certain. Fails when an event is refused, or still not taken after several attempts.
    pub async fn publish_event(&mut self, event: OutgoingEvent) -> Result<usize, PublishError> {
        let event = Outgoing::try_from(event)?;
        if self.waiting.len() == IN_FLIGHT_MAX {
            self.confirm_oldest().await?;
        }
        match send(&self.bus, &event).await {
            Ok(published) => {
                let bus = self.bus.clone();
                self.waiting.push_back(Box::pin(async move {
                    let outcome = answer(&bus, &event, published).await;
                    (event, outcome)
                }));
            }
            Err(failure) => {
                // The older ones first, so that the order stays.
                self.finish().await?;
                send_again(&self.bus, &event, failure).await?;
                self.acknowledged += 1;
            }
        }
        Ok(self.acknowledged)
    }

    /// Waits until the broker has every event. Returns how many that were.
    pub async fn finish(&mut self) -> Result<usize, PublishError> {
        while !self.waiting.is_empty() {
            self.confirm_oldest().await?;
        }
        Ok(self.acknowledged)
    }

    async fn confirm_oldest(&mut self) -> Result<(), PublishError> {
        let Some((event, outcome)) = self.waiting.next().await else { return Ok(()) };
        if let Err(failure) = outcome {
            send_again(&self.bus, &event, failure).await?;
        }
        self.acknowledged += 1;
        Ok(())
    }
}

/// Why a dead letter was not sent again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResendError {
    /// It may have arrived or not; sending it again under its id is harmless.
    #[error("{0}")]
    Unavailable(PublishError),
    /// It is not taken, whenever it is asked.
    #[error("{0}")]
    Refused(PublishError),
}

/// Sends dead letters again: their bytes and headers as they came, under the id of the replay.
#[derive(Debug, Clone)]
pub struct Resender {
    bus: Bus,
}

impl Resender {
    /// One over a connection.
    pub fn new(bus: Bus) -> Self {
        Self { bus }
    }

    /// Sends one, and returns when the broker has it on disk.
    pub async fn send(&self, sending: &Sending) -> Result<(), ResendError> {
        let Sending { id, subject, headers, payload } = sending.clone();
        let event = OutgoingEvent { subject: subject.clone(), headers, payload: payload.into() };
        let mut event = Outgoing::try_from(event).map_err(ResendError::Refused)?;
        event.publication = event.publication.message_id(id.to_string());
        self.bus.refusals.forget(&subject);
        let sent = self.bus.send(Label::ReplayPublish, &subject, event.publication.clone()).await;
        let outcome = match sent.map_err(Failure::from) {
            Ok(ack) => answer(&self.bus, &event, ack).await,
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(_) => Ok(()),
            Err(Failure::Refused(reason)) => Err(ResendError::Refused(PublishError { subject, reason })),
            Err(Failure::Lost(error)) => {
                let notices = NoticePublisher::new(self.bus.clone());
                Err(ResendError::Unavailable(notices.failed(subject, &error).await))
            }
        }
    }
}

impl TryFrom<OutgoingEvent> for Outgoing {
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

async fn send(bus: &Bus, event: &Outgoing) -> Result<Published, Failure> {
    bus.refusals.forget(&event.subject);
    let sent = bus.send(Label::EmitPublish, &event.subject, event.publication.clone()).await;
    sent.map_err(Failure::from)
}

async fn answer(bus: &Bus, event: &Outgoing, published: Published) -> Result<PublishAck, Failure> {
    match bus.unless_refused(&event.subject, published.acknowledged().boxed()).await {
        Ok(answer) => answer.map_err(Failure::from),
        Err(refused) => Err(Failure::Refused(refused.to_string())),
    }
}

async fn send_again(bus: &Bus, event: &Outgoing, mut failure: Failure) -> Result<(), PublishError> {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(8));
    for resend in 0..RESENDS_MAX {
        if matches!(failure, Failure::Refused(_)) {
            break;
        }
        // The first time at once: after a crash of the broker there are many, and it is back already.
        if resend > 0 {
            tokio::time::sleep(backoff.next_wait()).await;
        }
        let outcome = match send(bus, event).await {
            Ok(published) => answer(bus, event, published).await,
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(_) => return Ok(()),
            Err(again) => failure = again,
        }
    }
    let reason = match failure {
        Failure::Lost(error) if error.kind() == PublishErrorKind::TimedOut => format!(
            "the broker did not confirm it in {} attempts ({error}): its disk may be full, which its log and `/readyz` of \
             `retro up` say; what it confirmed is safe, and sending everything again counts nothing twice",
            RESENDS_MAX + 1
        ),
        Failure::Lost(error) => error.to_string(),
        Failure::Refused(reason) => reason,
    };
    Err(PublishError { subject: event.subject.clone(), reason })
}

impl From<NatsError> for Failure {
    fn from(error: NatsError) -> Self {
        match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => Self::Refused(error.to_string()),
            _ => Self::Lost(error),
        }
    }
}
