//! Answering the broker: acknowledge, put off, bury.

use std::time::Duration;

use async_nats::{Request, Subject};
use bytes::Bytes;
use retro_core::dead_letter::{Code, Rejection};
use retro_events::{Delivery, Verdict, subject};
use retro_store::{NewDeadLetter, StoreError};
use tracing::{debug, error, info, warn};

use super::Worker;
use super::pull::Incoming;
use crate::Bus;

/// How long handing an answer to the client may take: it only fills a buffer, which is full while the broker is away.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The broker confirms an acknowledgement in less than a millisecond, or not at all.
const CONFIRM_MAX: Duration = Duration::from_millis(500);
/// How long a message waits whose dead letter could not be stored because the database was away.
const STORE_AWAY: Duration = Duration::from_secs(2);
/// The same when the database holds something unreadable, which only a person can mend.
const STORE_DAMAGED: Duration = Duration::from_secs(60);

/// Acknowledgements of one batch: plain ones, and the last one confirmed.
pub(super) struct Acks<'a> {
    bus: &'a Bus,
    last: Option<Subject>,
}

impl<'a> Acks<'a> {
    pub(super) const fn new(bus: &'a Bus) -> Self {
        Self { bus, last: None }
    }

    /// Acknowledges a message whose effects are committed.
    async fn push(&mut self, reply: Subject) {
        if let Some(before) = self.last.replace(reply) {
            send(self.bus, &before, ACK).await;
        }
    }

    /// Sends the last one and waits until the broker says that it has it, which it then has of the others, too. What
    /// is not confirmed comes again. The broker does not answer for a message that it has not asked about, which after
    /// a crash of it are many: so the wait is short.
    pub(super) async fn confirm(self) {
        let Some(reply) = self.last else { return };
        let ack = Request::new().payload(ACK).timeout(Some(CONFIRM_MAX));
        if let Err(error) = self.bus.client.send_request(reply, ack).await {
            debug!("the broker did not confirm an acknowledgement; its message may come again: {error}");
        }
    }
}

const ACK: Bytes = Bytes::from_static(b"+ACK");

impl Worker {
    /// Does what the verdict says. `attempt` counts this one.
    pub(super) async fn answer(&self, one: &Incoming, verdict: Verdict, attempt: u32, acks: &mut Acks<'_>) {
        match verdict {
            Verdict::Done => acks.push(one.reply.clone()).await,
            Verdict::DeadLetter(rejection) => self.bury(one, rejection, attempt, acks).await,
            Verdict::Snooze { wait, reason } => self.snooze(one, wait, &reason).await,
            Verdict::RetryAfter { reason, .. } if attempt >= self.subscription.attempts_max => {
                let detail = format!("it failed {attempt} times; the last time: {reason}");
                self.bury(one, Rejection::whole(Code::AttemptsExhausted, detail), attempt, acks).await;
            }
            Verdict::RetryAfter { wait, reason } => {
                let Delivery { subject, sequence, .. } = &one.delivery;
                let consumer = self.consumer.name();
                warn!(
                    consumer,
                    subject, sequence, attempt, "{consumer} failed on message {sequence}: {reason}"
                );
                self.put_off(&one.reply, wait).await;
            }
        }
    }

    /// Stores a message as a dead letter, whole, and only then acknowledges it.
    pub(super) async fn bury(
        &self,
        one: &Incoming,
        rejection: Rejection,
        attempts: u32,
        acks: &mut Acks<'_>,
    ) {
        let letter = self.letter(&one.delivery, rejection, attempts);
        let (consumer, Delivery { subject, sequence, .. }) = (self.consumer.name(), &one.delivery);
        match self.store.bury(&letter).await {
            Ok(id) => {
                let NewDeadLetter { rejection, attempts, .. } = &letter;
                // The detail may quote a field, so only the code and the path are logged.
                let (code, path) = (rejection.code, rejection.path.as_deref());
                warn!(consumer, subject, sequence, attempts, %code, path, dead_letter.id = %id, "buried message {sequence} as dead letter {id}: {code}");
                acks.push(one.reply.clone()).await;
            }
            Err(StoreError::Unavailable(reason)) => self.snooze(one, STORE_AWAY, &reason).await,
            Err(error) => {
                error!(
                    consumer,
                    subject, sequence, "the dead letter of message {sequence} could not be stored: {error}"
                );
                self.snooze(one, STORE_DAMAGED, "its dead letter could not be stored").await;
            }
        }
    }

    /// Puts a message off without spending an attempt.
    pub(super) async fn snooze(&self, one: &Incoming, wait: Duration, reason: &str) {
        let (consumer, Delivery { subject, sequence, .. }) = (self.consumer.name(), &one.delivery);
        {
            let mut snoozed = self.snoozed();
            // When the database is away, thousands are put off: one line says it.
            if snoozed.is_empty() {
                info!(consumer, subject, sequence, "{consumer} puts messages off: {reason}");
            } else {
                debug!(consumer, subject, sequence, "{consumer} puts message {sequence} off: {reason}");
            }
            // More than can be pending: what is left over belongs to messages that the broker has dropped.
            if snoozed.len() > self.subscription.ack_pending_max as usize {
                snoozed.clear();
            }
            snoozed.insert(*sequence);
        }
        self.put_off(&one.reply, wait).await;
    }

    /// Asks the broker to deliver a message again after `wait`.
    pub(super) async fn put_off(&self, reply: &Subject, wait: Duration) {
        let nak = format!("-NAK {{\"delay\":{}}}", wait.as_nanos());
        send(&self.bus, reply, nak.into()).await;
    }

    fn letter(&self, delivery: &Delivery, rejection: Rejection, attempts: u32) -> NewDeadLetter {
        let (tenant, workflow) = subject::owner(&delivery.subject);
        NewDeadLetter {
            position: self.position(delivery),
            tenant,
            workflow,
            subject: delivery.subject.clone(),
            headers: delivery.headers.clone(),
            payload: delivery.payload.to_vec(),
            rejection,
            attempts,
            stored_at: delivery.stored_at,
        }
    }
}

/// Hands an answer to the client. What does not get through is asked again by the broker.
pub(super) async fn send(bus: &Bus, reply: &Subject, answer: Bytes) {
    match tokio::time::timeout(ANSWER_MAX, bus.client.publish(reply.clone(), answer)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!("an answer was not sent; its message comes again: {error}"),
        Err(_) => {
            debug!("an answer was not taken within {} s; its message comes again", ANSWER_MAX.as_secs())
        }
    }
}
