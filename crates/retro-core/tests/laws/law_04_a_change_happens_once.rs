//! A change has an effect key (memory, cause, kind) and happens once. Replaying a batch changes nothing, and neither
//! does asking for everything again that was ever asked, in any order and at any time.

use std::collections::HashSet;

use proptest::prelude::*;
use retro_core::manual::DecideError;
use retro_core::memory::{Change, ChangeCause, ChangeEffect, WeightReason, change_id};

use crate::story::stories;
use crate::world::{Asked, World, decide, key};
use crate::{CASES, cases};

/// A batch once more, with what a store would load for it now.
fn asked_now(world: &World, asked: &Asked) -> Asked {
    let mut facts = world.facts(asked.facts.retrospective, &asked.batch);
    let first = &asked.facts;
    (facts.epoch, facts.previous_epoch, facts.as_of) = (first.epoch, first.previous_epoch, first.as_of);
    Asked { facts, batch: asked.batch.clone() }
}

/// Asks for a batch once more and keeps what is answered, as a store would that had forgotten having closed it.
fn replay(world: &mut World, asked: &Asked) {
    let applied = decide(&asked_now(world, asked));
    world.commit(&applied);
}

/// Whether a change is what a sweep does by itself: limbo, and the archive for what limbo made too light.
fn looks_at_limbo(change: &Change) -> bool {
    match &change.effect {
        ChangeEffect::Reweighted { parts, .. } => parts.iter().all(|part| part.why == WeightReason::Limbo),
        effect => matches!(effect, ChangeEffect::Archived),
    }
}

proptest! {
    #![proptest_config(cases(CASES * 2))]

    #[test]
    fn a_batch_that_is_replayed_changes_nothing(story in stories()) {
        story.tell(|_, asked, _, after| {
            let again = decide(&asked_now(after, asked));
            assert_eq!(again.changes, []);
            assert_eq!((again.memories, again.tombstones), (vec![], vec![]));
            assert_eq!(again.outcomes.len(), asked.batch.len(), "but every mutation is answered");
            assert!(again.outcomes.iter().all(|one| !one.why.is_empty()), "{:?}", again.outcomes);
        });
    }

    #[test]
    fn memories_weights_tombstones_and_log_stay_however_often_a_batch_is_replayed(
        story in stories(),
        times in 1..=5usize,
    ) {
        story.tell(|_, asked, _, after| {
            let mut world = after.clone();
            for _ in 0..times {
                replay(&mut world, asked);
            }
            assert_eq!((&world.log, &world.memories), (&after.log, &after.memories));
            assert_eq!((&world.tombstones, world.folded()), (&after.tombstones, after.folded()));
        });
    }

    /// A chapter later, and after the whole story: whatever became of the memories since, no run of the batch makes,
    /// confirms, revives or contradicts anything again, and no verdict moves a weight again. What is left to a batch
    /// that comes so late is its sweep's own look at limbo, which speaks of no run; a store keeps even that from
    /// happening, since it closes only what is settling (its conformance: closing twice changes nothing).
    #[test]
    fn a_batch_that_is_replayed_later_counts_no_run_again(story in stories()) {
        let (mut worlds, mut batches) = (Vec::new(), Vec::new());
        let end = story.tell(|before, asked, _, _| {
            worlds.push(before.clone());
            batches.push(asked.clone());
        });
        worlds.push(end);
        for (nth, asked) in batches.iter().enumerate() {
            for later in &worlds[nth + 1..] {
                let again = decide(&asked_now(later, asked));
                assert!(again.changes.iter().all(looks_at_limbo), "{:?}", again.changes);
            }
        }
    }

    /// The same requests of people, at the end of the story, up to five times.
    #[test]
    fn what_a_person_asked_for_happens_once(story in stories(), times in 1..=5usize) {
        let told = story.tell(|_, _, _, _| {});
        let mut world = told.clone();
        for _ in 0..times {
            for change in &told.log {
                if let (ChangeCause::Operator { request }, ChangeEffect::Deleted { .. }) = (&change.cause, &change.effect) {
                    prop_assert!(!world.delete_as(change.memory, request), "deleted twice: {change:?}");
                }
            }
            for (proposal, _) in told.proposals.iter().filter(|(_, decision)| decision.is_some()) {
                let accepted = world.accept(proposal.id, Some("it is right now"));
                prop_assert!(matches!(accepted, Err(DecideError::AlreadyDecided(_))), "{accepted:?}");
                let refused = world.refuse(proposal.id, "it is not");
                prop_assert!(matches!(refused, Err(DecideError::AlreadyDecided(_))), "{refused:?}");
            }
        }
        prop_assert_eq!((&world.log, &world.memories), (&told.log, &told.memories));
        prop_assert_eq!(&world.tombstones, &told.tombstones);
    }

    #[test]
    fn no_effect_key_comes_twice_and_every_id_is_its_effect_key(story in stories()) {
        let world = story.tell(|_, _, _, _| {});
        let mut ids = HashSet::new();
        for change in &world.log {
            prop_assert!(ids.insert(change.id), "twice: {change:?}");
            let effect_key = change_id(&key(), change.memory, &change.cause, change.effect.kind());
            prop_assert_eq!(change.id, effect_key);
        }
    }

    #[test]
    fn every_mutation_is_answered_and_every_change_is_some_mutations(story in stories()) {
        story.tell(|_, asked, applied, _| {
            let asked: Vec<_> = asked.batch.iter().map(|one| one.id).collect();
            let answered: Vec<_> = applied.outcomes.iter().map(|one| one.mutation).collect();
            assert_eq!(asked, answered);
            assert!(applied.outcomes.iter().all(|one| !one.why.is_empty()), "{:?}", applied.outcomes);
            let told: HashSet<_> =
                applied.outcomes.iter().flat_map(|one| one.did.iter().map(|did| did.change)).collect();
            assert!(applied.changes.iter().all(|change| told.contains(&change.id)));
        });
    }
}
