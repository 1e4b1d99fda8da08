//! A separate run is one with another run id: a run investigated twice counts once.

use std::collections::BTreeSet;

use proptest::prelude::*;
use retro_core::id::{MemoryId, RunId};
use retro_core::memory::{ChangeCause, MemoryStatus};

use crate::story::{Chapter, Story, stories};
use crate::world::World;
use crate::{CASES, cases};

/// Returns the runs whose findings created or confirmed a memory, according to the change log.
fn runs_that_showed(world: &World, memory: MemoryId) -> Vec<RunId> {
    let showing = ["created", "promoted", "observed", "revived"];
    let changes = world.log.iter().filter(|change| change.memory == memory);
    changes
        .filter(|change| showing.contains(&change.effect.kind()))
        .filter_map(|change| match &change.cause {
            ChangeCause::Run { run, .. } => Some(run.clone()),
            _ => None,
        })
        .collect()
}

/// Returns `true` if an operator accepted the memory, which makes confirmation by another run unnecessary.
fn is_accepted(world: &World, memory: MemoryId) -> bool {
    world.log.iter().any(|change| change.memory == memory && change.effect.kind() == "accepted")
}

/// Returns the story with all investigations moved to the same run.
fn with_one_run(mut story: Story) -> Story {
    for chapter in &mut story.chapters {
        if let Chapter::Retrospective(investigated) | Chapter::Manual(investigated) = chapter {
            investigated.iter_mut().for_each(|(run, _)| *run = 0);
        }
    }
    story.policy.confirm_runs = story.policy.confirm_runs.max(2);
    story
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn one_run_alone_activates_no_memory_however_often_it_is_investigated(story in stories()) {
        with_one_run(story).play(|_, _, _, after| {
            let active = after.memories.values().filter(|memory| memory.status == MemoryStatus::Active);
            assert!(active.into_iter().all(|memory| is_accepted(after, memory.id)));
        });
    }

    #[test]
    fn a_run_counts_once_in_the_evidence_of_a_memory(story in stories()) {
        let world = story.play(|_, _, _, _| {});
        for memory in world.memories.values() {
            let runs = runs_that_showed(&world, memory.id);
            let distinct: BTreeSet<_> = runs.iter().collect();
            prop_assert_eq!(distinct.len(), runs.len(), "{:?}", runs);
            prop_assert_eq!(memory.observed_runs as usize, runs.len());
        }
    }

    #[test]
    fn active_memories_were_seen_in_as_many_runs_as_the_policy_requires(story in stories()) {
        let world = story.play(|_, _, _, _| {});
        let active = world.memories.values().filter(|memory| memory.status == MemoryStatus::Active);
        for memory in active.filter(|memory| !is_accepted(&world, memory.id)) {
            prop_assert!(memory.observed_runs >= story.policy.confirm_runs);
        }
    }
}
