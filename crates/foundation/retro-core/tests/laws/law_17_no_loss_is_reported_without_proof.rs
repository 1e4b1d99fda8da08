//! A loss is reported only if it is proven. However the steps of several stream-checking processes
//! interleave, no loss is reported for a broker that keeps everything, and every known message that a broker
//! loses is eventually reported by name, once.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use retro_core::stream::{KnownStream, StreamObservation, StreamVerdict, judge_observation, lost_ranges};

use crate::{CASES, cases};

/// Number of processes that check the stream. Each may be delayed between any two of its steps.
const PROCESSES: usize = 3;
const STEPS_MAX: usize = 160;
/// Number of checks per process after which everything that can be known is known: one to finish the running
/// check, two that agree, and one to read the names, with one to spare.
const CHECKS_TO_SETTLE: usize = 5;

/// One action on the broker, its consumer or a process.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// An emitter publishes an event.
    Publish,
    /// The consumer processes the next event and stores it in the inbox.
    Handle,
    /// The consumer acknowledges the events it has processed.
    Acknowledge,
    /// A process performs its next step.
    Step(usize),
    /// The broker's disk is replaced by an empty one.
    Wipe,
    /// The broker is restored from an older copy that lacks this number of the latest messages.
    Restore(usize),
}

fn undisturbed() -> impl Strategy<Value = Vec<Action>> {
    let one = prop_oneof![
        3 => Just(Action::Publish),
        2 => Just(Action::Handle),
        1 => Just(Action::Acknowledge),
        12 => (0..PROCESSES).prop_map(Action::Step),
    ];
    prop::collection::vec(one, 0..STEPS_MAX)
}

fn disturbed() -> impl Strategy<Value = Vec<Action>> {
    let one = prop_oneof![
        6 => Just(Action::Publish),
        3 => Just(Action::Handle),
        2 => Just(Action::Acknowledge),
        30 => (0..PROCESSES).prop_map(Action::Step),
        1 => Just(Action::Wipe),
        1 => (1..4usize).prop_map(Action::Restore),
    ];
    prop::collection::vec(one, 0..STEPS_MAX)
}

/// A stream and its consumer. Positions are 1-based indexes into `messages`.
#[derive(Default)]
struct Broker {
    made: u64,
    /// Events with their storage times.
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

/// State of the stream as stored in the database.
#[derive(Default)]
struct Database {
    known: Option<KnownStream>,
    pending: BTreeMap<u64, u32>,
    inbox: BTreeSet<u32>,
    /// Events reported as lost, in order.
    reported: Vec<u32>,
    suspicions: u64,
}

/// Progress of a process in its check.
#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Loaded(Option<KnownStream>),
    StreamRead(Option<KnownStream>, u64, u64),
    Acknowledged(Option<KnownStream>, u64, u64, u64),
    /// The observation, and the names of the pending messages.
    Seen(StreamObservation, Vec<(u64, u32)>),
}

#[derive(Default)]
struct Process {
    phase: Phase,
    /// Names read after a check, with the number of their stream. Stored if the next check recognizes that
    /// stream.
    read: Option<(u64, Vec<(u64, u32)>)>,
}

#[derive(Default)]
struct World {
    broker: Broker,
    database: Database,
    processes: [Process; PROCESSES],
    tick: u64,
    /// Events whose names were known when the broker lost them.
    known_and_lost: BTreeSet<u32>,
}

impl World {
    fn apply(&mut self, action: Action) {
        self.tick += 1;
        match action {
            Action::Publish => {
                self.broker.messages.push((u32::try_from(self.tick).unwrap(), self.tick));
            }
            Action::Handle => {
                if let Some((event, _)) = self.broker.messages.get(self.broker.handled) {
                    self.database.inbox.insert(*event);
                    self.broker.handled += 1;
                }
            }
            Action::Acknowledge => self.broker.acknowledged = self.broker.handled,
            Action::Step(nth) => self.step(nth),
            Action::Wipe => {
                self.lose_messages(0);
                self.broker = Broker { made: self.tick, ..Broker::default() };
            }
            Action::Restore(missing) => {
                let left = self.broker.messages.len().saturating_sub(missing);
                self.lose_messages(left);
                self.broker.messages.truncate(left);
                self.broker.handled = self.broker.handled.min(left);
                self.broker.acknowledged = self.broker.acknowledged.min(left);
                // The broker is down while it is restored, so running requests fail and their checks start
                // over.
                for process in &mut self.processes {
                    if matches!(process.phase, Phase::StreamRead(..) | Phase::Acknowledged(..)) {
                        process.phase = Phase::Idle;
                    }
                }
            }
        }
    }

    /// Loses all messages after the first `left` ones.
    fn lose_messages(&mut self, left: usize) {
        let gone: BTreeSet<u32> = self.broker.messages[left..].iter().map(|(event, _)| *event).collect();
        let named = self.database.pending.values().copied();
        self.known_and_lost.extend(named.filter(|event| gone.contains(event)));
    }

