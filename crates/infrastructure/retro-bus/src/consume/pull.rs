//! Receives batches of messages from a pull consumer.
//!
//! **The need.** The next messages have to arrive while the previous ones are handled, so that broker and handler work
//! in parallel. After a stop, no message may still be in flight: the broker redelivers a message that nobody received
//! only after the consumer's `ack_wait`, and the redelivery counts as an attempt.
//!
//! **The design.** A request states the number of messages and expires after [`PULL_EXPIRES`]; the broker
//! then reports how many of them it did not send. The number of messages that may still arrive is therefore
//! always known. After a stop no more messages are requested, and those that arrive are handled until every
//! request has ended.
//!
//! A request also limits the bytes: a batch of large messages is short, and memory is bounded by size, not by
//! count.
//!
//! **Rejected.** The client's own endless stream keeps requesting messages and cannot be stopped. Unsubscribing loses
//! the messages in flight, even with the client's drain. Returning those messages does not help either, because a
//! message that is returned while a request is open is delivered to that request again.

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

/// Time after which a request for messages expires at the broker. A stop waits at most this long if no message arrives.
const PULL_EXPIRES: Duration = Duration::from_secs(1);
/// Maximum number of bytes per request: eight of the largest messages. Two requests are open at once, so
/// messages that wait to be handled use at most twice this much memory.
const PULL_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Grace period after the expiry of a request in which the broker must report its end. After that, the
/// subscription is considered lost.
const RESPONSE_GRACE: Duration = Duration::from_secs(3);
/// Interval of the check for a new connection. The broker forgets the requests of a connection that is
/// replaced.
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// A message and the subject for its acknowledgement.
pub(super) struct Incoming {
    pub(super) delivery: Delivery,
    /// Reply subject; `None` for a message that the broker considers acknowledged.
    pub(super) reply: Option<Subject>,
}

/// Result of waiting for the messages of a subscription.
pub(super) enum PullEvent {
    /// At least one message arrived.
    Batch(Vec<Incoming>),
    /// The open requests expired without a reply, or the connection was replaced. The caller must subscribe again.
    Unresponsive,
    /// The subscription ended, for this reason.
    Closed(String),
    /// The consumer was stopped, and no message is in flight.
    Stopped,
}

/// Subscription to the messages of a durable consumer.
pub(super) struct PullSubscription {
    bus: Bus,
    /// Subject on which the requested messages arrive.
    inbox: Subject,
    messages: Subscriber,
    /// Subject to which requests for messages are sent.
    request_subject: String,
    request: Bytes,
    batch_max: usize,
    /// Number of requested messages that may still arrive.
    outstanding: usize,
    /// Latest time at which the last request ends.
    expires_at: Instant,
    /// Number of the connection on which the requests were made, as counted by the client.
    connection_number: u64,
    /// Reason why the subscription ended; `None` while it is open. Returned after the messages that arrived
    /// before the end.
    closed_reason: Option<String>,
}

