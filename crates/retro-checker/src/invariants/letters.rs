//! Dead letters and their replay.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::events::payload;
use super::work::MESSAGE_ATTEMPTS_MAX;
use super::{Invariant, Judge};
use crate::event::sha256_hex;
use crate::history::{End, History, Operation, WIPED};
use crate::state::State;

pub(super) fn check(judge: &mut Judge, history: &History, state: &State) {
    once(judge, state);
    none_missing(judge, state);
    // The streams of a broker that was wiped give the same places to other messages.
    exact(judge, state, !history.faults().contains_key(WIPED));
    replays(judge, state);
    sendings(judge, history, state);
}

fn once(judge: &mut Judge, state: &State) {
    let mut first = HashMap::new();
    for letter in &state.letters {
        let message = (&letter.consumer, &letter.stream, letter.sequence, &letter.payload_hex);
        if let Some(other) = first.insert(message, &letter.id) {
            let place = format!("dead_letters, {}", letter.id);
            let problem = format!(
                "message {} of {}, given up by {}, has the letter {other} too",
                letter.sequence, letter.stream, letter.consumer
            );
            judge.finds(Invariant::LetterOnce, place, problem);
        }
    }
}

/// Attempts are forgotten with what was handled and with what was given up: who still has all of them spent, and no letter,
/// was dropped.
fn none_missing(judge: &mut Judge, state: &State) {
    let given_up: HashSet<_> =
        state.letters.iter().map(|one| (&one.consumer, &one.stream, one.sequence)).collect();
    let spent = state.attempts.iter().filter(|one| one.attempts >= MESSAGE_ATTEMPTS_MAX);
    for one in spent.filter(|one| !given_up.contains(&(&one.consumer, &one.stream, one.sequence))) {
        let place = format!("attempts, {} {} {}", one.consumer, one.stream, one.sequence);
        let problem = format!("{} attempts are spent, and it has no dead letter", one.attempts);
        judge.finds(Invariant::LetterOnce, place, problem);
    }
}

fn exact(judge: &mut Judge, state: &State, places_stand: bool) {
    for letter in &state.letters {
        let place = format!("dead_letters, {}", letter.id);
        let bytes = payload(letter);
        if sha256_hex(&bytes) != letter.payload_sha256 {
            judge.finds(Invariant::LetterExact, place.clone(), "its hash is another payload's");
        }
        let original = state.broker.stream(&letter.stream).and_then(|stream| stream.at(letter.sequence));
        if let Some(original) = original.filter(|_| places_stand)
            && (original.payload != bytes || original.subject != letter.subject)
        {
            let problem = format!("place {} of {} holds another message", letter.sequence, letter.stream);
            judge.finds(Invariant::LetterExact, place, problem);
        }
    }
}

fn replays(judge: &mut Judge, state: &State) {
    let mut opened = HashMap::new();
    for act in state.acts.iter().filter(|act| act.deed == "replayed") {
        if let Some(first) = opened.insert((&act.tenant, &act.subject), &act.opened) {
            let place = format!("acts, {} {}", act.tenant, act.subject);
            let problem = format!("it was replayed twice, and opened {first:?} and {:?}", act.opened);
            judge.finds(Invariant::ReplayOnce, place, problem);
        }
    }
}

/// A letter is sent once at a time, in the end nothing of it is under way, and of people who ask at once no more are told
/// "yes" than times it was sent.
fn sendings(judge: &mut Judge, history: &History, state: &State) {
    let mut sent: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for one in &state.replays {
        sent.entry(&one.letter).or_default().push(one.number);
        if ["waiting", "sent"].contains(&one.state.as_str()) {
            let place = format!("replays, {}", one.id);
            judge.finds(Invariant::ReplayOnce, place, format!("it is still {}", one.state));
        }
    }
    for (letter, numbers) in &sent {
        if !numbers.iter().copied().eq(1..=numbers.len() as u64) {
            let place = format!("replays, of letter {letter}");
            judge.finds(Invariant::ReplayOnce, place, format!("they are numbered {numbers:?}"));
        }
    }
    let mut promised: BTreeMap<&str, u64> = BTreeMap::new();
    for done in history.operations.iter().filter(|done| done.end == End::Ok) {
        if let Operation::Replay { letter } = &done.operation {
            *promised.entry(letter).or_default() += 1;
        }
    }
    for (letter, times) in promised {
        // The letter of a failed retrospective is not sent: its replay opens the next one, and is an act.
        let acts = state.acts.iter().filter(|act| act.deed == "replayed" && act.subject == letter).count();
        let happened = sent.get(letter).map_or(0, Vec::len) + acts;
        if times > happened as u64 {
            let problem =
                format!("{times} people were told that it is replayed, and it was {happened} times");
            judge.finds(Invariant::ReplayOnce, format!("replays, of letter {letter}"), problem);
        }
    }
}
