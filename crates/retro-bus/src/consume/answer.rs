//! Answering the broker: acknowledge, put off, bury.

use std::time::Duration;

use async_nats::client::PublishError;
use async_nats::{Request, Subject};
use bytes::Bytes;
use retro_core::dead_letter::{Code, Rejection};
use retro_events::{Delivery, Verdict, subject};
use retro_fault::Label;
use retro_store::{Failure, NewDeadLetter, Resent, StoreError};
use tracing::{debug, error, info, warn};

use super::pull::Incoming;
use super::{PutOff, Worker};
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
    last: Option<(Subject, Label)>,
}

impl<'a> Acks<'a> {
    pub(super) const fn new(bus: &'a Bus) -> Self {
        Self { bus, last: None }
    }

    /// Acknowledges a message whose dead letter is stored.
    async fn push_dead_letter(&mut self, one: &Incoming) {
        self.push(one.reply.clone(), Label::BuryAck).await;
    }

    /// Acknowledges a message whose effects are committed.
    async fn push(&mut self, reply: Option<Subject>, label: Label) {
        let Some(reply) = reply else { return };
        if let Some((before, label)) = self.last.replace((reply, label)) {
            send(self.bus, label, before, ACK).await;
        }
    }

    /// Sends all there are, down to the wire. Before something is handled that may take the process along: its neighbour,
    /// long done, would come again with every attempt at it and be taken for the culprit in the end.
    pub(super) async fn send_all(&mut self) {
        let Some((reply, label)) = self.last.take() else { return };
        send(self.bus, label, reply, ACK).await;
        if let Err(error) = self.bus.flush(ANSWER_MAX).await {
            debug!("acknowledgements are still on their way; their messages may come again: {error}");
        }
    }

    /// Sends the last one and waits until the broker says that it has it, which it then has of the others, too. What
    /// is not confirmed comes again. The broker does not answer for a message that it has not asked about, which after
    /// a crash of it are many: so the wait is short.
    pub(super) async fn confirm(self) {
        let Some((reply, label)) = self.last else { return };
        let ack = Request::new().payload(ACK).timeout(Some(CONFIRM_MAX));
        if let Err(error) = self.bus.call(label, reply, ack).await {
            debug!("the broker did not confirm an acknowledgement; its message may come again: {error}");
        }
    }
}

const ACK: Bytes = Bytes::from_static(b"+ACK");