impl PullSubscription {
    /// Subscribes to the consumer's messages and requests the first ones.
    pub(super) async fn subscribe(
        bus: &Bus,
        consumer: &Consumer<Config>,
        batch_max: usize,
    ) -> Result<Self, BusError> {
        let failed = |error: &dyn std::fmt::Display| BusError::unavailable("subscribe", error);
        // Before the subscription: a reconnection in between must not go unnoticed.
        let connection = count_connections(bus);
        let inbox = Subject::from(bus.client.new_inbox());
        let messages = bus.client.subscribe(inbox.clone()).await.map_err(|error| failed(&error))?;
        let info = consumer.cached_info();
        // With fewer bytes than the next message has, every request would end without it.
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
            request_subject: format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", info.stream_name, info.name),
            request: request.to_string().into(),
            batch_max,
            outstanding: 0,
            expires_at: Instant::now(),
            connection_number: connection,
            closed_reason: None,
        };
        pull.request_batch().await.map_err(|reason| failed(&reason))?;
        Ok(pull)
    }

    /// Waits for a message and returns it together with all others that have already arrived. After a stop it continues
    /// until every requested message has arrived or its request has ended.
    pub(super) async fn next(&mut self, stop: &CancellationToken) -> PullEvent {
        loop {
            if let Some(reason) = self.closed_reason.take() {
                return PullEvent::Closed(reason);
            }
            if stop.is_cancelled() {
                // Without a connection, no requested message can arrive.
                if self.outstanding == 0 || !self.bus.is_connected() {
                    return PullEvent::Stopped;
                }
            // Requested early, so that the next messages arrive while the previous ones are handled.
            } else if self.outstanding <= self.batch_max / 2
                && let Err(reason) = self.request_batch().await
            {
                return PullEvent::Closed(reason);
            }
            tokio::select! {
                // Messages first, so that arrived messages are handled before a stop or the timer is noticed.
                biased;
                message = self.messages.next() => {
                    let batch = self.collect_batch(message);
                    if !batch.is_empty() {
                        return PullEvent::Batch(batch);
                    }
                }
                () = stop.cancelled(), if !stop.is_cancelled() => {}
                () = tokio::time::sleep(CONNECTION_CHECK_INTERVAL) => {
                    if Instant::now() > self.expires_at || count_connections(&self.bus) != self.connection_number {
                        return if stop.is_cancelled() { PullEvent::Stopped } else { PullEvent::Unresponsive };
                    }
                }
            }
        }
    }

    async fn request_batch(&mut self) -> Result<(), String> {
        let (subject, inbox) = (self.request_subject.clone(), self.inbox.clone());
        let sent = self.bus.request_messages(subject.into(), inbox, self.request.clone()).await;
        sent.map_err(|error| error.to_string())?;
        self.outstanding += self.batch_max;
        self.expires_at = Instant::now() + PULL_EXPIRES + RESPONSE_GRACE;
        Ok(())
    }

    /// Collects the first message and all others that are available without waiting. Polls outside tokio's
    /// cooperative budget, which would end a batch at about 127 messages.
    fn collect_batch(&mut self, first: Option<async_nats::Message>) -> Vec<Incoming> {
        let mut batch = Vec::new();
        let mut arrived = Some(first);
        while let Some(message) = arrived {
            match message {
                Some(message) => batch.extend(self.accept_message(message)),
                None => self.closed_reason = Some("the subscription was closed".to_owned()),
            }
            if batch.len() >= self.batch_max || self.closed_reason.is_some() {
                break;
            }
            arrived = tokio::task::unconstrained(self.messages.next()).now_or_never();
        }
        batch
    }

    /// Returns the message, or `None` if it is the broker's status message about a request.
    fn accept_message(&mut self, message: async_nats::Message) -> Option<Incoming> {
        let Some(status) = message.status.filter(|status| *status != StatusCode::OK) else {
            self.outstanding = self.outstanding.saturating_sub(1);
            return parse_incoming(&jetstream::Message { message, context: self.bus.jetstream.clone() });
        };
        let description = message.description.as_deref().unwrap_or_default();
        let left = message.headers.as_ref().and_then(|headers| headers.get("Nats-Pending-Messages"));
        match left.and_then(|left| left.as_str().parse::<usize>().ok()) {
            // A status such as `Consumer Deleted` ends the subscription, although it may contain a pending
            // count too.
            Some(left) if !description.starts_with("Consumer") => {
                self.outstanding = self.outstanding.saturating_sub(left)
            }
            _ => self.closed_reason = Some(format!("the broker ended a request: {status} {description}")),
        }
        None
    }
}

/// Returns the number of connections that the client has made so far.
fn count_connections(bus: &Bus) -> u64 {
    bus.client.statistics().connects.load(Ordering::Relaxed)
}

fn parse_incoming(message: &jetstream::Message) -> Option<Incoming> {
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
        headers: message.headers.as_ref().map(sorted_headers).unwrap_or_default(),
        payload: message.payload.clone(),
        delivered: u64::try_from(info.delivered).unwrap_or(1),
        stored_at: Timestamp::from_nanosecond(info.published.unix_timestamp_nanos())
            .unwrap_or(Timestamp::UNIX_EPOCH),
    };
    Some(Incoming { delivery, reply: Some(reply) })
}

/// Returns the headers sorted by name. The client stores them in a hash map, but equal messages must always give equal
/// lists.
pub(super) fn sorted_headers(map: &async_nats::HeaderMap) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = map
        .iter()
        .flat_map(|(name, values)| values.iter().map(move |value| (name.to_string(), value.to_string())))
        .collect();
    headers.sort_by(|a, b| a.0.cmp(&b.0));
    headers
}
