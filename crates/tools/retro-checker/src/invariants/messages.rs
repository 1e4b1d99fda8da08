//! Checks that effects are stored before their messages are acknowledged, and that the outbox and the broker
//! drain.

use std::collections::HashSet;

use serde_json::Value;

use super::events::{COUNTER, INTAKE};
use super::invariant::Invariant;
use super::judge::Judge;
use crate::event::{parse_source_and_id, parse_tenant};
use crate::history::{BROKER_WIPED, History};
use crate::state::{State, StoredMessage};

/// Stream of wake-up messages between stages.
const WORK: &str = "RETRO_WORK";
/// Subject prefix of messages that wake the sampler.
const SAMPLE: &str = "retro.work.retrospective.due.";
/// Subject prefix of messages that wake the writer.
const CLOSE: &str = "retro.work.mutations.due.";
/// Header with the broker's message id.
const MESSAGE_ID: &str = "Nats-Msg-Id";
/// Header with the replay id, which marks a message as a replay.
const REPLAY: &str = "Retro-Replay";

/// Checks that the effects of every message up to the acknowledgement floor are stored (law 10). Messages
/// above the floor may also be acknowledged, but the broker does not report which.
pub(super) fn check_acknowledged_after_commit(judge: &mut Judge, state: &State) {
    for stream in &state.broker.streams {
        for consumer in &stream.consumers {
            let done = StoredEffects::from_state(state, &stream.name, &consumer.name);
            let below = stream.messages.iter().filter(|message| message.sequence <= consumer.ack_floor);
            for message in below.filter(|message| !done.covers_message(message)) {
                let place = format!("{}, sequence {}", stream.name, message.sequence);
                let problem = format!("{} acknowledged it, but none of its effects is stored", consumer.name);
                judge.add_violation(Invariant::AckAfterCommit, place, problem);
            }
        }
    }
}

/// Stored effects that prove which messages a consumer has handled.
struct StoredEffects<'a> {
    state: &'a State,
    /// Stream sequence numbers of the messages dead-lettered by the consumer.
    dead_sequences: HashSet<u64>,
    stream: &'a str,
    consumer: &'a str,
    handled_events: HashSet<(&'a str, &'a str, &'a str)>,
}

impl<'a> StoredEffects<'a> {
    fn from_state(state: &'a State, stream: &'a str, consumer: &'a str) -> Self {
        let dead_letters =
            state.dead_letters.iter().filter(|one| one.stream == stream && one.consumer == consumer);
        let known = state.inbox.iter().filter(|row| row.consumer == COUNTER);
        let known = known.map(|row| (row.tenant.as_str(), row.source.as_str(), row.event_id.as_str()));
        Self {
            state,
            dead_sequences: dead_letters.map(|one| one.sequence).collect(),
            stream,
            consumer,
            handled_events: known.collect(),
        }
    }

    fn covers_message(&self, message: &StoredMessage) -> bool {
        // Once inbox rows are purged, a missing row proves nothing, so no violation is reported.
        if self.dead_sequences.contains(&message.sequence)
            || self.state.digests > 0
            || self.is_ended_replay(message)
        {
            return true;
        }
        match (self.stream, self.consumer) {
            (INTAKE, COUNTER) => {
                let tenant = parse_tenant(&message.subject).unwrap_or_default();
                parse_source_and_id(&message.headers, &message.payload)
                    .is_some_and(|(source, id)| self.handled_events.contains(&(&tenant, &source, &id)))
            }
            // The acknowledgement floor also covers messages for other consumers, so match the subject.
            (WORK, "sampler") if message.subject.starts_with(SAMPLE) => !self.is_in_state(message, "due"),
            (WORK, "writer") if message.subject.starts_with(CLOSE) => !self.is_in_state(message, "settling"),
            _ => true,
        }
    }

    /// Returns `true` if the message is a replay whose result is stored. A failed replay reopens its dead
    /// letter instead of creating a second one.
    fn is_ended_replay(&self, message: &StoredMessage) -> bool {
        let Some(id) = message.find_header(REPLAY) else { return false };
        self.state
            .replays
            .iter()
            .any(|one| one.id == id && ["handled", "failed"].contains(&one.state.as_str()))
    }

    /// Returns `true` if the retrospective named by a wake-up message is in this state.
    fn is_in_state(&self, message: &StoredMessage, state: &str) -> bool {
        let notice: Value = serde_json::from_slice(&message.payload).unwrap_or_default();
        let id = notice["notice"]["retrospective"].as_str();
        let mut named = self.state.retrospectives.iter().filter(|one| Some(one.id.as_str()) == id);
        named.any(|one| one.state == state)
    }
}

pub(super) fn check_drained(judge: &mut Judge, history: &History, state: &State) {
    // A wiped broker has lost sent messages, so their absence is no violation.
    let wiped = history.faults_by_kind().contains_key(BROKER_WIPED);
    let at_the_broker: HashSet<_> = state
        .broker
        .streams
        .iter()
        .flat_map(|stream| &stream.messages)
        .filter_map(|message| message.find_header(MESSAGE_ID))
        .collect();
    for row in &state.outbox {
        let place = || format!("outbox, {} ({} of {})", row.id, row.kind, row.workflow);
        if !row.sent {
            judge.add_violation(Invariant::OutboxDrained, place(), "it was not sent");
        } else if !wiped && !state.broker.streams.is_empty() && !at_the_broker.contains(row.id.as_str()) {
            judge.add_violation(
                Invariant::OutboxDrained,
                place(),
                "it is marked as sent, but the broker does not have it",
            );
        }
    }
    for stream in &state.broker.streams {
        for consumer in stream.consumers.iter().filter(|one| one.pending + one.ack_pending > 0) {
            let place = format!("{}, consumer {}", stream.name, consumer.name);
            let problem = format!(
                "{} messages are undelivered and {} unacknowledged",
                consumer.pending, consumer.ack_pending
            );
            judge.add_violation(Invariant::BrokerDrained, place, problem);
        }
    }
}
