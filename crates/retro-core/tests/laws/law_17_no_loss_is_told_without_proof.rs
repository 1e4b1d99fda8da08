//! A loss is told only when it is shown: whatever several processes that look at a stream do between each other's steps, nothing
//! is told of a broker that keeps everything, and what a broker really loses is told by name in the end, once.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use retro_core::stream::{KnownStream, StreamObservation, StreamVerdict, judge_observation, lost_ranges};

use crate::{CASES, cases};

/// Processes that look, and may be held up between any two of their steps.
const PROCESSES: usize = 3;
const STEPS_MAX: usize = 160;
/// Looks of each process after which everything is known that can be: one to end what it was at, two that agree, one to name.
const LOOKS_TO_SETTLE: usize = 5;

/// What happens next.
#[derive(Debug, Clone, Copy)]
enum Happening {
    /// An engine publishes an event.
    Publish,
    /// The consumer handles the next event: it is in the inbox.
    Handle,
    /// The consumer acknowledges what it has handled.
    Acknowledge,
    /// A process goes one step on.
    Step(usize),
    /// The broker's disk is replaced.
    Wipe,
    /// An older copy of the broker is restored: so many messages of its end are missing.
    Restore(usize),
}

fn undisturbed() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        3 => Just(Happening::Publish),
        2 => Just(Happening::Handle),
        1 => Just(Happening::Acknowledge),
        12 => (0..PROCESSES).prop_map(Happening::Step),
    ];
    prop::collection::vec(one, 0..STEPS_MAX)
}

fn disturbed() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        6 => Just(Happening::Publish),
        3 => Just(Happening::Handle),
        2 => Just(Happening::Acknowledge),
        30 => (0..PROCESSES).prop_map(Happening::Step),
        1 => Just(Happening::Wipe),
        1 => (1..4usize).prop_map(Happening::Restore),
    ];
    prop::collection::vec(one, 0..STEPS_MAX)
}

/// A stream and its consumer. A position is the place in `messages`, from 1.
#[derive(Default)]
struct Broker {
    made: u64,
    /// Events, and when each was stored.
    messages: Vec<(u32, u64)>,
    handled: usize,
    acknowledged: usize,
}

impl Broker {
    fn stored_at(&self, position: u64) -> Option<String> {
        let place = usize::try_from(position).unwrap().checked_sub(1)?;
        self.messages.get(place).map(|(_, stored)| stored.to_string())
    }

    fn last(&self) -> u64 {
        self.messages.len() as u64
    }

    fn events(&self) -> BTreeSet<u32> {
        self.messages.iter().map(|(event, _)| *event).collect()
    }
}

/// What the database holds of the stream.
#[derive(Default)]
struct Database {
    known: Option<KnownStream>,
    waiting: BTreeMap<u64, u32>,
    inbox: BTreeSet<u32>,
    /// Events told as lost, in their order.
    told: Vec<u32>,
    suspicions: u64,
}

/// Where a process is in its look.
#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Loaded(Option<KnownStream>),
    Asked(Option<KnownStream>, u64, u64),
    Acknowledged(Option<KnownStream>, u64, u64, u64),
    /// With what waits in what it has seen.
    Seen(StreamObservation, Vec<(u64, u32)>),
}

#[derive(Default)]
struct Process {
    phase: Phase,
    /// Names that were read after a look, and of which stream: they are kept when the next look recognizes it.
    read: Option<(u64, Vec<(u64, u32)>)>,
}

#[derive(Default)]
struct World {
    broker: Broker,
    database: Database,
    processes: [Process; PROCESSES],
    tick: u64,
    /// Events that were known by name when the broker lost them.
    known_and_lost: BTreeSet<u32>,
}

impl World {
    fn happen(&mut self, happening: Happening) {
        self.tick += 1;
        match happening {
            Happening::Publish => {
                self.broker.messages.push((u32::try_from(self.tick).unwrap(), self.tick));
            }
            Happening::Handle => {
                if let Some((event, _)) = self.broker.messages.get(self.broker.handled) {
                    self.database.inbox.insert(*event);
                    self.broker.handled += 1;
                }
            }
            Happening::Acknowledge => self.broker.acknowledged = self.broker.handled,
            Happening::Step(nth) => self.step(nth),
            Happening::Wipe => {
                self.lose(0);
                self.broker = Broker { made: self.tick, ..Broker::default() };
            }
            Happening::Restore(missing) => {
                let left = self.broker.messages.len().saturating_sub(missing);
                self.lose(left);
                self.broker.messages.truncate(left);
                self.broker.handled = self.broker.handled.min(left);
                self.broker.acknowledged = self.broker.acknowledged.min(left);
                // A broker is down while it is restored, and whoever is asking it begins again.
                for process in &mut self.processes {
                    if matches!(process.phase, Phase::Asked(..) | Phase::Acknowledged(..)) {
                        process.phase = Phase::Idle;
                    }
                }
            }
        }
    }

    /// The broker keeps so many messages of those that it has.
    fn lose(&mut self, left: usize) {
        let gone: BTreeSet<u32> = self.broker.messages[left..].iter().map(|(event, _)| *event).collect();
        let named = self.database.waiting.values().copied();
        self.known_and_lost.extend(named.filter(|event| gone.contains(event)));
    }

