//! Spans of messages, as the conventions for messaging want them.

use retro_core::message::Message;
use retro_events::{Delivery, Verdict, subject};

use crate::{Cause, Kind, Work};

/// Begins the span of handling one message, `destination` being its subject without tenant and workflow: continuing what sent
/// it, or linked to it when it was delivered before or is replayed.
pub fn process(delivery: &Delivery, consumer: &'static str, destination: &'static str) -> Work {
    let trace = delivery.trace();
    let cause = Cause::of(trace.as_ref(), delivery.is_repeated());
    let work = Work::begin(format!("process {destination}"), Kind::Consumer, cause);
    describe(&work, "process", destination);
    work.note("messaging.consumer.group.name", consumer);
    work.note("retro.delivered", i64::try_from(delivery.delivered).unwrap_or(i64::MAX));
    work
}

/// Begins the span of handling a batch, which belongs to no trace of its messages.
pub fn process_batch(messages: usize, consumer: &'static str, destination: &'static str) -> Work {
    let work = Work::begin(format!("process {destination}"), Kind::Consumer, Cause::Nothing);
    describe(&work, "process", destination);
    work.note("messaging.consumer.group.name", consumer);
    work.note("messaging.batch.message_count", i64::try_from(messages).unwrap_or(i64::MAX));
    work
}

/// Begins the span of sending a message of ours, continuing what wrote it; `None` when nobody traced that.
pub fn send(message: &Message) -> Option<Work> {
    let cause = Cause::Continues(message.trace.as_ref()?);
    let destination = subject::prefix_of(&message.notice);
    let work = Work::begin(format!("send {destination}"), Kind::Producer, cause);
    describe(&work, "send", destination);
    work.note("messaging.message.id", message.id.to_string());
    Some(work)
}

/// Begins the span of sending an event to `destination`, within what is at work here.
pub fn send_event(destination: &'static str) -> Work {
    let work = Work::begin(format!("send {destination}"), Kind::Producer, Cause::Current);
    describe(&work, "send", destination);
    work
}

/// Says what became of a message.
pub fn answered(work: &Work, verdict: &Verdict) {
    match verdict {
        Verdict::Done | Verdict::Known => {}
        Verdict::RetryAfter { .. } => work.failed("retried"),
        Verdict::Snooze { .. } => work.failed("put_off"),
        Verdict::DeadLetter(rejection) => work.failed(rejection.code.as_str()),
    }
}

fn describe(work: &Work, operation: &'static str, destination: &'static str) {
    work.note("messaging.system", "nats");
    work.note("messaging.operation.type", operation);
    work.note("messaging.operation.name", operation);
    work.note("messaging.destination.name", destination);
}
