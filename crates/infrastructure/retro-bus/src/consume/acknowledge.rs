//! Acknowledges, defers or dead-letters messages, and sends the corresponding replies to the broker.

use std::time::Duration;

use async_nats::client::PublishError;
use async_nats::{Request, Subject};
use bytes::Bytes;
use retro_consumer::{HandlerOutcome, STORE_RETRY_DELAY};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_events::{Delivery, subject};
use retro_fault::Label;
use retro_store::{AttemptFailure, IncomingReplay, NewDeadLetter, StoreError};
use tracing::{debug, error, info, warn};

use super::pull::Incoming;
use super::worker::{Deferral, Worker};
use crate::Bus;

/// Timeout for the client to accept a reply into its buffer, which is full only while the broker is
/// unreachable.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the broker to confirm an acknowledgement. The broker confirms in less than a millisecond or
/// not at all.
const CONFIRM_TIMEOUT: Duration = Duration::from_millis(500);
/// Delay for a message whose dead letter could not be stored because stored data is unreadable. Only an
/// operator can repair that.
const STORE_CORRUPT_WAIT: Duration = Duration::from_secs(60);

/// Unsent acknowledgements of one batch. The last one is held back so that the broker can confirm it.
pub(super) struct PendingAcks<'a> {
    bus: &'a Bus,
    last: Option<(Subject, Label)>,
}

impl<'a> PendingAcks<'a> {
    pub(super) const fn new(bus: &'a Bus) -> Self {
        Self { bus, last: None }
    }

    /// Acknowledges a message whose dead letter is stored.
    async fn push_dead_letter(&mut self, one: &Incoming) {
        self.push(one.reply.clone(), Label::DeadLetterAck).await;
    }

    /// Adds the acknowledgement of a message whose effects are committed. A message without a reply subject is skipped.
    async fn push(&mut self, reply: Option<Subject>, label: Label) {
        let Some(reply) = reply else { return };
        // Hold the newest one back for `confirm_last`, and send the one before it unconfirmed.
        if let Some((before, label)) = self.last.replace((reply, label)) {
            send_reply(self.bus, label, before, ACK).await;
        }
    }

    /// Sends and flushes all pending acknowledgements. Called before a message that may kill the process is
    /// handled. Otherwise an already handled message of the batch would be redelivered after each crash and
    /// become a suspect itself.
    pub(super) async fn send_all(&mut self) {
        let Some((reply, label)) = self.last.take() else { return };
        send_reply(self.bus, label, reply, ACK).await;
        if let Err(error) = self.bus.flush(SEND_TIMEOUT).await {
            debug!("acknowledgements were not flushed; their messages may be redelivered: {error}");
        }
    }

    /// Sends the last acknowledgement and waits until the broker confirms it, which also covers the earlier
    /// acknowledgements. Unconfirmed messages are redelivered. The timeout is short, because the broker does
    /// not reply for a message that it does not consider pending, and there are many such messages after a
    /// crash of the broker.
    pub(super) async fn confirm_last(self) {
        let Some((reply, label)) = self.last else { return };
        let ack = Request::new().payload(ACK).timeout(Some(CONFIRM_TIMEOUT));
        if let Err(error) = self.bus.request_answer(label, reply, ack).await {
            debug!("the broker did not confirm an acknowledgement; its message may be redelivered: {error}");
        }
    }
}

const ACK: Bytes = Bytes::from_static(b"+ACK");

impl Worker {
    /// Applies the handler's outcome to one message. `attempt` is the 1-based number of the current attempt.
    pub(super) async fn apply_outcome(
        &self,
        one: &Incoming,
        verdict: HandlerOutcome,
        attempt: u32,
        acks: &mut PendingAcks<'_>,
    ) {
        match verdict {
            HandlerOutcome::Done => self.acknowledge_handled(one, false, acks).await,
            HandlerOutcome::Duplicate => self.acknowledge_handled(one, true, acks).await,
            HandlerOutcome::DeadLetter(rejection) => {
                self.store_dead_letter(one, rejection, attempt, acks).await
            }
            HandlerOutcome::Snooze { wait, reason } => self.defer_message(one, wait, &reason).await,
            HandlerOutcome::RetryAfter { reason, .. } if attempt >= self.subscription.attempts_max => {
                let detail = format!("it failed {attempt} times; the last time: {reason}");
                self.store_dead_letter(
                    one,
                    Rejection::of_message(DeadLetterCode::AttemptsExhausted, detail),
                    attempt,
                    acks,
                )
                .await;
            }
            HandlerOutcome::RetryAfter { wait, reason } => {
                let Delivery { subject, sequence, .. } = &one.delivery;
                let consumer = self.consumer.name();
                warn!(
                    consumer,
                    subject, sequence, attempt, "{consumer} failed on message {sequence}: {reason}"
                );
                self.record_failure(one, attempt, &reason).await;
                self.retry_later(&one.reply, wait).await;
            }
        }
    }

