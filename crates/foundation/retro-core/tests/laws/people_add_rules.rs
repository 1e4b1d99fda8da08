//! Rules that people add among those from reviews: repeating everything changes nothing (4), the log folds to the
//! rules (5), and what the author of a remark does to it later ends no rule that a person made of it.

use proptest::prelude::*;
use retro_core::learn::LessonWording;
use retro_core::memory::{Memory, MemoryStatus};
use retro_core::remark::AuthorStanding;
use retro_core::review::{ReadRemark, ReadingKind};

use crate::cases;
use crate::world::rules::{RuleStore, confined_to, rule_request};
use crate::world::rules_by_hand::titled;

const TITLES: [&str; 5] = [
    "Wrap every error with context",
    "Never wrap every error with context",
    "Use `rg` instead of `grep`",
    "Use `grep` instead of `rg`",
    "Keep functions short",
];

/// What happens to the rules of a repository.
#[derive(Debug, Clone)]
enum Event {
    /// A remark is decided.
    Review(Box<ReadRemark>),
    /// A person adds a rule for a folder, or for the whole repository.
    Add { title: usize, folder: bool },
    /// A person makes the remark of an earlier event a rule, with a title of their own or not.
    Promote { remark: usize, title: Option<usize> },
    /// A person retires a rule.
    Retire { rule: usize },
}

fn standing() -> impl Strategy<Value = AuthorStanding> {
    prop_oneof![
        Just(AuthorStanding::Bot),
        Just(AuthorStanding::Outsider),
        Just(AuthorStanding::Contributor),
        Just(AuthorStanding::Insider)
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let remark = (standing(), 1u64..4, 0..TITLES.len(), any::<bool>(), any::<bool>(), any::<u64>()).prop_map(
        |(standing, number, title, folder, is_rule, id)| {
            let mut read = rule_request(standing, number, id % 1_000_000, TITLES[title]);
            if !is_rule {
                (read.reading.kind, read.reading.certainty) = (ReadingKind::OneOff, 300);
            }
            Event::Review(Box::new(if folder { confined_to("src", read) } else { read }))
        },
    );
    prop_oneof![
        4 => remark,
        2 => (0..TITLES.len(), any::<bool>()).prop_map(|(title, folder)| Event::Add { title, folder }),
        3 => (any::<usize>(), proptest::option::of(0..TITLES.len()))
            .prop_map(|(remark, title)| Event::Promote { remark, title }),
        1 => any::<usize>().prop_map(|rule| Event::Retire { rule }),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(event(), 1..12)
}

/// Lets an event happen that is not the retirement of a rule. `number` names its request.
fn repeat(store: &mut RuleStore, remarks: &[ReadRemark], number: usize, event: &Event) {
    let request = format!("request {number}");
    match event {
        Event::Review(read) => drop(store.record_review(std::slice::from_ref(&**read))),
        // A refusal changes nothing, which is all that the laws ask of it.
        Event::Add { title, folder } => {
            drop(store.add_in(folder.then_some("src"), TITLES[*title], &request));
        }
        Event::Promote { remark, title } => {
            let Some(read) = remarks.get(remark % remarks.len().max(1)) else { return };
            let wording = title.map_or_else(LessonWording::default, |title| titled(TITLES[title]));
            drop(store.promote_remark(read, wording, &request));
        }
        Event::Retire { .. } => {}
    }
}

/// Plays the events in order. Returns the rules and the remarks.
fn play(events: &[Event]) -> (RuleStore, Vec<ReadRemark>) {
    let (mut store, mut remarks) = (RuleStore::new(), Vec::new());
    for (number, event) in events.iter().enumerate() {
        if let Event::Review(read) = event {
            remarks.push((**read).clone());
        }
        if let Event::Retire { rule } = event {
            let living: Vec<_> =
                store.memories.values().filter(|one| one.status.is_living()).map(|one| one.id).collect();
            if !living.is_empty() {
                store.retire(living[rule % living.len()]);
            }
        }
        repeat(&mut store, &remarks, number, event);
    }
    (store, remarks)
}

fn is_handed_out(memory: &Memory) -> bool {
    memory.status == MemoryStatus::Active && memory.quarantine.is_none()
}

proptest! {
    #![proptest_config(cases(crate::CASES))]

    #[test]
    fn the_log_folds_to_the_rules_and_no_two_say_the_same(events in events()) {
        let (store, _) = play(&events);
        prop_assert_eq!(&store.fold_log(), &store.memories);
        let active: Vec<_> = store.memories.values().filter(|memory| is_handed_out(memory)).collect();
        for (at, one) in active.iter().enumerate() {
            for other in &active[at + 1..] {
                prop_assert!((&one.scope, &one.lesson.title) != (&other.scope, &other.lesson.title));
            }
        }
    }

    #[test]
    fn a_request_that_took_effect_takes_none_again(events in events()) {
        let (mut store, remarks) = play(&events);
        let before = store.clone();
        for (number, event) in events.iter().enumerate() {
            let request = format!("request {number}");
            let took_effect = before.log.iter().any(|change| {
                matches!(&change.cause, retro_core::memory::ChangeCause::Operator { request: of } if *of == request)
            });
            if took_effect {
                repeat(&mut store, &remarks, number, event);
            }
        }
        prop_assert_eq!((&store.memories, &store.log), (&before.memories, &before.log));
    }

    #[test]
    fn what_becomes_of_a_remark_ends_no_rule_that_a_person_added(events in events()) {
        let (mut store, remarks) = play(&events);
        let added: Vec<_> =
            store.memories.values().filter(|one| one.added_by.is_some()).cloned().collect();
        for read in remarks {
            let mut gone = read;
            gone.remark.deleted = true;
            store.record_review(&[gone]);
        }
        for memory in added {
            prop_assert_eq!(&store.memories[&memory.id], &memory);
        }
    }

    #[test]
    fn a_rule_that_a_person_added_has_the_authority_of_an_insider(events in events()) {
        let (store, _) = play(&events);
        for memory in store.memories.values().filter(|one| one.added_by.is_some()) {
            prop_assert_eq!(memory.authority, Some(AuthorStanding::Insider));
        }
    }
}
