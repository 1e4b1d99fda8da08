//! Folding the change log gives the memory table.

use std::collections::BTreeMap;

use proptest::prelude::*;
use retro_core::id::MemoryId;
use retro_core::memory::{Change, ChangeEffect, Memory, MemoryStatus, fold_change};
use retro_core::weight::Weight;

use crate::story::stories;
use crate::{CASES, cases};

/// Folds a log to its memories. Returns `None` if a change is illegal.
fn fold_log(log: &[Change]) -> Option<BTreeMap<MemoryId, Memory>> {
    let mut memories = BTreeMap::new();
    for change in log {
        let after = fold_change(memories.remove(&change.memory), change).ok()?;
        memories.extend(after.map(|memory| (memory.id, memory)));
    }
    Some(memories)
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn after_every_retrospective_the_log_folds_to_the_memories(story in stories()) {
        let world = story.play(|_, _, applied, after| {
            assert_eq!(after.fold_log(), after.memories);
            let changed = applied.changes.iter().filter(|change| !change.effect.leaves_memory_unchanged());
            let mut changed: Vec<_> = changed.map(|change| change.memory).collect();
            changed.sort_unstable();
            changed.dedup();
            let returned: Vec<_> = applied.memories.iter().map(|memory| memory.id).collect();
            assert_eq!(changed, returned, "what changed is returned, and nothing else");
        });
        prop_assert_eq!(world.fold_log(), world.memories);
    }

    #[test]
    fn a_log_that_lost_evidence_or_a_deletion_does_not_fold_to_the_memories(
        story in stories(),
        nth in 0..100usize,
    ) {
        let world = story.play(|_, _, _, _| {});
        let telling = ["created", "promoted", "observed", "revived", "deleted"];
        let at: Vec<_> =
            (0..world.log.len()).filter(|at| telling.contains(&world.log[*at].effect.kind())).collect();
        let mut log = world.log;
        if at.is_empty() {
            return Ok(());
        }
        let lost = log.remove(at[nth % at.len()]);
        prop_assert!(fold_log(&log).as_ref() != Some(&world.memories), "{lost:?}");
    }

    #[test]
    fn a_change_whose_figures_were_altered_does_not_fold(story in stories(), nth in 0..100usize) {
        let world = story.play(|_, _, _, _| {});
        let mut log = world.log;
        let mut moved: Vec<_> = log
            .iter_mut()
            .filter_map(|change| match &mut change.effect {
                ChangeEffect::Reweighted { before, after, .. } => Some((before, after)),
                _ => None,
            })
            .collect();
        if moved.is_empty() {
            return Ok(());
        }
        let at = nth % moved.len();
        let (before, after) = &mut moved[at];
        let altered = if nth % 2 == 0 { before } else { after };
        **altered = Weight::from_thousandths((altered.get() + 1) % 1001);
        prop_assert_eq!(fold_log(&log), None);
    }

    #[test]
    fn weights_stay_within_the_bounds_of_their_status(story in stories()) {
        story.play(|_, _, _, after| {
            for memory in after.memories.values() {
                let weight = memory.weight.get();
                match memory.status {
                    MemoryStatus::Tentative => assert_eq!(weight, 0),
                    MemoryStatus::Active => assert!((50..=1000).contains(&weight), "{memory:?}"),
                    _ => assert!(weight <= 1000),
                }
            }
        });
    }
}
