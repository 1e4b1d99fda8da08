//! Law 4 for late credit: each combination of memory, run and outcome of a pull request is credited once. The
//! three facts (the outcome, the linked run, the memory applied in the run) may arrive in any order and
//! repeatedly, and may be credited in one transaction or in several. A memory that was not applied stays
//! unchanged.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;
use proptest::prelude::*;
use retro_core::id::{MemoryId, RunId};
use retro_core::memory::{Change, ChangeCause, Memory};
use retro_core::outcome::{CreditFacts, MemoryApplication, credit_outcome};
use retro_core::policy::Policy;
use retro_core::pull_request::{
    CreditedOutcome, PullRequestFacts, PullRequestRef, ReviewFacts, ReviewVerdict,
};

use crate::world::{World, key, run, start_time};
use crate::{CASES, cases};

/// Names of the memories: two that never reach an end of the scale, one at each end, and one archived.
const MEMORIES: [&str; 5] = ["light", "heavy", "at the bottom", "at the top", "archived"];
/// Number of runs in which a memory may be applied. Starting from 0.500 or 0.800, their credits together
/// reach neither end of the scale.
const RUNS: u8 = 3;

/// A reported fact. Facts may be repeated and may arrive in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fact {
    /// The pull request was merged, closed, reopened, reviewed or reverted.
    PullRequest(PullRequestAction),
    /// A run is linked to the pull request.
    RunLinked(u8),
    /// A closed retrospective found a memory applied in a run.
    MemoryApplied(u8, u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PullRequestAction {
    Closed,
    Reopened,
    Merged,
    ChangesRequested,
    Reverted,
}

const ACTIONS: [PullRequestAction; 5] = [
    PullRequestAction::Closed,
    PullRequestAction::Reopened,
    PullRequestAction::Merged,
    PullRequestAction::ChangesRequested,
    PullRequestAction::Reverted,
];

impl PullRequestAction {
    fn facts(self) -> PullRequestFacts {
        let at = |hour| start_time() + jiff::SignedDuration::from_hours(hour);
        let mut facts = PullRequestFacts::default();
        match self {
            Self::Closed => {
                facts.closed_at.insert(at(1));
                facts.latest_state = Some((at(1), false));
            }
            Self::Reopened => facts.latest_state = Some((at(2), true)),
            Self::Merged => {
                facts.merged_at = Some(at(3));
                facts.latest_state = Some((at(3), false));
            }
            Self::ChangesRequested => {
                let verdict = Some(ReviewVerdict::ChangesRequested);
                facts.reviews.insert(1, ReviewFacts { verdict, dismissed: false, by_insider: true });
            }
            Self::Reverted => facts.reverted_at = Some(at(4)),
        }
        facts
    }
}

fn fact() -> impl Strategy<Value = Fact> {
    let action = prop::sample::select(ACTIONS.to_vec());
    let memory = 0..MEMORIES.len() as u8;
    prop_oneof![
        action.prop_map(Fact::PullRequest),
        (0..RUNS).prop_map(Fact::RunLinked),
        (memory, 0..RUNS).prop_map(|(memory, run)| Fact::MemoryApplied(memory, run)),
    ]
}

/// State that a store would keep.
#[derive(Debug, Clone)]
struct Ledger {
    known: PullRequestFacts,
    linked_runs: BTreeSet<u8>,
    uses: BTreeSet<(u8, u8)>,
    memories: BTreeMap<MemoryId, Memory>,
    log: Vec<Change>,
}

impl Ledger {
    fn new() -> Self {
        let mut world = World::new();
        for (name, weight) in MEMORIES.into_iter().zip([500, 800, 0, 1000]) {
            world.add_active(name, weight);
        }
        world.add_archived(MEMORIES[4]);
        Self {
            known: PullRequestFacts::default(),
            linked_runs: BTreeSet::new(),
            uses: BTreeSet::new(),
            memories: world.memories.clone(),
            log: Vec::new(),
        }
    }

    fn record(&mut self, fact: Fact) {
        match fact {
            Fact::PullRequest(action) => {
                self.known = std::mem::take(&mut self.known).merge_facts(&action.facts())
            }
            Fact::RunLinked(run) => drop(self.linked_runs.insert(run)),
            Fact::MemoryApplied(memory, run) => drop(self.uses.insert((memory, run))),
        }
    }

    fn named(&self, nth: u8) -> &Memory {
        let title = MEMORIES[usize::from(nth)];
        self.memories.values().find(|memory| memory.lesson.title == title).unwrap()
    }

    /// Lists the memory applications that wait for credit, sorted as a store returns them.
    fn pending(&self) -> Vec<MemoryApplication> {
        let uses = self.uses.iter().filter(|(_, run)| self.linked_runs.contains(run));
        let mut uses: Vec<_> = uses
            .map(|(memory, run)| MemoryApplication {
                workflow: key().workflow,
                run: run_id(*run),
                memory: self.named(*memory).id,
            })
            .collect();
        uses.sort_unstable();
        uses
    }

    /// Credits the pending applications, at most `at_once` in one transaction.
    fn credit(&mut self, at_once: usize, at: Timestamp) {
        for uses in self.pending().chunks(at_once) {
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

    /// Lists memory, run, outcome and kind of each credited change.
    fn credited(&self) -> Vec<(MemoryId, RunId, CreditedOutcome, &'static str)> {
        let of = |change: &Change| match &change.cause {
            ChangeCause::Outcome { run, outcome, .. } => {
                (change.memory, run.clone(), *outcome, change.effect.kind())
            }
            other => panic!("credit has no other cause: {other:?}"),
        };
        let mut all: Vec<_> = self.log.iter().map(of).collect();
        all.sort_unstable();
        all
    }

    /// Lists the changes that must exist at the end: one per application in a linked run and outcome.
    fn expected(&self) -> Vec<(MemoryId, RunId, CreditedOutcome, &'static str)> {
        let archived = self.named(4).id;
        let mut all = Vec::new();
        for one in self.pending() {
            for outcome in self.known.outcomes() {
                let kind = if one.memory == archived { "refused" } else { "reweighted" };
                all.push((one.memory, one.run.clone(), outcome, kind));
            }
        }
        all.sort_unstable();
        all
    }
}

fn run_id(nth: u8) -> RunId {
    run(&format!("run-{nth}"))
}

/// Records the facts in this order. Credits after those facts that `credits` selects, and at the end.
fn play(order: &[Fact], credits: &[bool], at_once: usize) -> Ledger {
    let mut ledger = Ledger::new();
    for (nth, fact) in order.iter().enumerate() {
        ledger.record(*fact);
        if credits.get(nth).copied().unwrap_or_default() {
            ledger.credit(at_once, start_time());
        }
    }
    ledger.credit(at_once, start_time());
    ledger
}

/// Generates facts, and the same facts in another order with some of them repeated.
fn with_reordered_repeats() -> impl Strategy<Value = (Vec<Fact>, Vec<Fact>)> {
    prop::collection::vec(fact(), 1..24).prop_flat_map(|first| {
        let again = prop::collection::vec(prop::sample::select(first.clone()), 0..12);
        (Just(first.clone()), again.prop_map(move |more| [first.clone(), more].concat()).prop_shuffle())
    })
}

proptest! {
    #![proptest_config(cases(CASES * 4))]

    #[test]
    fn each_memory_run_and_outcome_is_credited_once_in_any_order(
        (first, second) in with_reordered_repeats(),
        credits in prop::collection::vec(any::<bool>(), 40),
        at_once in 1..6usize,
    ) {
        let (one, other) = (play(&first, &[], 100), play(&second, &credits, at_once));
        prop_assert_eq!(one.credited(), one.expected(), "nothing twice and nothing missing");
        prop_assert_eq!(&other.credited(), &other.expected());
        prop_assert_eq!(one.credited(), other.credited());
        // If no end of the scale is reached, the weight does not depend on the order either.
        for nth in [0, 1] {
            prop_assert_eq!(one.named(nth).weight, other.named(nth).weight);
        }
    }

    #[test]
    fn only_applied_memories_move_and_by_every_outcome(
        (_, order) in with_reordered_repeats(),
        credits in prop::collection::vec(any::<bool>(), 40),
    ) {
        let (before, after) = (Ledger::new(), play(&order, &credits, 2));
        let pending: BTreeSet<_> = after.pending().into_iter().map(|one| one.memory).collect();
        for (id, memory) in &after.memories {
            if !pending.contains(id) || after.known.outcomes().is_empty() {
                prop_assert_eq!(memory, &before.memories[id]);
            }
        }
        for nth in [0, 1] {
            let runs = after.pending().iter().filter(|one| one.memory == after.named(nth).id).count() as i64;
            let by = |outcome| if after.known.outcomes().contains(&outcome) { runs } else { 0 };
            let moved = 50 * by(CreditedOutcome::Merged)
                - 75 * by(CreditedOutcome::ClosedUnmerged)
                - 20 * by(CreditedOutcome::ChangesRequested)
                - 100 * by(CreditedOutcome::Reverted);
            let (was, is) = (before.named(nth).weight.get(), after.named(nth).weight.get());
            prop_assert_eq!(i64::from(is) - i64::from(was), moved);
        }
    }

    /// A pull request is closed, reopened and merged, and the application is found at any time in between.
    /// Both ends are credited once.
    #[test]
    fn closing_reopening_and_merging_credits_both_ends_once(
        order in Just(vec![
            Fact::PullRequest(PullRequestAction::Closed),
            Fact::PullRequest(PullRequestAction::Reopened),
            Fact::PullRequest(PullRequestAction::Merged),
            Fact::RunLinked(0),
            Fact::MemoryApplied(0, 0),
        ]).prop_shuffle(),
        credits in prop::collection::vec(any::<bool>(), 5),
    ) {
        let mut ledger = play(&order, &credits, 1);
        prop_assert_eq!(ledger.credited().len(), 2);
        prop_assert_eq!(ledger.named(0).weight.get(), 500 + 50 - 75);
        let before = ledger.log.clone();
        order.iter().for_each(|fact| ledger.record(*fact));
        ledger.credit(1, start_time());
        prop_assert_eq!(ledger.log, before);
    }
}

/// A pinned memory gains weight by a merge, and loses none by an outcome, which has many causes.
#[test]
fn an_outcome_costs_a_pinned_memory_nothing() {
    let mut ledger = Ledger::new();
    let id = ledger.named(0).id;
    ledger.memories.get_mut(&id).unwrap().pinned_by = Some("ann".to_owned());
    let closed_then_merged = [PullRequestAction::Closed, PullRequestAction::Merged].map(Fact::PullRequest);
    for fact in [Fact::RunLinked(0), Fact::MemoryApplied(0, 0)].into_iter().chain(closed_then_merged) {
        ledger.record(fact);
    }
    ledger.credit(9, start_time());
    let kinds: Vec<_> = ledger.credited().into_iter().map(|(_, _, outcome, kind)| (outcome, kind)).collect();
    let expected = [(CreditedOutcome::Merged, "reweighted"), (CreditedOutcome::ClosedUnmerged, "refused")];
    assert_eq!((kinds.as_slice(), ledger.named(0).weight.get()), (&expected[..], 550));
    assert!(ledger.log[1].reason.starts_with("ann has pinned it"), "{}", ledger.log[1].reason);
}