    fn step(&mut self, nth: usize) {
        let phase = std::mem::take(&mut self.processes[nth].phase);
        let broker = &self.broker;
        self.processes[nth].phase = match phase {
            Phase::Idle => Phase::Loaded(self.database.known.clone()),
            Phase::Loaded(before) => Phase::StreamRead(before, broker.made, broker.last()),
            Phase::StreamRead(before, made, last) => {
                Phase::Acknowledged(before, made, last, broker.acknowledged as u64)
            }
            Phase::Acknowledged(_, made, last, _) if made != broker.made || last > broker.last() => {
                Phase::Idle
            }
            Phase::Acknowledged(before, made, _, acknowledged) => {
                let observation = StreamObservation {
                    stream: "S".to_owned(),
                    created: made.to_string(),
                    first: 1,
                    last: broker.last(),
                    anchor: broker.stored_at(broker.last()),
                    anchor_before: before.as_ref().and_then(|known| broker.stored_at(known.seen_to)),
                    handled: acknowledged.min(broker.last()),
                    known_before: before,
                };
                let held = self.read_names(&observation);
                Phase::Seen(observation, held)
            }
            Phase::Seen(observation, held) => {
                let read = self.processes[nth].read.take();
                let recognized = self.database.record(&observation, held);
                if let (Some(number), Some((of, names))) = (recognized, read)
                    && number == of
                {
                    self.database.pending.extend(names);
                }
                self.processes[nth].read = recognized.map(|number| (number, self.read_names(&observation)));
                Phase::Idle
            }
        };
    }

    /// Returns the pending messages that the broker has now, even if its stream has been replaced since.
    fn read_names(&self, observation: &StreamObservation) -> Vec<(u64, u32)> {
        let all = (1..).zip(self.broker.messages.iter().map(|(event, _)| *event));
        all.filter(|(position, _)| (observation.handled + 1..=observation.last).contains(position)).collect()
    }

    fn settle(&mut self) {
        for nth in (0..PROCESSES).cycle().take(PROCESSES * CHECKS_TO_SETTLE) {
            self.step(nth);
            while !matches!(self.processes[nth].phase, Phase::Idle) {
                self.step(nth);
            }
        }
    }
}

impl Database {
    /// Records an observation. Returns the number of the stream if it was recognized.
    fn record(&mut self, observation: &StreamObservation, held: Vec<(u64, u32)>) -> Option<u64> {
        match (judge_observation(self.known.as_ref(), observation), self.known.clone()) {
            (StreamVerdict::FirstSeen, _) => self.known = Some(observation.to_known_stream(1)),
            (StreamVerdict::Recognized, Some(known)) => {
                self.known = Some(known.advance(observation));
                self.pending.retain(|position, _| *position > observation.handled);
                return Some(known.number);
            }
            (StreamVerdict::Suspected, Some(known)) => {
                self.suspicions += 1;
                self.known = Some(KnownStream { suspected: Some(self.suspicions), ..known });
            }
            (StreamVerdict::Replaced, Some(known)) => {
                let named = std::mem::take(&mut self.pending);
                let unnamed = lost_ranges(&known, named.keys().copied());
                assert!(
                    unnamed.iter().all(|range| *range.end() <= known.seen_to),
                    "a range was never observed: {unnamed:?}"
                );
                let is_there =
                    |event: &u32| held.iter().any(|(_, one)| one == event) || self.inbox.contains(event);
                self.reported.extend(named.into_values().filter(|event| !is_there(event)));
                self.pending = held.into_iter().collect();
                self.known = Some(observation.to_known_stream(known.number + 1));
            }
            (StreamVerdict::Stale, _) | (_, None) => {}
        }
        None
    }
}

proptest! {
    #![proptest_config(cases(CASES * 4))]

    #[test]
    fn no_loss_is_reported_of_a_broker_that_keeps_everything(actions in undisturbed()) {
        let mut world = World::default();
        for action in actions {
            world.apply(action);
            let known = world.database.known.as_ref();
            prop_assert!(known.is_none_or(|known| (known.number, known.suspected) == (1, None)), "{known:?}");
            prop_assert_eq!(&world.database.reported, &[0u32; 0]);
        }
    }

    #[test]
    fn every_known_lost_message_is_finally_reported_once_by_name(actions in disturbed()) {
        let mut world = World::default();
        for action in actions {
            let before = world.database.reported.len();
            world.apply(action);
            let present = world.broker.events();
            for event in &world.database.reported[before..] {
                prop_assert!(!world.database.inbox.contains(event), "{event} was handled");
                prop_assert!(!present.contains(event), "{event} is there");
            }
        }
        world.settle();
        let known = world.database.known.clone().expect("the stream was checked");
        prop_assert_eq!((known.created, known.seen_to), (world.broker.made.to_string(), world.broker.last()));
        prop_assert_eq!(known.suspected, None);
        let reported: BTreeSet<u32> = world.database.reported.iter().copied().collect();
        prop_assert_eq!(reported.len(), world.database.reported.len(), "each once");
        let missed: Vec<_> =
            world.known_and_lost.iter().filter(|one| !world.database.inbox.contains(one) && !reported.contains(one)).collect();
        prop_assert!(missed.is_empty(), "never told: {missed:?}");
    }
}
