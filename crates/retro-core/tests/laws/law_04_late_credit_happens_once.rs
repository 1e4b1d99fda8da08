//! Law 4 of late credit: each memory, run and end of a pull request once, whichever of the three things that have to come
//! together (the end, the run behind it, the memory applied in it) comes last, however often each is told, and whether one
//! transaction credits all of it or many do. A memory that was not applied stays as it is.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use proptest::prelude::*;
use retro_core::id::{MemoryId, RunId};
use retro_core::memory::{Change, ChangeCause, Memory};
use retro_core::outcome::{
    CreditFacts, MemoryApplication, PullRequestEnd, PullRequestFacts, PullRequestRef, credit_outcome,
};
use retro_core::policy::Policy;

use crate::world::{World, dawn, key, run};
use crate::{CASES, cases};

/// Names of the memories: two with room for every movement, two at the ends of the scale, one archived.
const MEMORIES: [&str; 5] = ["light", "heavy", "at the bottom", "at the top", "archived"];
/// Runs in which one may be applied. Together their movements reach neither end from 0.300 to 0.800.
const RUNS: u8 = 3;

/// What is told; any of it twice, and in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    /// The pull request was merged, or closed, or reopened.
    Pull(Happened),
    /// A run belongs to it.
    Belongs(u8),
    /// A closed retrospective found a memory applied in a run.
    Applied(u8, u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happened {
    Closed,
    Reopened,
    Merged,
}

impl Happened {
    fn facts(self) -> PullRequestFacts {
        let at = |hour| dawn() + jiff::SignedDuration::from_hours(hour);
        let (closed, merged, heard) = match self {
            Self::Closed => (Some(at(1)), None, (at(1), false)),
            Self::Reopened => (None, None, (at(2), true)),
            Self::Merged => (None, Some(at(3)), (at(3), false)),
        };
        PullRequestFacts {
            merged_at: merged,
            closed_at: closed.into_iter().collect(),
            heard: Some(heard),
            ..Default::default()
        }
    }
}

fn told() -> impl Strategy<Value = Told> {
    let happened = prop_oneof![Just(Happened::Closed), Just(Happened::Reopened), Just(Happened::Merged)];
    let memory = 0..MEMORIES.len() as u8;
    prop_oneof![
        happened.prop_map(Told::Pull),
        (0..RUNS).prop_map(Told::Belongs),
        (memory, 0..RUNS).prop_map(|(memory, run)| Told::Applied(memory, run)),
    ]
}

/// What a store keeps of it.
#[derive(Debug, Clone)]
struct Ledger {
    known: PullRequestFacts,
    behind: BTreeSet<u8>,
    uses: BTreeSet<(u8, u8)>,
    memories: BTreeMap<MemoryId, Memory>,
    log: Vec<Change>,
}

impl Ledger {
    fn new() -> Self {
        let mut world = World::new();
        for (name, weight) in MEMORIES.into_iter().zip([300, 800, 0, 1000]) {
            world.active(name, weight);
        }
        world.archived(MEMORIES[4]);
        Self {
            known: PullRequestFacts::default(),
            behind: BTreeSet::new(),
            uses: BTreeSet::new(),
            memories: world.memories.clone(),
            log: Vec::new(),
        }
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Pull(happened) => {
                self.known = std::mem::take(&mut self.known).merge_facts(&happened.facts())
            }
            Told::Belongs(run) => drop(self.behind.insert(run)),
            Told::Applied(memory, run) => drop(self.uses.insert((memory, run))),
        }
    }

    fn named(&self, nth: u8) -> &Memory {
        let title = MEMORIES[usize::from(nth)];
        self.memories.values().find(|memory| memory.lesson.title == title).unwrap()
    }

    /// What waits for credit, in the order of the store.
    fn waiting(&self) -> Vec<MemoryApplication> {
        let uses = self.uses.iter().filter(|(_, run)| self.behind.contains(run));
        let mut uses: Vec<_> = uses
            .map(|(memory, run)| MemoryApplication { run: run_id(*run), memory: self.named(*memory).id })
            .collect();
        uses.sort_unstable();
        uses
    }

    /// Credits what waits, so many uses a transaction.
    fn credit(&mut self, at_once: usize, at: Timestamp) {
        for uses in self.waiting().chunks(at_once) {
            let facts = CreditFacts {
                key: key(),
                pull_request: PullRequestRef::new("acme/shop", 7),
                facts: self.known.clone(),
                applications: uses.to_vec(),
                memories: self.memories.values().cloned().collect(),
                applied: self.log.iter().map(|change| change.id).collect::<HashSet<_>>(),
            };
            let done = credit_outcome(&facts, &Policy::default(), at).unwrap();
            self.log.extend(done.changes);
            self.memories.extend(done.memories.into_iter().map(|memory| (memory.id, memory)));
        }
    }

    /// What each change was for, with its kind.
    fn reasons(&self) -> Vec<(MemoryId, RunId, PullRequestEnd, &'static str)> {
        let of = |change: &Change| match &change.cause {
            ChangeCause::Outcome { run, end, .. } => (change.memory, run.clone(), *end, change.effect.kind()),
            other => panic!("credit has no other cause: {other:?}"),
        };
        let mut all: Vec<_> = self.log.iter().map(of).collect();
        all.sort_unstable();
        all
    }

    /// What there has to be at the end: each use behind the pull request, once an end.
    fn expected(&self) -> Vec<(MemoryId, RunId, PullRequestEnd, &'static str)> {
        let archived = self.named(4).id;
        let mut all = Vec::new();
        for one in self.waiting() {
            for end in self.known.credited_ends() {
                let kind = if one.memory == archived { "refused" } else { "reweighted" };
                all.push((one.memory, one.run.clone(), end, kind));
            }
        }
        all.sort_unstable();
        all
    }
}

