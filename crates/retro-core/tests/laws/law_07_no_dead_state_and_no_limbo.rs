//! From tentative, active and archived, some events lead to active and some others to archived or deleted; and no
//! memory stays where nobody can ever read it.

use proptest::prelude::*;
use retro_core::finding::MemoryVerdict;
use retro_core::id::MemoryId;
use retro_core::memory::{Memory, MemoryStatus, legal_changes, status_after};
use retro_core::time::add_seconds;

use crate::story::{Story, again, find, opposed, stories};
use crate::world::{DAY_S, Look, World, look};
use crate::{CASES, cases};

/// The living memories of a story's end, each with the world in which it lives.
fn living(story: &Story) -> Vec<(World, MemoryId)> {
    let world = story.tell(|_, _, _, _| {});
    let living = world.memories.values().filter(|memory| memory.status.is_living());
    living.map(|memory| (world.clone(), memory.id)).collect()
}

/// A look at a run that nobody has looked at before.
fn fresh(world: &World, nth: u32) -> Look {
    look(&format!("fresh {} {nth}", world.epoch))
}

/// Runs that show it again: enough to confirm it, once no tombstone stands against it.
fn shown_again(world: &mut World, id: MemoryId) {
    world.now = add_seconds(world.now, world.policy.tombstone_s + DAY_S);
    // An archived one takes one run more: the first revives it.
    let looks: Vec<_> =
        (0..=world.policy.confirm_runs).map(|nth| fresh(world, nth).finds(again(find(world, id)))).collect();
    world.retro(&looks);
}

/// Runs that show that it is wrong, of one retrospective.
fn contradicted(world: &mut World, id: MemoryId) {
    let looks: Vec<_> = (0..world.policy.contradiction_runs)
        .map(|nth| fresh(world, nth).finds(opposed(find(world, id), false)))
        .collect();
    world.retro(&looks);
}

fn judged(world: &mut World, id: MemoryId, verdict: MemoryVerdict) -> &Memory {
    let looks = [fresh(world, 0).judged(id, verdict)];
    world.retro(&looks);
    find(world, id)
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn every_living_memory_can_become_or_stay_active(story in stories()) {
        for (mut world, id) in living(&story) {
            shown_again(&mut world, id);
            let memory = find(&world, id);
            prop_assert_eq!(memory.status, MemoryStatus::Active);
            let weight = memory.weight;
            let helped = judged(&mut world, id, MemoryVerdict::Helped);
            prop_assert!(helped.weight > weight || weight.get() == 1000);
            prop_assert!(helped.weight.get() >= world.policy.inject_weight_min, "and is handed out");
        }
    }

    #[test]
    fn every_living_memory_can_be_deleted_by_what_runs_show(story in stories()) {
        for (mut world, id) in living(&story) {
            if find(&world, id).status == MemoryStatus::Archived {
                shown_again(&mut world, id);
            }
            contradicted(&mut world, id);
            prop_assert_eq!(find(&world, id).status, MemoryStatus::Deleted);
            prop_assert!(world.tombstones.contains_key(&id));
        }
    }

    #[test]
    fn every_active_memory_can_fade_into_the_archive(story in stories()) {
        for (mut world, id) in living(&story) {
            shown_again(&mut world, id);
            for harm in 0.. {
                if judged(&mut world, id, MemoryVerdict::Harmed).status == MemoryStatus::Archived {
                    break;
                }
                prop_assert!(harm < 7, "seven harms of 0.150 use up the greatest weight");
            }
        }
    }

    #[test]
    fn nothing_stays_in_limbo(story in stories()) {
        for (mut world, id) in living(&story) {
            for _ in 0..3 {
                world.retro(&[]);
            }
            let memory = find(&world, id);
            let handed_out = memory.weight.get() >= world.policy.inject_weight_min;
            prop_assert!(memory.status != MemoryStatus::Active || handed_out, "{memory:?}");
        }
    }

    #[test]
    fn the_table_of_legal_changes_is_what_happens(story in stories()) {
        story.tell(|before, _, applied, _| {
            let mut stands: std::collections::BTreeMap<_, _> =
                before.memories.values().map(|memory| (memory.id, memory.status)).collect();
            for change in applied.changes.iter().filter(|change| !change.effect.leaves_memory_unchanged()) {
                let kind = change.effect.kind();
                let Some(status) = stands.get(&change.memory).copied() else {
                    assert_eq!(kind, "created");
                    let created = applied.memories.iter().find(|memory| memory.id == change.memory);
                    assert!(created.is_some());
                    let begins = if before.policy.confirm_runs == 1 { MemoryStatus::Active } else { MemoryStatus::Tentative };
                    stands.insert(change.memory, begins);
                    continue;
                };
                assert!(legal_changes(status).contains(&kind), "{kind} after {status}");
                stands.insert(change.memory, status_after(kind).unwrap_or(status));
            }
        });
    }
}
