//! Getting batches out of a pull consumer.
//!
//! **The need.** The next messages come in while the ones before are handled, so that broker and handler work side by
//! side. And after a stop nothing may be on its way to us: what reaches nobody is given out again only after the consumer's
//! `ack_wait`, and costs an attempt.
//!
//! **The design.** A request says how many messages are wanted and ends by itself after [`PULL_EXPIRES`]; the broker then
//! tells how many of them did not come. So it is known at every moment how many may still come. When stopping, nothing
//! more is asked for, and what comes is handled until every request has ended.
//!
//! A request also says how many bytes are wanted: a batch of large messages is a short one, and memory is bounded by what
//! they weigh, not by how many they are.
//!
//! **What failed.** The client's own endless stream asks again by itself and cannot be told to leave it. Unsubscribing,
//! also by way of the client's draining, loses what is on its way; and a message that is handed back while a request
//! stands comes to that request again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::consumer::Consumer;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::{StatusCode, Subject, Subscriber, jetstream};
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use retro_events::Delivery;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::{Bus, BusError};

/// How long one request stands at the broker, and so how long a stop waits when nothing comes.
const PULL_EXPIRES: Duration = Duration::from_secs(1);
/// Bytes that one request asks for at most: eight of the largest messages. Two requests stand at once, so this times two
/// is what large messages cost before anybody handles them.
const PULL_BYTES_MAX: usize = 8 * 1024 * 1024;
/// So long after its end a request that was not answered is lost, and so is the subscription.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// How often is looked whether the connection is another one, which has never heard of our requests.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A message with where to answer for it.
pub(super) struct Incoming {
    pub(super) delivery: Delivery,
    /// Nowhere, for one that the broker believes to be answered for.
    pub(super) reply: Option<Subject>,
}

/// What came of waiting for messages.
pub(super) enum Next {
    /// At least one message.
    Batch(Vec<Incoming>),
    /// The broker does not know of our requests any more.
    Silence,
    /// The subscription is over.
    Ended(String),
    /// We were told to stop, and nothing is on its way to us.
    Stopped,
}

/// A durable consumer's messages.
pub(super) struct Pull {
    bus: Bus,
    /// Where messages arrive.
    inbox: Subject,
    messages: Subscriber,
    /// Where they are asked for, and the question.
    ask: String,
    request: Bytes,
    batch_max: usize,
    /// Messages that were asked for and may still come.
    open: usize,
    /// When the last request is over for certain.
    over: Instant,
    /// Which of the client's connections the requests were made on.
    connection: u64,
    /// What ended the subscription, told after the messages that came before it.
    ended: Option<String>,
}

impl Pull {
    /// Subscribes, and asks for the first messages.
    pub(super) async fn open(
        bus: &Bus,
        consumer: &Consumer<Config>,
        batch_max: usize,
    ) -> Result<Self, BusError> {
        let failed = |error: &dyn std::fmt::Display| BusError::unavailable("subscribe", error);
        let connection = connection(bus);
        let inbox = Subject::from(bus.client.new_inbox());
        let messages = bus.client.subscribe(inbox.clone()).await.map_err(|error| failed(&error))?;
        let info = consumer.cached_info();
        // A request for fewer bytes than the next message has would end without it, again and again.
        let bytes_max = PULL_BYTES_MAX.max(2 * bus.client.server_info().max_payload);
        let request = serde_json::json!({
            "batch": batch_max,
            "max_bytes": bytes_max,
            "expires": PULL_EXPIRES.as_nanos() as u64,
        });
        let mut pull = Self {
            bus: bus.clone(),
            inbox,
            messages,
            ask: format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", info.stream_name, info.name),
            request: request.to_string().into(),
            batch_max,
            open: 0,
            over: Instant::now(),
            connection,
            ended: None,
        };
        pull.ask_for_more().await.map_err(|reason| failed(&reason))?;
        Ok(pull)
    }