fn run_id(nth: u8) -> RunId {
    run(&format!("run-{nth}"))
}

/// Tells it in this order and credits now and then, and at the end.
fn tell(order: &[Told], credits: &[bool], at_once: usize) -> Ledger {
    let mut ledger = Ledger::new();
    for (nth, told) in order.iter().enumerate() {
        ledger.hear(*told);
        if credits.get(nth).copied().unwrap_or_default() {
            ledger.credit(at_once, dawn());
        }
    }
    ledger.credit(at_once, dawn());
    ledger
}

/// What is told, and the same in another order with some of it again.
fn twice() -> impl Strategy<Value = (Vec<Told>, Vec<Told>)> {
    prop::collection::vec(told(), 1..24).prop_flat_map(|first| {
        let again = prop::collection::vec(prop::sample::select(first.clone()), 0..12);
        (Just(first.clone()), again.prop_map(move |more| [first.clone(), more].concat()).prop_shuffle())
    })
}

proptest! {
    #![proptest_config(cases(CASES * 4))]

    #[test]
    fn each_memory_run_and_end_is_credited_once_in_any_order(
        (first, second) in twice(),
        credits in prop::collection::vec(any::<bool>(), 40),
        at_once in 1..6usize,
    ) {
        let (one, other) = (tell(&first, &[], 100), tell(&second, &credits, at_once));
        prop_assert_eq!(one.reasons(), one.expected(), "nothing twice and nothing missing");
        prop_assert_eq!(&other.reasons(), &other.expected());
        prop_assert_eq!(one.reasons(), other.reasons());
        // Where no end of the scale is reached, what is left does not depend on the order either.
        for nth in [0, 1] {
            prop_assert_eq!(one.named(nth).weight, other.named(nth).weight);
        }
    }

    #[test]
    fn whoever_was_not_applied_stays_as_it_is_and_the_rest_moves_by_both_signs(
        (_, order) in twice(),
        credits in prop::collection::vec(any::<bool>(), 40),
    ) {
        let (before, after) = (Ledger::new(), tell(&order, &credits, 2));
        let waiting: BTreeSet<_> = after.waiting().into_iter().map(|one| one.memory).collect();
        for (id, memory) in &after.memories {
            if !waiting.contains(id) || after.known.credited_ends().is_empty() {
                prop_assert_eq!(memory, &before.memories[id]);
            }
        }
        for nth in [0, 1] {
            let runs = after.waiting().iter().filter(|one| one.memory == after.named(nth).id).count() as i64;
            let by = |end| if after.known.credited_ends().contains(&end) { runs } else { 0 };
            let moved = 50 * by(PullRequestEnd::Merged) - 75 * by(PullRequestEnd::ClosedUnmerged);
            let (was, is) = (before.named(nth).weight.get(), after.named(nth).weight.get());
            prop_assert_eq!(i64::from(is) - i64::from(was), moved);
        }
    }

    /// Closed, reopened, merged, and the memory found applied between any two of them: both ends, each once.
    #[test]
    fn one_that_was_closed_reopened_and_merged_has_both_ends_once(
        order in Just(vec![
            Told::Pull(Happened::Closed),
            Told::Pull(Happened::Reopened),
            Told::Pull(Happened::Merged),
            Told::Belongs(0),
            Told::Applied(0, 0),
        ]).prop_shuffle(),
        credits in prop::collection::vec(any::<bool>(), 5),
    ) {
        let mut ledger = tell(&order, &credits, 1);
        prop_assert_eq!(ledger.reasons().len(), 2);
        prop_assert_eq!(ledger.named(0).weight.get(), 300 + 50 - 75);
        let before = ledger.log.clone();
        order.iter().for_each(|told| ledger.hear(*told));
        ledger.credit(1, dawn());
        prop_assert_eq!(ledger.log, before);
    }
}
