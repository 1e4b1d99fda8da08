//! "A separate run" means another run id. A run that is looked at twice is one run.

use std::collections::BTreeSet;

use proptest::prelude::*;
use retro_core::id::{MemoryId, RunId};
use retro_core::memory::{ChangeCause, MemoryStatus};

use crate::story::{Chapter, Story, stories};
use crate::world::World;
use crate::{CASES, cases};

/// The runs that showed a memory, by its changes.
fn shown_by(world: &World, memory: MemoryId) -> Vec<RunId> {
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

/// Whether a person has vouched for a memory, so that no separate run had to confirm it.
fn accepted(world: &World, memory: MemoryId) -> bool {
    world.log.iter().any(|change| change.memory == memory && change.effect.kind() == "accepted")
}

/// The story with every look taken at the same run.
fn of_one_run(mut story: Story) -> Story {
    for chapter in &mut story.chapters {
        if let Chapter::Retrospective(looks) | Chapter::Manual(looks) = chapter {
            looks.iter_mut().for_each(|(run, _)| *run = 0);
        }
    }
    story.policy.confirm_runs = story.policy.confirm_runs.max(2);
    story
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn one_run_alone_makes_nothing_active_however_often_and_by_whomever_it_is_looked_at(story in stories()) {
        of_one_run(story).tell(|_, _, _, after| {
            let active = after.memories.values().filter(|memory| memory.status == MemoryStatus::Active);
            assert!(active.into_iter().all(|memory| accepted(after, memory.id)));
        });
    }

    #[test]
    fn a_run_counts_once_in_the_evidence_of_a_memory(story in stories()) {
        let world = story.tell(|_, _, _, _| {});
        for memory in world.memories.values() {
            let runs = shown_by(&world, memory.id);
            let distinct: BTreeSet<_> = runs.iter().collect();
            prop_assert_eq!(distinct.len(), runs.len(), "{:?}", runs);
            prop_assert_eq!(memory.observed_runs as usize, runs.len());
        }
    }

    #[test]
    fn what_is_active_was_shown_by_as_many_runs_as_the_policy_asks(story in stories()) {
        let world = story.tell(|_, _, _, _| {});
        let active = world.memories.values().filter(|memory| memory.status == MemoryStatus::Active);
        for memory in active.filter(|memory| !accepted(&world, memory.id)) {
            prop_assert!(memory.observed_runs >= story.policy.confirm_runs);
        }
    }
}
