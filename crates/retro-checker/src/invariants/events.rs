//! Events and runs: nothing lost, nothing twice, nothing invented.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Invariant, Judge};
use crate::event::{Event, Identity, source_and_id, tenant_of};
use crate::history::History;
use crate::state::{Letter, State, Stream};

/// The stream of events.
pub(super) const INTAKE: &str = "RETRO_INTAKE";
/// Who counts them.
pub(super) const COUNTER: &str = "counter";

pub(super) fn check(judge: &mut Judge, history: &History, state: &State) {
    nothing_lost(judge, history, state);
    nothing_invented(judge, history, state);
    events_once(judge, history, state);
    runs_once(judge, state);
}

fn nothing_lost(judge: &mut Judge, history: &History, state: &State) {
    let places = Places::of(state);
    let excused: HashSet<_> =
        history.acknowledged_before_wiping().map(|event| &event.payload_sha256).collect();
    for event in history.acknowledged() {
        match places.look_for(event) {
            Found::Yes => {}
            Found::No if excused.contains(&event.payload_sha256) => {
                judge.checked.lost_with_broker.push(event.to_string());
            }
            Found::No => judge.finds(
                Invariant::NothingLost,
                event.to_string(),
                "it was acknowledged, and is neither counted nor dead nor in flight",
            ),
            Found::WithoutRun => judge.finds(
                Invariant::NothingLost,
                event.to_string(),
                "the inbox knows it, and there is no such run",
            ),
        }
    }
}

/// Where an event may be.
struct Places<'a> {
    inbox: HashMap<Identity<'a>, &'a str>,
    runs: HashSet<(&'a str, &'a str, &'a str)>,
    dead_payloads: HashSet<&'a str>,
    dead: HashSet<(String, String, String)>,
    flying: HashSet<(String, String, String)>,
    flying_payloads: HashSet<String>,
    digests: u64,
}

enum Found {
    Yes,
    No,
    WithoutRun,
}

impl<'a> Places<'a> {
    fn of(state: &'a State) -> Self {
        let inbox = state.inbox.iter().filter(|row| row.consumer == COUNTER);
        let flying = state.broker.stream(INTAKE).into_iter().flat_map(in_flight).collect::<Vec<_>>();
        let identity = |subject: &str, headers: &[(String, String)], payload: &[u8]| {
            let (source, id) = source_and_id(headers, payload)?;
            Some((tenant_of(subject)?, source, id))
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
            dead_payloads: state.letters.iter().map(|letter| letter.payload_sha256.as_str()).collect(),
            dead: state
                .letters
                .iter()
                .filter_map(|letter| identity(&letter.subject, &[], &payload(letter)))
                .collect(),
            flying: flying
                .iter()
                .filter_map(|message| identity(&message.subject, &message.headers, &message.payload))
                .collect(),
            flying_payloads: flying.iter().map(|one| crate::event::sha256_hex(&one.payload)).collect(),
            digests: state.digests,
        }
    }

    fn look_for(&self, event: &Event) -> Found {
        let payload = event.payload_sha256.as_str();
        let elsewhere = self.dead_payloads.contains(payload) || self.flying_payloads.contains(payload);
        let (Some(said), Some(identity)) = (&event.said, event.identity()) else {
            return if elsewhere { Found::Yes } else { Found::No };
        };
        let has_run = self.runs.contains(&(&event.tenant, &event.workflow, &said.run));
        if self.inbox.get(&identity).is_some_and(|hash| *hash == said.content_sha256) {
            return if has_run { Found::Yes } else { Found::WithoutRun };
        }
        let owned = (identity.0.to_owned(), identity.1.to_owned(), identity.2.to_owned());
        let known = elsewhere || self.dead.contains(&owned) || self.flying.contains(&owned);
        // What was purged leaves its run, and a digest that says no more.
        if known || (self.digests > 0 && has_run) { Found::Yes } else { Found::No }
    }
}

/// Messages that the counter has not acknowledged for certain.
fn in_flight(intake: &Stream) -> impl Iterator<Item = &crate::state::Stored> {
    let floor = intake.consumers.iter().find(|one| one.name == COUNTER).map_or(0, |one| one.ack_floor);
    intake.messages.iter().filter(move |message| message.sequence > floor)
}

/// A letter's bytes; none when its hex is broken, which is found elsewhere.
pub(super) fn payload(letter: &Letter) -> Vec<u8> {
    let digits = letter.payload_hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(byte).collect::<Option<_>>().unwrap_or_default()
}

/// Only of workflows that the history knows: a test may use others without telling.
fn nothing_invented(judge: &mut Judge, history: &History, state: &State) {
    let (mut workflows, mut runs) = (HashSet::new(), HashSet::new());
    for event in history.possible() {
        workflows.insert((event.tenant.as_str(), event.workflow.as_str()));
        let run = event.said.as_ref().map(|said| said.run.as_str());
        runs.extend(run.map(|run| (event.tenant.as_str(), event.workflow.as_str(), run)));
    }
    for run in &state.runs {
        let key = (run.tenant.as_str(), run.workflow.as_str());
        if workflows.contains(&key) && !runs.contains(&(key.0, key.1, run.run_id.as_str())) {
            let place = format!("runs, {} {} {}", run.tenant, run.workflow, run.run_id);
            judge.finds(Invariant::NothingInvented, place, "nobody emitted it");
        }
    }
}

fn events_once(judge: &mut Judge, history: &History, state: &State) {
    let handled: u64 = state.workflows.iter().map(|row| row.events).sum();
    let known = state.inbox.iter().filter(|row| row.consumer == COUNTER).count() as u64 + state.digests;
    if handled != known {
        let problem = format!("{handled} events were handled, and {known} are known");
        judge.finds(Invariant::EventOnce, "workflows.events and inbox", problem);
    }
    let mut emitted: BTreeMap<_, HashSet<_>> = BTreeMap::new();
    for event in history.possible() {
        let key = (event.tenant.as_str(), event.workflow.as_str());
        emitted.entry(key).or_default().extend(event.identity());
    }
    for row in &state.workflows {
        let Some(events) = emitted.get(&(row.tenant.as_str(), row.workflow.as_str())) else { continue };
        if row.events > events.len() as u64 {
            let problem = format!("{} events were handled, and {} were emitted", row.events, events.len());
            judge.finds(Invariant::EventOnce, format!("workflows, {} {}", row.tenant, row.workflow), problem);
        }
    }
}

fn runs_once(judge: &mut Judge, state: &State) {
    for row in &state.workflows {
        let place = format!("workflows, {} {}", row.tenant, row.workflow);
        let runs = state.runs.iter().filter(|run| run.tenant == row.tenant && run.workflow == row.workflow);
        let (mut ordinals, mut ids, mut recorded) = (Vec::new(), HashSet::new(), 0);
        for run in runs {
            recorded += 1;
            ordinals.extend(run.ordinal);
            if !ids.insert(&run.run_id) {
                judge.finds(Invariant::RunOnce, place.clone(), format!("run {} is there twice", run.run_id));
            }
        }
        ordinals.sort_unstable();
        if !ordinals.iter().copied().eq(1..=row.counted) {
            let problem = format!("{} runs are counted, and the ordinals are {ordinals:?}", row.counted);
            judge.finds(Invariant::RunOnce, place.clone(), problem);
        }
        if recorded != row.recorded {
            let problem = format!("{} runs were recorded, and {recorded} are there", row.recorded);
            judge.finds(Invariant::RunOnce, place, problem);
        }
    }
}