    /// Acknowledges a message whose effects are stored. If the message is a replay, its result is stored
    /// first.
    async fn acknowledge_handled(&self, one: &Incoming, known: bool, acks: &mut PendingAcks<'_>) {
        let Delivery { subject, headers, payload, .. } = &one.delivery;
        if let Some(resent) = IncomingReplay::from_message(self.consumer.name(), subject, headers, payload) {
            match self.store.end_replay(&resent, known).await {
                Ok(true) => {
                    retro_telemetry::metrics::REPLAYS_ENDED.add(1, [if known { "known" } else { "handled" }])
                }
                // The replay had already ended, or this message is not a replay: anyone who may publish can
                // set the header.
                Ok(false) => {}
                Err(problem) => {
                    let away = matches!(problem, StoreError::Unavailable(_));
                    let wait = if away { STORE_RETRY_DELAY } else { STORE_CORRUPT_WAIT };
                    let reason = format!("what came of a replay was not stored: {problem}");
                    return self.defer_message(one, wait, &reason).await;
                }
            }
        }
        self.record_outcome(if known { "known" } else { "done" });
        acks.push(one.reply.clone(), self.subscription.ack_label).await;
    }

    fn record_outcome(&self, verdict: &'static str) {
        retro_telemetry::metrics::HANDLER_OUTCOMES.add(1, [self.consumer.name(), verdict]);
    }

    /// Stores the complete message as a dead letter and then acknowledges it.
    pub(super) async fn store_dead_letter(
        &self,
        one: &Incoming,
        rejection: Rejection,
        attempts: u32,
        acks: &mut PendingAcks<'_>,
    ) {
        let letter = self.build_dead_letter(&one.delivery, rejection, attempts);
        let (consumer, Delivery { subject, sequence, .. }) = (self.consumer.name(), &one.delivery);
        match self.store.store_dead_letter(&letter).await {
            Ok(id) => {
                let NewDeadLetter { rejection, attempts, .. } = &letter;
                // The detail may quote a field of the payload, so only the code and the path are logged.
                let (code, path) = (rejection.code, rejection.path.as_deref());
                warn!(consumer, subject, sequence, attempts, %code, path, dead_letter.id = %id, "stored message {sequence} as dead letter {id}: {code}");
                self.record_outcome("dead_letter");
                retro_telemetry::metrics::DEAD_LETTERS_STORED.add(1, [consumer, code.as_str()]);
                // A failed replay does not get its own dead letter; the original dead letter is reopened.
                if id != letter.id() {
                    retro_telemetry::metrics::REPLAYS_ENDED.add(1, ["failed"]);
                }
                acks.push_dead_letter(one).await;
            }
            Err(StoreError::Unavailable(reason)) => {
                self.defer_dead_letter(one, &letter, STORE_RETRY_DELAY, &reason).await
            }
            Err(error) => {
                error!(
                    consumer,
                    subject, sequence, "the dead letter of message {sequence} could not be stored: {error}"
                );
                let reason = "its dead letter could not be stored";
                self.defer_dead_letter(one, &letter, STORE_CORRUPT_WAIT, reason).await;
            }
        }
    }

    /// Defers a message whose dead letter could not be stored. A message whose handler returned an outcome
    /// may be handled again; a message whose attempts are used up may only be dead-lettered again.
    async fn defer_dead_letter(&self, one: &Incoming, letter: &NewDeadLetter, wait: Duration, reason: &str) {
        match letter.rejection.code {
            DeadLetterCode::HandlerPanicked | DeadLetterCode::AttemptsExhausted => {
                self.defer_suspect(one, wait, reason).await
            }
            _ => self.defer_message(one, wait, reason).await,
        }
    }

