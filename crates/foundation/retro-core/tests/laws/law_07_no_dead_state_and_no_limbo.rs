//! No memory stays forever in a state in which it is never read: from tentative, active and archived, events
//! lead to active as well as to archived or deleted.

use proptest::prelude::*;
use retro_core::audience::Audience;
use retro_core::finding::MemoryVerdict;
use retro_core::gate::blocked_reason;
use retro_core::id::MemoryId;
use retro_core::memory::{ChangeEffect, Memory, MemoryStatus, legal_changes, status_after};
use retro_core::time::add_seconds;

use crate::story::{Story, confirming_finding, contradicting_finding, find_memory, stories};
use crate::world::{DAY_S, InvestigatedRun, World, investigate};
use crate::{CASES, cases};

/// Returns the living memories at the end of a story, each with a copy of the world.
fn living_memories(story: &Story) -> Vec<(World, MemoryId)> {
    let world = story.play(|_, _, _, _| {});
    let living = world.memories.values().filter(|memory| memory.status.is_living());
    living.map(|memory| (world.clone(), memory.id)).collect()
}

/// Returns an investigation of a new run.
fn investigate_fresh_run(world: &World, nth: u32) -> InvestigatedRun {
    investigate(&format!("fresh {} {nth}", world.epoch))
}

/// Investigates enough runs with the same lesson to confirm the memory, after its tombstone has expired.
fn show_again(world: &mut World, id: MemoryId) {
    world.now = add_seconds(world.now, world.policy.tombstone_s + DAY_S);
    // An archived memory needs one more run, because the first one revives it.
    let investigated: Vec<_> = (0..=world.policy.confirm_runs)
        .map(|nth| investigate_fresh_run(world, nth).with_finding(confirming_finding(find_memory(world, id))))
        .collect();
    world.retro(&investigated);
}

/// Investigates enough runs that contradict the memory, in one retrospective.
fn contradict(world: &mut World, id: MemoryId) {
    let investigated: Vec<_> = (0..world.policy.contradiction_runs)
        .map(|nth| {
            investigate_fresh_run(world, nth)
                .with_finding(contradicting_finding(find_memory(world, id), false))
        })
        .collect();
    world.retro(&investigated);
}

fn judge(world: &mut World, id: MemoryId, verdict: MemoryVerdict) -> &Memory {
    let investigated = [investigate_fresh_run(world, 0).with_verdict(id, verdict)];
    world.retro(&investigated);
    find_memory(world, id)
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn every_living_memory_can_become_or_stay_active(story in stories()) {
        for (mut world, id) in living_memories(&story) {
            show_again(&mut world, id);
            let memory = find_memory(&world, id);
            prop_assert_eq!(memory.status, MemoryStatus::Active);
            let weight = memory.weight;
            let helped = judge(&mut world, id, MemoryVerdict::Helped);
            prop_assert!(helped.weight > weight || weight.get() == 1000);
            prop_assert!(helped.weight.get() >= world.policy.inject_weight_min, "it is presented");
        }
    }

    #[test]
    fn every_held_memory_can_be_released_and_is_then_shown(story in stories()) {
        for (mut world, id) in living_memories(&story) {
            show_again(&mut world, id);
            let held = |world: &World| blocked_reason(find_memory(world, id), &world.policy.held_dangers);
            if find_memory(&world, id).quarantine.is_none() {
                prop_assert_eq!(held(&world), None, "what the gate objects to is held after a retrospective");
                continue;
            }
            prop_assert!(held(&world).is_some(), "a held memory is shown to nobody");
            let weight = find_memory(&world, id).weight;
            world.release(id);
            show_again(&mut world, id);
            prop_assert_eq!(held(&world), None, "no retrospective holds a released memory again");
            let memory = find_memory(&world, id);
            prop_assert_eq!((memory.status, memory.weight), (MemoryStatus::Active, weight));
        }
    }

    #[test]
    fn every_living_memory_can_be_deleted_by_contradicting_runs(story in stories()) {
        for (mut world, id) in living_memories(&story) {
            if find_memory(&world, id).status == MemoryStatus::Archived {
                show_again(&mut world, id);
            }
            contradict(&mut world, id);
            prop_assert_eq!(find_memory(&world, id).status, MemoryStatus::Deleted);
            prop_assert!(world.tombstones.contains_key(&id));
        }
    }

    #[test]
    fn every_active_memory_can_be_archived(story in stories()) {
        for (mut world, id) in living_memories(&story) {
            show_again(&mut world, id);
            for harm in 0.. {
                if judge(&mut world, id, MemoryVerdict::Harmed).status == MemoryStatus::Archived {
                    break;
                }
                prop_assert!(harm < 7, "seven harms of 0.150 exhaust the largest weight");
            }
        }
    }

    #[test]
    fn no_memory_stays_in_limbo(story in stories()) {
        for (mut world, id) in living_memories(&story) {
            for _ in 0..3 {
                world.retro(&[]);
            }
            let memory = find_memory(&world, id);
            let handed_out = memory.weight.get() >= world.policy.inject_weight_min;
            prop_assert!(memory.status != MemoryStatus::Active || handed_out, "{memory:?}");
        }
    }

    #[test]
    fn only_legal_changes_happen(story in stories()) {
        story.play(|before, _, applied, _| {
            let mut stands: std::collections::BTreeMap<_, _> =
                before.memories.values().map(|memory| (memory.id, memory.status)).collect();
            for change in applied.changes.iter().filter(|change| !change.effect.leaves_memory_unchanged()) {
                let kind = change.effect.kind();
                let Some(status) = stands.get(&change.memory).copied() else {
                    assert_eq!(kind, "created");
                    let created = applied.memories.iter().find(|memory| memory.id == change.memory);
                    assert!(created.is_some());
                    let ChangeEffect::Created { status, scope, .. } = &change.effect else { unreachable!() };
                    // What two repositories have shown is confirmed.
                    let is_wide = !matches!(scope.audience(), Some(Audience::Repository(_)));
                    let may_begin_active = before.policy.confirm_runs == 1 || is_wide;
                    assert!(may_begin_active || *status == MemoryStatus::Tentative, "{change:?}");
                    stands.insert(change.memory, *status);
                    continue;
                };
                assert!(legal_changes(status).contains(&kind), "{kind} after {status}");
                stands.insert(change.memory, status_after(kind).unwrap_or(status));
            }
        });
    }
}
