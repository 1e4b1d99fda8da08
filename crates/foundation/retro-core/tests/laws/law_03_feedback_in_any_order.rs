//! Laws 3 and 4 for feedback: the order in which it arrives decides nothing, and what was weighed is not weighed again.

use proptest::prelude::*;
use retro_core::feedback::{FeedbackAuthor, FeedbackVerdict};
use retro_core::id::MemoryId;
use retro_core::learn::{FeedbackRun, FeedbackSelection, WaitingFeedback};

use super::cases;
use crate::world::feedback::{agent, person, waiting};
use crate::world::{World, WriterInput, decide, investigate};

fn verdict() -> impl Strategy<Value = FeedbackVerdict> {
    prop_oneof![Just(FeedbackVerdict::Helped), Just(FeedbackVerdict::Hurt), Just(FeedbackVerdict::Wrong)]
}

fn author() -> impl Strategy<Value = FeedbackAuthor> {
    prop_oneof![
        (1u8..5).prop_map(|n| agent(&format!("r{n}"))),
        (1u8..3).prop_map(|n| person(&format!("p{n}")))
    ]
}

/// Memory by its number, who speaks of it, and what it did.
type Entry = (usize, FeedbackAuthor, FeedbackVerdict);

/// Returns feedback on three memories, each entry once, and the same in another order.
fn said() -> impl Strategy<Value = (Vec<Entry>, Vec<Entry>)> {
    let all = proptest::collection::btree_set((0usize..3, author(), verdict()), 0..20);
    all.prop_flat_map(|all| {
        let all: Vec<_> = all.into_iter().collect();
        (Just(all.clone()), Just(all).prop_shuffle())
    })
}

fn with_feedback(input: &WriterInput, feedback: Vec<WaitingFeedback>) -> WriterInput {
    let selection = FeedbackSelection::select(feedback);
    let batch = selection.add_to_batch(input.facts.retrospective, input.batch.clone());
    WriterInput { facts: input.facts.clone(), batch }
}

proptest! {
    #![proptest_config(cases(super::CASES))]

    #[test]
    fn the_order_of_arrival_decides_nothing((said, shuffled) in said()) {
        let mut world = World::new();
        let memories: Vec<MemoryId> =
            [("A", 80), ("B", 300), ("C", 950)].map(|(name, weight)| world.add_active(name, weight)).to_vec();
        let runs = [investigate("r1").with_presented(memories[0]), investigate("r2").with_read_memory(memories[1])];
        let input = world.prepare_batch(&runs);
        let entries = |said: &[Entry]| -> Vec<WaitingFeedback> {
            said.iter().map(|(at, author, verdict)| waiting(memories[*at], author.clone(), *verdict)).collect()
        };
        let (one, other) = (with_feedback(&input, entries(&said)), with_feedback(&input, entries(&shuffled)));
        let (applied, again) = (decide(&one), decide(&other));
        prop_assert_eq!(&applied, &again);
        // Law 5: the log folds to the memories, whatever was said.
        world.commit(&applied);
        prop_assert_eq!(world.fold_log(), world.memories.clone());
        // Law 4: the same closing again makes no change.
        let facts = world.facts(input.facts.retrospective, &one.batch);
        let repeated = decide(&WriterInput { facts, batch: one.batch });
        prop_assert_eq!(repeated.changes.len(), 0, "{:?}", repeated.changes);
    }

    #[test]
    fn what_was_judged_or_not_shown_is_never_weighed(
        (said, _) in said(), recorded: bool, claimed: bool, shown: bool, judged: bool, passes in 0u32..20,
    ) {
        let id = World::new().add_active("A", 300);
        let run = FeedbackRun { recorded, claimed, shown, judged };
        let counts = recorded && claimed && shown && !judged;
        let of_runs: Vec<_> = said.into_iter().filter(|(_, author, _)| author.run().is_some()).collect();
        let entries: Vec<WaitingFeedback> = of_runs
            .iter()
            .map(|(_, author, verdict)| WaitingFeedback { run: Some(run), passes, ..waiting(id, author.clone(), *verdict) })
            .collect();
        let input = World::new().prepare_batch(&[]);
        let weighed = with_feedback(&input, entries.clone()).batch.len() - input.batch.len();
        prop_assert_eq!(weighed, if counts { entries.len() } else { 0 });
    }
}