impl Worker {
    /// Does what the verdict says. `attempt` counts this one.
    pub(super) async fn answer(&self, one: &Incoming, verdict: Verdict, attempt: u32, acks: &mut Acks<'_>) {
        match verdict {
            Verdict::Done => self.done(one, false, acks).await,
            Verdict::Known => self.done(one, true, acks).await,
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
                self.note_failure(one, attempt, &reason).await;
                self.try_again(&one.reply, wait).await;
            }
        }
    }

    /// Acknowledges a message whose effects are stored; of a replay, what came of it is stored first.
    async fn done(&self, one: &Incoming, known: bool, acks: &mut Acks<'_>) {
        let Delivery { subject, headers, payload, .. } = &one.delivery;
        if let Some(resent) = Resent::of(self.consumer.name(), subject, headers, payload) {
            match self.store.settle(&resent, known).await {
                Ok(true) => retro_meter::REPLAYED.add(1, [if known { "known" } else { "handled" }]),
                // It had ended before, or is none: whoever can publish can say that it is one.
                Ok(false) => {}
                Err(problem) => {
                    let away = matches!(problem, StoreError::Unavailable(_));
                    let wait = if away { STORE_AWAY } else { STORE_DAMAGED };
                    let reason = format!("what came of a replay was not stored: {problem}");
                    return self.snooze(one, wait, &reason).await;
                }
            }
        }
        self.measure_answer(if known { "known" } else { "done" });
        acks.push(one.reply.clone(), self.subscription.acknowledging).await;
    }

    fn measure_answer(&self, verdict: &'static str) {
        retro_meter::ANSWERED.add(1, [self.consumer.name(), verdict]);
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
                self.measure_answer("dead_letter");
                retro_meter::BURIED.add(1, [consumer, code.as_str()]);
                // A replay has no letter of its own: the one that it was sent from is open again.
                if id != letter.id() {
                    retro_meter::REPLAYED.add(1, ["failed"]);
                }
                acks.push_dead_letter(one).await;
            }
            Err(StoreError::Unavailable(reason)) => {
                self.put_off_unburied(one, &letter, STORE_AWAY, &reason).await
            }
            Err(error) => {
                error!(
                    consumer,
                    subject, sequence, "the dead letter of message {sequence} could not be stored: {error}"
                );
                let reason = "its dead letter could not be stored";
                self.put_off_unburied(one, &letter, STORE_DAMAGED, reason).await;
            }
        }
    }

    /// Puts off a message whose dead letter was not stored. One that the handler answered for may be handled again; one
    /// whose attempts are spent may not, and is only given up again.
    async fn put_off_unburied(&self, one: &Incoming, letter: &NewDeadLetter, wait: Duration, reason: &str) {
        match letter.rejection.code {
            Code::HandlerPanicked | Code::AttemptsExhausted => self.put_off_suspect(one, wait, reason).await,
            _ => self.snooze(one, wait, reason).await,
        }
    }

    /// Acknowledges a message that comes again though its dead letter is stored.
    pub(super) async fn acknowledge_dead_letter(&self, one: &Incoming, acks: &mut Acks<'_>) {
        self.measure_answer("known");
        acks.push_dead_letter(one).await;
    }

    /// Notes why an attempt failed, for whoever reads the dead letter that the message may become. Without that note the
    /// message is tried again all the same.
    pub(super) async fn note_failure(&self, one: &Incoming, attempt: u32, reason: &str) {
        let failure = Failure::passing(attempt, reason);
        if let Err(error) = self.store.note_failure(&self.position(&one.delivery), &failure).await {
            let sequence = one.delivery.sequence;
            debug!(
                sequence,
                attempt, "that attempt {attempt} at message {sequence} failed was not noted: {error}"
            );
        }
    }

    /// Puts a message off without spending an attempt: it comes again as if for the first time.
    pub(super) async fn snooze(&self, one: &Incoming, wait: Duration, reason: &str) {
        self.remember_put_off(&one.delivery, PutOff::Snoozed, reason);
        self.measure_answer("snooze");
        self.put_off(&one.reply, wait).await;
    }

    /// Puts a message off without spending an attempt, and without trusting it: it comes again to be handled alone.
    pub(super) async fn put_off_suspect(&self, one: &Incoming, wait: Duration, reason: &str) {
        self.remember_put_off(&one.delivery, PutOff::Suspect, reason);
        self.measure_answer("snooze");
        self.put_off(&one.reply, wait).await;
    }

    fn remember_put_off(&self, delivery: &Delivery, how: PutOff, reason: &str) {
        let (consumer, Delivery { subject, sequence, .. }) = (self.consumer.name(), delivery);
        let mut put_off = self.messages_put_off();
        // When the database is away, thousands are put off: one line says it.
        if put_off.is_empty() {
            info!(consumer, subject, sequence, "{consumer} puts messages off: {reason}");
        } else {
            debug!(consumer, subject, sequence, "{consumer} puts message {sequence} off: {reason}");
        }
        // More than can be pending: what is left over belongs to messages that the broker has dropped.
        if put_off.len() > self.subscription.ack_pending_max as usize {
            put_off.clear();
        }
        put_off.insert(*sequence, how);
    }

    /// Puts a message off that failed; the attempt is spent.
    pub(super) async fn try_again(&self, reply: &Option<Subject>, wait: Duration) {
        self.measure_answer("retry");
        self.put_off(reply, wait).await;
    }

    /// Asks the broker to deliver a message again after `wait`.
    async fn put_off(&self, reply: &Option<Subject>, wait: Duration) {
        let Some(reply) = reply else { return };
        let nak = format!("-NAK {{\"delay\":{}}}", wait.as_nanos());
        send(&self.bus, Label::PutOffNak, reply.clone(), nak.into()).await;
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
async fn send(bus: &Bus, label: Label, reply: Subject, answer: Bytes) {
    taken(bus.answer(label, reply, answer)).await;
}

/// Waits for the client to take an answer.
pub(super) async fn taken(told: impl Future<Output = Result<(), PublishError>>) {
    match tokio::time::timeout(ANSWER_MAX, told).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!("an answer was not sent; its message comes again: {error}"),
        Err(_) => {
            debug!("an answer was not taken within {} s; its message comes again", ANSWER_MAX.as_secs())
        }
    }
}
