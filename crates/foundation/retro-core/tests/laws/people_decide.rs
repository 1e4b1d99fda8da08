//! What people have switched stays as they left it, whatever runs show. Repeating their requests changes nothing, and
//! the log folds to the memories.

use proptest::prelude::*;
use retro_core::learn::MemoryDecision;
use retro_core::memory::{Memory, MemoryStatus, WeightReason};

use crate::story::{Story, stories};
use crate::world::World;
use crate::{CASES, cases};

/// Plays the second story over the memories of the first one.
fn continue_with(world: &mut World, story: &Story) {
    world.policy.clone_from(&story.policy);
    story.continue_in(world);
}

fn living(world: &World) -> Vec<Memory> {
    world.memories.values().filter(|memory| memory.status.is_living()).cloned().collect()
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn no_run_changes_the_weight_of_a_disabled_memory_or_ends_it(first in stories(), second in stories()) {
        let mut world = first.play(|_, _, _, _| {});
        for memory in living(&world) {
            world.decide(memory.id, &MemoryDecision::Disable);
        }
        let disabled = living(&world);
        let from = world.log.len();
        continue_with(&mut world, &second);
        prop_assert_eq!(world.fold_log(), world.memories.clone());
        for memory in disabled {
            let after = &world.memories[&memory.id];
            let by_person = world.log[from..].iter().any(|change| {
                change.memory == memory.id && ["accepted", "deleted"].contains(&change.effect.kind())
            });
            if by_person {
                continue;
            }
            prop_assert!(after.status.is_living(), "{:?}", after);
            let ends = world.log[from..].iter().any(|change| {
                change.memory == memory.id
                    && ["reweighted", "exempted", "archived", "superseded"].contains(&change.effect.kind())
            });
            prop_assert!(!ends, "{:?}", after);
            if memory.status == MemoryStatus::Active {
                prop_assert_eq!((after.status, after.weight), (memory.status, memory.weight));
            }
            world.decide(memory.id, &MemoryDecision::Enable);
        }
    }

    #[test]
    fn a_pinned_memory_loses_weight_only_by_verdicts_of_runs(first in stories(), second in stories()) {
        let mut world = first.play(|_, _, _, _| {});
        let pinned: Vec<_> =
            living(&world).into_iter().filter(|memory| memory.status != MemoryStatus::Archived).collect();
        for memory in &pinned {
            world.decide(memory.id, &MemoryDecision::Pin);
        }
        let from = world.log.len();
        continue_with(&mut world, &second);
        for change in world.log[from..].iter().filter(|change| pinned.iter().any(|one| one.id == change.memory)) {
            if let retro_core::memory::ChangeEffect::Reweighted { parts, .. } = &change.effect {
                let fades = [WeightReason::Ignored, WeightReason::Unneeded, WeightReason::Limbo];
                prop_assert!(parts.iter().all(|part| !fades.contains(&part.kind)), "{:?}", change);
            }
        }
    }

    #[test]
    fn every_deletion_with_a_standing_tombstone_can_be_taken_back_once(story in stories(), times in 1..4usize) {
        let mut world = story.play(|_, _, _, _| {});
        let standing: Vec<_> =
            world.tombstones.values().filter(|one| one.until > world.now).map(|one| one.memory).collect();
        for id in standing {
            let before = world.memories[&id].clone();
            prop_assert_eq!(world.decide_as(id, &MemoryDecision::Restore, "undo"), Ok(vec!["restored"]));
            for _ in 0..times {
                prop_assert_eq!(world.decide_as(id, &MemoryDecision::Restore, "undo"), Ok(vec![]));
            }
            let after = &world.memories[&id];
            prop_assert!(after.status.is_living() && !world.tombstones.contains_key(&id));
            prop_assert_eq!((after.weight, &after.evidence), (before.weight, &before.evidence));
        }
        prop_assert_eq!(world.fold_log(), world.memories);
    }
}