    fn step(&mut self, nth: usize) {
        let phase = std::mem::take(&mut self.processes[nth].phase);
        let broker = &self.broker;
        self.processes[nth].phase = match phase {
            Phase::Idle => Phase::Loaded(self.database.known.clone()),
            Phase::Loaded(before) => Phase::Asked(before, broker.made, broker.last()),
            Phase::Asked(before, made, last) => {
                Phase::Acknowledged(before, made, last, broker.acknowledged as u64)
            }
            Phase::Acknowledged(_, made, last, _) if made != broker.made || last > broker.last() => {
                Phase::Idle
            }
            Phase::Acknowledged(before, made, _, acknowledged) => {
                let sight = StreamObservation {
                    stream: "S".to_owned(),
                    created: made.to_string(),
                    first: 1,
                    last: broker.last(),
                    anchor: broker.stored_at(broker.last()),
                    anchor_before: before.as_ref().and_then(|known| broker.stored_at(known.seen_to)),
                    handled: acknowledged.min(broker.last()),
                    known_before: before,
                };
                let held = self.read_names(&sight);
                Phase::Seen(sight, held)
            }
            Phase::Seen(sight, held) => {
                let read = self.processes[nth].read.take();
                let recognized = self.database.record(&sight, held);
                if let (Some(number), Some((of, names))) = (recognized, read)
                    && number == of
                {
                    self.database.waiting.extend(names);
                }
                self.processes[nth].read = recognized.map(|number| (number, self.read_names(&sight)));
                Phase::Idle
            }
        };
    }

    /// What waits, as the broker shows it now, whichever stream that is.
    fn read_names(&self, sight: &StreamObservation) -> Vec<(u64, u32)> {
        let all = (1..).zip(self.broker.messages.iter().map(|(event, _)| *event));
        all.filter(|(position, _)| (sight.handled + 1..=sight.last).contains(position)).collect()
    }

    fn settle(&mut self) {
        for nth in (0..PROCESSES).cycle().take(PROCESSES * LOOKS_TO_SETTLE) {
            self.step(nth);
            while !matches!(self.processes[nth].phase, Phase::Idle) {
                self.step(nth);
            }
        }
    }
}

impl Database {
    /// Returns the number of the stream that was recognized.
    fn record(&mut self, sight: &StreamObservation, held: Vec<(u64, u32)>) -> Option<u64> {
        match (judge_observation(self.known.as_ref(), sight), self.known.clone()) {
            (StreamVerdict::FirstSeen, _) => self.known = Some(sight.to_known_stream(1)),
            (StreamVerdict::Recognized, Some(known)) => {
                self.known = Some(known.advance(sight));
                self.waiting.retain(|position, _| *position > sight.handled);
                return Some(known.number);
            }
            (StreamVerdict::Suspected, Some(known)) => {
                self.suspicions += 1;
                self.known = Some(KnownStream { suspected: Some(self.suspicions), ..known });
            }
            (StreamVerdict::Replaced, Some(known)) => {
                let named = std::mem::take(&mut self.waiting);
                let unnamed = lost_ranges(&known, named.keys().copied());
                assert!(
                    unnamed.iter().all(|range| *range.end() <= known.seen_to),
                    "nobody has seen that: {unnamed:?}"
                );
                let is_there =
                    |event: &u32| held.iter().any(|(_, one)| one == event) || self.inbox.contains(event);
                self.told.extend(named.into_values().filter(|event| !is_there(event)));
                self.waiting = held.into_iter().collect();
                self.known = Some(sight.to_known_stream(known.number + 1));
            }
            (StreamVerdict::Stale, _) | (_, None) => {}
        }
        None
    }
}

proptest! {
    #![proptest_config(cases(CASES * 4))]

    #[test]
    fn nothing_is_told_of_a_broker_that_keeps_everything(happenings in undisturbed()) {
        let mut world = World::default();
        for happening in happenings {
            world.happen(happening);
            let known = world.database.known.as_ref();
            prop_assert!(known.is_none_or(|known| (known.number, known.suspected) == (1, None)), "{known:?}");
            prop_assert_eq!(&world.database.told, &[0u32; 0]);
        }
    }

    #[test]
    fn what_a_broker_loses_is_told_by_name_in_the_end_once(happenings in disturbed()) {
        let mut world = World::default();
        for happening in happenings {
            let before = world.database.told.len();
            world.happen(happening);
            let present = world.broker.events();
            for event in &world.database.told[before..] {
                prop_assert!(!world.database.inbox.contains(event), "{event} was handled");
                prop_assert!(!present.contains(event), "{event} is there");
            }
        }
        world.settle();
        let known = world.database.known.clone().expect("it was looked at");
        prop_assert_eq!((known.created, known.seen_to), (world.broker.made.to_string(), world.broker.last()));
        prop_assert_eq!(known.suspected, None);
        let told: BTreeSet<u32> = world.database.told.iter().copied().collect();
        prop_assert_eq!(told.len(), world.database.told.len(), "each once");
        let missed: Vec<_> =
            world.known_and_lost.iter().filter(|one| !world.database.inbox.contains(one) && !told.contains(one)).collect();
        prop_assert!(missed.is_empty(), "never told: {missed:?}");
    }
}
