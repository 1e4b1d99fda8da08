//! Checks dead letters and their replays.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::events::decode_payload;
use super::invariant::Invariant;
use super::judge::Judge;
use super::leases::MESSAGE_ATTEMPTS_MAX;
use crate::event::sha256_hex;
use crate::history::{BROKER_WIPED, History, Operation, OperationOutcome};
use crate::state::State;

pub(super) fn check_dead_letters(judge: &mut Judge, history: &History, state: &State) {
    check_no_duplicates(judge, state);
    check_none_missing(judge, state);
    // A wiped broker restarts its sequence numbers, so stored sequences refer to other messages.
    check_exact_bytes(judge, state, !history.faults_by_kind().contains_key(BROKER_WIPED));
    check_replayed_once(judge, state);
    check_replay_counts(judge, history, state);
}

fn check_no_duplicates(judge: &mut Judge, state: &State) {
    let mut first = HashMap::new();
    for letter in &state.dead_letters {
        // The payload is part of the key, because a wiped broker reuses positions for other messages.
        let message = (&letter.consumer, &letter.stream, letter.sequence, &letter.payload_hex);
        if let Some(other) = first.insert(message, &letter.id) {
            let place = format!("dead_letters, {}", letter.id);
            let problem = format!(
                "message {} of {}, dead-lettered by {}, also has dead letter {other}",
                letter.sequence, letter.stream, letter.consumer
            );
            judge.add_violation(Invariant::DeadLetterOnce, place, problem);
        }
    }
}

/// Checks that no message was dropped. A message without attempts left must have a dead letter, because its
/// attempt count is deleted when it is handled or dead-lettered.
fn check_none_missing(judge: &mut Judge, state: &State) {
    let given_up: HashSet<_> =
        state.dead_letters.iter().map(|one| (&one.consumer, &one.stream, one.sequence)).collect();
    let spent = state.attempts.iter().filter(|one| one.attempts >= MESSAGE_ATTEMPTS_MAX);
    for one in spent.filter(|one| !given_up.contains(&(&one.consumer, &one.stream, one.sequence))) {
        let place = format!("attempts, {} {} {}", one.consumer, one.stream, one.sequence);
        let problem = format!("{} attempts are spent, but there is no dead letter", one.attempts);
        judge.add_violation(Invariant::DeadLetterOnce, place, problem);
    }
}

fn check_exact_bytes(judge: &mut Judge, state: &State, places_stand: bool) {
    for letter in &state.dead_letters {
        let place = format!("dead_letters, {}", letter.id);
        let bytes = decode_payload(letter);
        if sha256_hex(&bytes) != letter.payload_sha256 {
            judge.add_violation(
                Invariant::DeadLetterExact,
                place.clone(),
                "the stored hash does not match the payload",
            );
        }
        let original =
            state.broker.find_stream(&letter.stream).and_then(|stream| stream.message_at(letter.sequence));
        if let Some(original) = original.filter(|_| places_stand)
            && (original.payload != bytes || original.subject != letter.subject)
        {
            let problem = format!("sequence {} of {} holds another message", letter.sequence, letter.stream);
            judge.add_violation(Invariant::DeadLetterExact, place, problem);
        }
    }
}

fn check_replayed_once(judge: &mut Judge, state: &State) {
    let mut opened = HashMap::new();
    for entry in &state.audit_log {
        let Some(retrospective) = &entry.opened_retrospective else { continue };
        if let Some(first) = opened.insert((&entry.tenant, &entry.subject_id), retrospective) {
            let place = format!("audit_log, {} {}", entry.tenant, entry.subject_id);
            let problem = format!("it was replayed twice and opened {first} and {retrospective}");
            judge.add_violation(Invariant::ReplayOnce, place, problem);
        }
    }
}

/// Checks that the replays of each dead letter have ended and are numbered without gaps, and that there is a
/// replay for every successful request.
fn check_replay_counts(judge: &mut Judge, history: &History, state: &State) {
    let mut sent: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for one in &state.replays {
        sent.entry(&one.dead_letter).or_default().push(one.number);
        if ["waiting", "sent"].contains(&one.state.as_str()) {
            let place = format!("replays, {}", one.id);
            judge.add_violation(Invariant::ReplayOnce, place, format!("it is still {}", one.state));
        }
    }
    for (letter, numbers) in &sent {
        if !numbers.iter().copied().eq(1..=numbers.len() as u64) {
            let place = format!("replays, dead letter {letter}");
            judge.add_violation(Invariant::ReplayOnce, place, format!("they are numbered {numbers:?}"));
        }
    }
    let mut promised: BTreeMap<&str, u64> = BTreeMap::new();
    for done in history.operations.iter().filter(|done| done.end == OperationOutcome::Ok) {
        if let Operation::Replay { dead_letter: letter } = &done.operation {
            *promised.entry(letter).or_default() += 1;
        }
    }
    for (letter, times) in promised {
        // Replaying the dead letter of a failed retrospective sends no message: it opens the next
        // retrospective, and only the audit log records it.
        let reopened = state
            .audit_log
            .iter()
            .filter(|entry| entry.opened_retrospective.is_some() && entry.subject_id == letter)
            .count();
        let happened = sent.get(letter).map_or(0, Vec::len) + reopened;
        if times > happened as u64 {
            let problem =
                format!("{times} requests were answered with a replay, but it happened {happened} times");
            judge.add_violation(Invariant::ReplayOnce, format!("replays, dead letter {letter}"), problem);
        }
    }
}
