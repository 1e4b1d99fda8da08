//! Messages: what is acknowledged was stored before, what is sent has arrived, and in the end nothing waits.

use std::collections::HashSet;

use serde_json::Value;

use super::events::{COUNTER, INTAKE};
use super::{Invariant, Judge};
use crate::event::{source_and_id, tenant_of};
use crate::history::{History, WIPED};
use crate::state::{State, Stored};

/// The stream of wake-ups.
const WORK: &str = "RETRO_WORK";
/// Subjects that wake the sampler.
const SAMPLE: &str = "retro.work.retrospective.due.";
/// Subjects that wake the writer.
const CLOSE: &str = "retro.work.mutations.due.";
/// The header under which the broker knows a message.
const MESSAGE_ID: &str = "Nats-Msg-Id";
/// The header by which a replay is known.
const REPLAY: &str = "Retro-Replay";

/// Law 10, as far as the broker's floor tells: what lies above it may be acknowledged too.
pub(super) fn acknowledged_after_commit(judge: &mut Judge, state: &State) {
    for stream in &state.broker.streams {
        for consumer in &stream.consumers {
            let done = Done::of(state, &stream.name, &consumer.name);
            let below = stream.messages.iter().filter(|message| message.sequence <= consumer.ack_floor);
            for message in below.filter(|message| !done.covers(message)) {
                let place = format!("{}, place {}", stream.name, message.sequence);
                let problem = format!("{} acknowledged it, and nothing of it is stored", consumer.name);
                judge.finds(Invariant::AckAfterCommit, place, problem);
            }
        }
    }
}

/// What a consumer has to show for the messages that it acknowledged.
struct Done<'a> {
    state: &'a State,
    /// Places of the stream that have a dead letter of the consumer's.
    dead: HashSet<u64>,
    stream: &'a str,
    consumer: &'a str,
    known: HashSet<(&'a str, &'a str, &'a str)>,
}

impl<'a> Done<'a> {
    fn of(state: &'a State, stream: &'a str, consumer: &'a str) -> Self {
        let letters = state.letters.iter().filter(|one| one.stream == stream && one.consumer == consumer);
        let known = state.inbox.iter().filter(|row| row.consumer == COUNTER);
        let known = known.map(|row| (row.tenant.as_str(), row.source.as_str(), row.event_id.as_str()));
        Self {
            state,
            dead: letters.map(|one| one.sequence).collect(),
            stream,
            consumer,
            known: known.collect(),
        }
    }

    fn covers(&self, message: &Stored) -> bool {
        if self.dead.contains(&message.sequence) || self.state.digests > 0 || self.is_ended_replay(message) {
            return true;
        }
        match (self.stream, self.consumer) {
            (INTAKE, COUNTER) => {
                let tenant = tenant_of(&message.subject).unwrap_or_default();
                source_and_id(&message.headers, &message.payload)
                    .is_some_and(|(source, id)| self.known.contains(&(&tenant, &source, &id)))
            }
            // A consumer's floor rises over the messages of the others too.
            (WORK, "sampler") if message.subject.starts_with(SAMPLE) => !self.is_still(message, "due"),
            (WORK, "writer") if message.subject.starts_with(CLOSE) => !self.is_still(message, "settling"),
            _ => true,
        }
    }

    /// Whether a message is a letter's that was sent again, of which is stored what came of it: a failure opens the letter
    /// that there is, and makes no second one.
    fn is_ended_replay(&self, message: &Stored) -> bool {
        let Some(id) = message.header(REPLAY) else { return false };
        self.state
            .replays
            .iter()
            .any(|one| one.id == id && ["handled", "failed"].contains(&one.state.as_str()))
    }

    /// Whether the retrospective that a wake-up names is still where it was to be taken from.
    fn is_still(&self, message: &Stored, state: &str) -> bool {
        let notice: Value = serde_json::from_slice(&message.payload).unwrap_or_default();
        let id = notice["notice"]["retrospective"].as_str();
        let mut named = self.state.retrospectives.iter().filter(|one| Some(one.id.as_str()) == id);
        named.any(|one| one.state == state)
    }
}

pub(super) fn drained(judge: &mut Judge, history: &History, state: &State) {
    let wiped = history.faults().contains_key(WIPED);
    let at_the_broker: HashSet<_> = state
        .broker
        .streams
        .iter()
        .flat_map(|stream| &stream.messages)
        .filter_map(|message| message.header(MESSAGE_ID))
        .collect();
    for row in &state.outbox {
        let place = || format!("outbox, {} ({} of {})", row.id, row.kind, row.workflow);
        if !row.sent {
            judge.finds(Invariant::OutboxDrained, place(), "it was not sent");
        } else if !wiped && !state.broker.streams.is_empty() && !at_the_broker.contains(row.id.as_str()) {
            judge.finds(
                Invariant::OutboxDrained,
                place(),
                "it is marked as sent, and the broker has not got it",
            );
        }
    }
    for stream in &state.broker.streams {
        for consumer in stream.consumers.iter().filter(|one| one.pending + one.ack_pending > 0) {
            let place = format!("{}, consumer {}", stream.name, consumer.name);
            let problem = format!(
                "{} messages wait to be delivered and {} to be acknowledged",
                consumer.pending, consumer.ack_pending
            );
            judge.finds(Invariant::BrokerDrained, place, problem);
        }
    }
}