    /// Acknowledges a redelivered message whose dead letter is already stored.
    pub(super) async fn acknowledge_dead_letter(&self, one: &Incoming, acks: &mut PendingAcks<'_>) {
        self.record_outcome("known");
        acks.push_dead_letter(one).await;
    }

    /// Records why an attempt failed, for the dead letter that the message may become. The message is retried even if
    /// the reason cannot be stored.
    pub(super) async fn record_failure(&self, one: &Incoming, attempt: u32, reason: &str) {
        let failure = AttemptFailure::from_error(attempt, reason);
        if let Err(error) = self.store.record_failure(&self.position_of(&one.delivery), &failure).await {
            let sequence = one.delivery.sequence;
            debug!(
                sequence,
                attempt, "the failure of attempt {attempt} at message {sequence} was not recorded: {error}"
            );
        }
    }

    /// Defers a message without using up an attempt. When redelivered, it is handled as if for the first
    /// time.
    pub(super) async fn defer_message(&self, one: &Incoming, wait: Duration, reason: &str) {
        self.remember_deferral(&one.delivery, Deferral::Snoozed, reason);
        self.record_outcome("snooze");
        self.nak_with_delay(&one.reply, wait).await;
    }

    /// Defers a message as a suspect, without using up an attempt. When redelivered, it is handled alone.
    pub(super) async fn defer_suspect(&self, one: &Incoming, wait: Duration, reason: &str) {
        self.remember_deferral(&one.delivery, Deferral::Suspect, reason);
        self.record_outcome("snooze");
        self.nak_with_delay(&one.reply, wait).await;
    }

    fn remember_deferral(&self, delivery: &Delivery, how: Deferral, reason: &str) {
        let (consumer, Delivery { subject, sequence, .. }) = (self.consumer.name(), delivery);
        let mut put_off = self.lock_deferred();
        // If the database is unreachable, thousands of messages are deferred; only the first is logged at
        // info.
        if put_off.is_empty() {
            info!(consumer, subject, sequence, "{consumer} defers messages: {reason}");
        } else {
            debug!(consumer, subject, sequence, "{consumer} defers message {sequence}: {reason}");
        }
        // More entries than messages can be pending: the rest are of messages that the broker has dropped.
        if put_off.len() > self.subscription.ack_pending_max as usize {
            put_off.clear();
        }
        put_off.insert(*sequence, how);
    }

    /// Defers a message whose attempt failed. The attempt is used up.
    pub(super) async fn retry_later(&self, reply: &Option<Subject>, wait: Duration) {
        self.record_outcome("retry");
        self.nak_with_delay(reply, wait).await;
    }

    /// Asks the broker to redeliver a message after `wait`.
    async fn nak_with_delay(&self, reply: &Option<Subject>, wait: Duration) {
        let Some(reply) = reply else { return };
        let nak = format!("-NAK {{\"delay\":{}}}", wait.as_nanos());
        send_reply(&self.bus, Label::DeferNak, reply.clone(), nak.into()).await;
    }

    fn build_dead_letter(&self, delivery: &Delivery, rejection: Rejection, attempts: u32) -> NewDeadLetter {
        let (tenant, workflow) = subject::parse_owner(&delivery.subject);
        NewDeadLetter {
            position: self.position_of(delivery),
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

/// Passes a reply to the client, which sends it. If the reply is lost, the broker redelivers the message.
async fn send_reply(bus: &Bus, label: Label, reply: Subject, answer: Bytes) {
    wait_until_buffered(bus.send_reply(label, reply, answer)).await;
}

/// Waits until the client has accepted a reply into its buffer.
pub(super) async fn wait_until_buffered(sent: impl Future<Output = Result<(), PublishError>>) {
    match tokio::time::timeout(SEND_TIMEOUT, sent).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!("a reply was not sent; its message is redelivered: {error}"),
        Err(_) => {
            debug!("a reply was not buffered within {} s; its message is redelivered", SEND_TIMEOUT.as_secs())
        }
    }
}
