//! Starts spans for messages, following the OpenTelemetry semantic conventions for messaging.

use retro_core::message::Message;
use retro_events::{Delivery, subject};

use super::{Kind, Span, SpanParent};

/// Starts the span for handling one message. `destination` is the subject of the message without tenant and
/// workflow. The span continues the sender's trace. For a redelivered or replayed message, the span starts a new
/// trace with a link to the sender's span.
pub fn start_process_span(delivery: &Delivery, consumer: &'static str, destination: &'static str) -> Span {
    let trace = delivery.trace_context();
    let cause = SpanParent::from_trace(trace.as_ref(), delivery.is_repeated());
    let span = Span::start(format!("process {destination}"), Kind::Consumer, cause);
    set_messaging_attributes(&span, "process", destination);
    span.set_attribute("messaging.consumer.group.name", consumer);
    span.set_attribute("retro.delivery_count", i64::try_from(delivery.delivered).unwrap_or(i64::MAX));
    span
}

/// Starts the span for handling a batch of messages. The span starts a new trace, because the messages of a
/// batch belong to different traces.
pub fn start_batch_span(messages: usize, consumer: &'static str, destination: &'static str) -> Span {
    let span = Span::start(format!("process {destination}"), Kind::Consumer, SpanParent::Root);
    set_messaging_attributes(&span, "process", destination);
    span.set_attribute("messaging.consumer.group.name", consumer);
    span.set_attribute("messaging.batch.message_count", i64::try_from(messages).unwrap_or(i64::MAX));
    span
}

/// Starts the span for sending one of our own messages, as a child of the span that wrote the message. Returns
/// `None` if the message carries no trace context.
pub fn start_send_span(message: &Message) -> Option<Span> {
    // No root span: without the writer's context the span could not be related to anything.
    let cause = SpanParent::Remote(message.trace.as_ref()?);
    let destination = subject::notice_prefix(&message.notice);
    let span = Span::start(format!("send {destination}"), Kind::Producer, cause);
    set_messaging_attributes(&span, "send", destination);
    span.set_attribute("messaging.message.id", message.id.to_string());
    Some(span)
}

/// Starts the span for sending an event to `destination`, as a child of the current span.
pub fn start_send_event_span(destination: &'static str) -> Span {
    let span = Span::start(format!("send {destination}"), Kind::Producer, SpanParent::Current);
    set_messaging_attributes(&span, "send", destination);
    span
}

fn set_messaging_attributes(span: &Span, operation: &'static str, destination: &'static str) {
    span.set_attribute("messaging.system", "nats");
    span.set_attribute("messaging.operation.type", operation);
    span.set_attribute("messaging.operation.name", operation);
    span.set_attribute("messaging.destination.name", destination);
}
