//! Checks that no event or run is lost, duplicated or invented.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::invariant::Invariant;
use super::judge::Judge;
use crate::event::{Event, Identity, parse_source_and_id, parse_tenant};
use crate::history::History;
use crate::state::{DeadLetter, State, Stream};

/// Stream of incoming events.
pub(super) const INTAKE: &str = "RETRO_INTAKE";
/// Consumer that counts runs.
pub(super) const COUNTER: &str = "counter";

pub(super) fn check_events(judge: &mut Judge, history: &History, state: &State) {
    check_nothing_lost(judge, history, state);
    check_nothing_invented(judge, history, state);
    check_events_once(judge, history, state);
    check_runs_once(judge, state);
}

fn check_nothing_lost(judge: &mut Judge, history: &History, state: &State) {
    let places = EventLocations::from_state(state);
    let excused: HashSet<_> = history.acknowledged_before_wipe().map(|event| &event.payload_sha256).collect();
    for event in history.acknowledged_events() {
        match places.find_event(event) {
            EventPresence::Present => {}
            EventPresence::Missing if excused.contains(&event.payload_sha256) => {
                judge.checked.lost_with_broker.push(event.to_string());
            }
            EventPresence::Missing => judge.add_violation(
                Invariant::NothingLost,
                event.to_string(),
                "acknowledged, but neither counted nor dead-lettered nor in flight",
            ),
            EventPresence::WithoutRun => judge.add_violation(
                Invariant::NothingLost,
                event.to_string(),
                "in the inbox, but its run is missing",
            ),
        }
    }
}

/// Index of all places where an event may be found.
struct EventLocations<'a> {
    inbox: HashMap<Identity<'a>, &'a str>,
    runs: HashSet<(&'a str, &'a str, &'a str)>,
    dead_payloads: HashSet<&'a str>,
    dead_identities: HashSet<(String, String, String)>,
    in_flight_identities: HashSet<(String, String, String)>,
    in_flight_payloads: HashSet<String>,
    digests: u64,
}

enum EventPresence {
    Present,
    Missing,
    WithoutRun,
}

impl<'a> EventLocations<'a> {
    fn from_state(state: &'a State) -> Self {
        let inbox = state.inbox.iter().filter(|row| row.consumer == COUNTER);
        let flying =
            state.broker.find_stream(INTAKE).into_iter().flat_map(list_in_flight).collect::<Vec<_>>();
        let identity = |subject: &str, headers: &[(String, String)], payload: &[u8]| {
            let (source, id) = parse_source_and_id(headers, payload)?;
            Some((parse_tenant(subject)?, source, id))
        };
        Self {
            inbox: inbox
                .map(|row| {
                    let key = (row.tenant.as_str(), row.source.as_str(), row.event_id.as_str());
                    (key, row.content_hash.as_str())
                })
                .collect(),
            runs: state
                .runs
                .iter()
                .map(|run| (run.tenant.as_str(), run.workflow.as_str(), run.run_id.as_str()))
                .collect(),
            dead_payloads: state.dead_letters.iter().map(|letter| letter.payload_sha256.as_str()).collect(),
            dead_identities: state
                .dead_letters
                .iter()
                .filter_map(|letter| identity(&letter.subject, &[], &decode_payload(letter)))
                .collect(),
            in_flight_identities: flying
                .iter()
                .filter_map(|message| identity(&message.subject, &message.headers, &message.payload))
                .collect(),
            in_flight_payloads: flying.iter().map(|one| crate::event::sha256_hex(&one.payload)).collect(),
            digests: state.digests,
        }
    }

    fn find_event(&self, event: &Event) -> EventPresence {
        let payload = event.payload_sha256.as_str();
        let elsewhere = self.dead_payloads.contains(payload) || self.in_flight_payloads.contains(payload);
        let (Some(parsed), Some(identity)) = (&event.parsed, event.identity()) else {
            return if elsewhere { EventPresence::Present } else { EventPresence::Missing };
        };
        let has_run = self.runs.contains(&(&event.tenant, &event.workflow, &parsed.run));
        // Compare the content as well: a conflicting event with the same identity must not hide the loss of
        // this one.
        if self.inbox.get(&identity).is_some_and(|hash| *hash == parsed.content_sha256) {
            return if has_run { EventPresence::Present } else { EventPresence::WithoutRun };
        }
        let owned = (identity.0.to_owned(), identity.1.to_owned(), identity.2.to_owned());
        let known =
            elsewhere || self.dead_identities.contains(&owned) || self.in_flight_identities.contains(&owned);
        // Retention keeps the run and a digest of the event. The digest does not reveal the identity, so
        // finding the run is enough.
        if known || (self.digests > 0 && has_run) { EventPresence::Present } else { EventPresence::Missing }
    }
}

