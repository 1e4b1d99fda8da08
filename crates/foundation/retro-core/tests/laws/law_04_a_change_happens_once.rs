//! A change happens once per effect key (memory, cause, kind). Replaying a batch changes nothing, and neither
//! does repeating all earlier requests, in any order and at any time.

use std::collections::HashSet;

use proptest::prelude::*;
use retro_core::manual::DecideError;
use retro_core::memory::{Change, ChangeCause, ChangeEffect, WeightReason, change_id};

use crate::story::stories;
use crate::world::{World, WriterInput, decide, key};
use crate::{CASES, cases};

/// Returns the batch with the facts that a store would load for it now.
fn reload_input(world: &World, input: &WriterInput) -> WriterInput {
    let mut facts = world.facts(input.facts.retrospective, &input.batch);
    let first = &input.facts;
    (facts.epoch, facts.previous_epoch, facts.as_of) = (first.epoch, first.previous_epoch, first.as_of);
    WriterInput { facts, batch: input.batch.clone() }
}

/// Applies a batch again and stores the result, like a store that forgot that the retrospective was closed.
fn replay(world: &mut World, input: &WriterInput) {
    let applied = decide(&reload_input(world, input));
    world.commit(&applied);
}

/// Returns `true` if only the sweep caused a change: limbo decay, or archiving a memory that decayed too far.
fn is_limbo_change(change: &Change) -> bool {
    match &change.effect {
        ChangeEffect::Reweighted { parts, .. } => parts.iter().all(|part| part.kind == WeightReason::Limbo),
        effect => matches!(effect, ChangeEffect::Archived),
    }
}

proptest! {
    #![proptest_config(cases(CASES * 2))]

    #[test]
    fn replaying_a_batch_changes_nothing(story in stories()) {
        story.play(|_, input, _, after| {
            let again = decide(&reload_input(after, input));
            assert_eq!(again.changes, []);
            assert_eq!((again.memories, again.tombstones), (vec![], vec![]));
            assert_eq!(again.outcomes.len(), input.batch.len(), "but every mutation is answered");
            assert!(again.outcomes.iter().all(|one| !one.reason.is_empty()), "{:?}", again.outcomes);
        });
    }

    #[test]
    fn storing_a_replayed_batch_several_times_changes_nothing(
        story in stories(),
        times in 1..=5usize,
    ) {
        story.play(|_, input, _, after| {
            let mut world = after.clone();
            for _ in 0..times {
                replay(&mut world, input);
            }
            assert_eq!((&world.log, &world.memories), (&after.log, &after.memories));
            assert_eq!((&world.tombstones, world.fold_log()), (&after.tombstones, after.fold_log()));
        });
    }

    /// Replays each batch after every later chapter and after the whole story. Whatever happened to the
    /// memories in the meantime, no run of the batch creates, confirms, revives or contradicts anything
    /// again, and no verdict changes a weight again. Only the sweep of a late batch, which no run causes, may
    /// still change memories in limbo. A store prevents even that, because it closes only retrospectives that
    /// are settling (the conformance suite tests that closing twice changes nothing).
    #[test]
    fn replaying_a_batch_later_counts_no_run_again(story in stories()) {
        let (mut worlds, mut batches) = (Vec::new(), Vec::new());
        let end = story.play(|before, input, _, _| {
            worlds.push(before.clone());
            batches.push(input.clone());
        });
        worlds.push(end);
        for (nth, input) in batches.iter().enumerate() {
            for later in &worlds[nth + 1..] {
                let again = decide(&reload_input(later, input));
                assert!(again.changes.iter().all(is_limbo_change), "{:?}", again.changes);
            }
        }
    }

    /// Repeats all operator requests at the end of the story, up to five times.
    #[test]
    fn an_operator_request_is_applied_once(story in stories(), times in 1..=5usize) {
        let played = story.play(|_, _, _, _| {});
        let mut world = played.clone();
        for _ in 0..times {
            for change in &played.log {
                if let (ChangeCause::Operator { request }, ChangeEffect::Deleted { .. }) = (&change.cause, &change.effect) {
                    prop_assert!(!world.delete_as(change.memory, request), "deleted twice: {change:?}");
                }
            }
            for (proposal, _) in played.proposals.iter().filter(|(_, decision)| decision.is_some()) {
                let accepted = world.accept(proposal.id, Some("it is right now"));
                prop_assert!(matches!(accepted, Err(DecideError::AlreadyDecided(_))), "{accepted:?}");
                let refused = world.refuse(proposal.id, "it is not");
                prop_assert!(matches!(refused, Err(DecideError::AlreadyDecided(_))), "{refused:?}");
            }
        }
        prop_assert_eq!((&world.log, &world.memories), (&played.log, &played.memories));
        prop_assert_eq!(&world.tombstones, &played.tombstones);
    }

    #[test]
    fn every_change_id_is_its_effect_key_and_unique(story in stories()) {
        let world = story.play(|_, _, _, _| {});
        let mut ids = HashSet::new();
        for change in &world.log {
            prop_assert!(ids.insert(change.id), "twice: {change:?}");
            let effect_key = change_id(&key(), change.memory, &change.cause, change.effect.kind());
            prop_assert_eq!(change.id, effect_key);
        }
    }

    #[test]
    fn every_mutation_has_an_outcome_and_every_change_a_mutation(story in stories()) {
        story.play(|_, input, applied, _| {
            let requested: Vec<_> = input.batch.iter().map(|one| one.id).collect();
            let answered: Vec<_> = applied.outcomes.iter().map(|one| one.mutation).collect();
            assert_eq!(requested, answered);
            assert!(applied.outcomes.iter().all(|one| !one.reason.is_empty()), "{:?}", applied.outcomes);
            let reported: HashSet<_> =
                applied.outcomes.iter().flat_map(|one| one.changes.iter().map(|one| one.change)).collect();
            assert!(applied.changes.iter().all(|change| reported.contains(&change.id)));
        });
    }
}