    /// Waits for a message, then takes what else is there already. After the stop it goes on to give out what was asked
    /// for before.
    pub(super) async fn next(&mut self, stop: &CancellationToken) -> Next {
        loop {
            if let Some(reason) = self.ended.take() {
                return Next::Ended(reason);
            }
            if stop.is_cancelled() {
                if self.open == 0 || !self.bus.is_connected() {
                    return Next::Stopped;
                }
            } else if self.open <= self.batch_max / 2
                && let Err(reason) = self.ask_for_more().await
            {
                return Next::Ended(reason);
            }
            tokio::select! {
                biased;
                message = self.messages.next() => {
                    let batch = self.batch(message);
                    if !batch.is_empty() {
                        return Next::Batch(batch);
                    }
                }
                () = stop.cancelled(), if !stop.is_cancelled() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {
                    if Instant::now() > self.over || connection(&self.bus) != self.connection {
                        return if stop.is_cancelled() { Next::Stopped } else { Next::Silence };
                    }
                }
            }
        }
    }

    async fn ask_for_more(&mut self) -> Result<(), String> {
        let (ask, inbox) = (self.ask.clone(), self.inbox.clone());
        let asked = self.bus.pull(ask.into(), inbox, self.request.clone()).await;
        asked.map_err(|error| error.to_string())?;
        self.open += self.batch_max;
        self.over = Instant::now() + PULL_EXPIRES + SILENCE_MAX;
        Ok(())
    }

    /// What came first, and what is there without waiting. Unconstrained, or tokio's budget would end a batch at about 127
    /// messages.
    fn batch(&mut self, first: Option<async_nats::Message>) -> Vec<Incoming> {
        let mut batch = Vec::new();
        let mut arrived = Some(first);
        while let Some(message) = arrived {
            match message {
                Some(message) => batch.extend(self.take(message)),
                None => self.ended = Some("the subscription was closed".to_owned()),
            }
            if batch.len() >= self.batch_max || self.ended.is_some() {
                break;
            }
            arrived = tokio::task::unconstrained(self.messages.next()).now_or_never();
        }
        batch
    }

    /// A message, or nothing when the broker only says something of a request.
    fn take(&mut self, message: async_nats::Message) -> Option<Incoming> {
        let Some(status) = message.status.filter(|status| *status != StatusCode::OK) else {
            self.open = self.open.saturating_sub(1);
            return incoming(&jetstream::Message { message, context: self.bus.jetstream.clone() });
        };
        let told = message.description.as_deref().unwrap_or_default();
        let left = message.headers.as_ref().and_then(|headers| headers.get("Nats-Pending-Messages"));
        match left.and_then(|left| left.as_str().parse::<usize>().ok()) {
            Some(left) if !told.starts_with("Consumer") => self.open = self.open.saturating_sub(left),
            _ => self.ended = Some(format!("the broker ended a request: {status} {told}")),
        }
        None
    }
}

/// Counts the connections that the client has made.
fn connection(bus: &Bus) -> u64 {
    bus.client.statistics().connects.load(Ordering::Relaxed)
}

fn incoming(message: &jetstream::Message) -> Option<Incoming> {
    let (info, reply) = match (message.info(), message.reply.clone()) {
        (Ok(info), Some(reply)) => (info, reply),
        _ => {
            error!(subject = %message.subject, "a message without a JetStream reply was skipped");
            return None;
        }
    };
    let delivery = Delivery {
        stream: info.stream.to_owned(),
        subject: message.subject.to_string(),
        sequence: info.stream_sequence,
        headers: message.headers.as_ref().map(headers).unwrap_or_default(),
        payload: message.payload.clone(),
        delivered: u64::try_from(info.delivered).unwrap_or(1),
        stored_at: Timestamp::from_nanosecond(info.published.unix_timestamp_nanos())
            .unwrap_or(Timestamp::UNIX_EPOCH),
    };
    Some(Incoming { delivery, reply: Some(reply) })
}

/// The client keeps headers in a hash map: sorted by name, so that the same message always reads the same.
pub(super) fn headers(map: &async_nats::HeaderMap) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = map
        .iter()
        .flat_map(|(name, values)| values.iter().map(move |value| (name.to_string(), value.to_string())))
        .collect();
    headers.sort_by(|a, b| a.0.cmp(&b.0));
    headers
}