/// Returns the messages above the counter's acknowledgement floor, which may be unhandled.
fn list_in_flight(intake: &Stream) -> impl Iterator<Item = &crate::state::StoredMessage> {
    let floor = intake.consumers.iter().find(|one| one.name == COUNTER).map_or(0, |one| one.ack_floor);
    intake.messages.iter().filter(move |message| message.sequence > floor)
}

/// Decodes the payload of a dead letter. Returns no bytes for invalid hexadecimal, which the hash check then
/// reports.
pub(super) fn decode_payload(letter: &DeadLetter) -> Vec<u8> {
    let digits = letter.payload_hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(byte).collect::<Option<_>>().unwrap_or_default()
}

/// Checks that every stored run was emitted. Ignores workflows that do not occur in the history, because a
/// test may use them without recording.
fn check_nothing_invented(judge: &mut Judge, history: &History, state: &State) {
    let (mut workflows, mut runs) = (HashSet::new(), HashSet::new());
    for event in history.possible_events() {
        workflows.insert((event.tenant.as_str(), event.workflow.as_str()));
        let run = event.parsed.as_ref().map(|parsed| parsed.run.as_str());
        runs.extend(run.map(|run| (event.tenant.as_str(), event.workflow.as_str(), run)));
    }
    for run in &state.runs {
        let key = (run.tenant.as_str(), run.workflow.as_str());
        if workflows.contains(&key) && !runs.contains(&(key.0, key.1, run.run_id.as_str())) {
            let place = format!("runs, {} {} {}", run.tenant, run.workflow, run.run_id);
            judge.add_violation(Invariant::NothingInvented, place, "it was never emitted");
        }
    }
}

fn check_events_once(judge: &mut Judge, history: &History, state: &State) {
    let handled: u64 = state.workflows.iter().map(|row| row.events).sum();
    let known = state.inbox.iter().filter(|row| row.consumer == COUNTER).count() as u64 + state.digests;
    if handled != known {
        let problem =
            format!("{handled} events were handled, but {known} are in the inbox or kept as digests");
        judge.add_violation(Invariant::EventOnce, "workflows.events and inbox", problem);
    }
    // Sets of identities, because an event that is emitted repeatedly must be handled once.
    let mut emitted: BTreeMap<_, HashSet<_>> = BTreeMap::new();
    for event in history.possible_events() {
        let key = (event.tenant.as_str(), event.workflow.as_str());
        emitted.entry(key).or_default().extend(event.identity());
    }
    for row in &state.workflows {
        let Some(events) = emitted.get(&(row.tenant.as_str(), row.workflow.as_str())) else { continue };
        if row.events > events.len() as u64 {
            let problem =
                format!("{} events were handled, but only {} were emitted", row.events, events.len());
            judge.add_violation(
                Invariant::EventOnce,
                format!("workflows, {} {}", row.tenant, row.workflow),
                problem,
            );
        }
    }
}

fn check_runs_once(judge: &mut Judge, state: &State) {
    for row in &state.workflows {
        let place = format!("workflows, {} {}", row.tenant, row.workflow);
        let runs = state.runs.iter().filter(|run| run.tenant == row.tenant && run.workflow == row.workflow);
        let (mut ordinals, mut ids, mut recorded) = (Vec::new(), HashSet::new(), 0);
        for run in runs {
            recorded += 1;
            ordinals.extend(run.ordinal);
            if !ids.insert(&run.run_id) {
                judge.add_violation(
                    Invariant::RunOnce,
                    place.clone(),
                    format!("run {} is stored twice", run.run_id),
                );
            }
        }
        ordinals.sort_unstable();
        if !ordinals.iter().copied().eq(1..=row.counted) {
            let problem = format!("{} runs are counted, but the ordinals are {ordinals:?}", row.counted);
            judge.add_violation(Invariant::RunOnce, place.clone(), problem);
        }
        if recorded != row.recorded {
            let problem = format!("{} runs were recorded, but {recorded} are stored", row.recorded);
            judge.add_violation(Invariant::RunOnce, place, problem);
        }
    }
}
