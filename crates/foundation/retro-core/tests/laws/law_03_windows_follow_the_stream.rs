//! The first window of a workflow has the same runs whichever of several counters was quicker.

use std::collections::BTreeMap;

use proptest::prelude::*;
use retro_core::count::{Arrival, CountingFacts, Disposition, IntakeProgress, count_arrivals};
use retro_core::id::WorkflowKey;
use retro_core::retrospective::WorkflowState;
use retro_core::run::RunOutcome;

use crate::ledger::{arrival, policy, workflows};
use crate::world::start_time;
use crate::{CASES, cases};

/// What several counters have stored together. No retrospective ends.
#[derive(Default)]
struct Counted {
    workflows: BTreeMap<WorkflowKey, WorkflowState>,
    /// Positions of the counted runs.
    positions: BTreeMap<WorkflowKey, Vec<u64>>,
    /// Positions of the runs in the first window.
    windows: BTreeMap<WorkflowKey, Vec<u64>>,
}

impl Counted {
    fn store(&mut self, batch: &[Arrival], progress: IntakeProgress) {
        let mut facts = CountingFacts { workflows: self.workflows.clone(), ..CountingFacts::default() };
        if let IntakeProgress::UpTo(position) = progress {
            let waiting = |all: &Vec<u64>| all.iter().filter(|one| **one <= position).count() as u64;
            facts.waiting_in_order =
                self.positions.iter().map(|(key, all)| (key.clone(), waiting(all))).collect();
        }
        let effects = count_arrivals(facts, batch, progress, &policy(), start_time());
        for (arrival, decision) in batch.iter().zip(&effects.decisions) {
            assert!(matches!(decision.disposition, Disposition::Counted(_)));
            self.positions.entry(arrival.key.clone()).or_default().push(arrival.position);
        }
        self.workflows.extend(effects.workflows);
        for opened in effects.opened {
            let window = opened.retrospective;
            let mut positions = self.positions[&window.key].clone();
            positions.sort_unstable();
            positions.truncate((window.last + 1 - window.first) as usize);
            assert!(self.windows.insert(window.key, positions).is_none(), "no retrospective has ended");
        }
    }
}

/// A batch of one of the counters.
#[derive(Debug, Clone)]
struct Batch {
    /// Workflow of each run.
    runs: Vec<usize>,
    /// Batches are stored in the order of these numbers.
    turn: u32,
    /// Whether the counter has learned nothing about the others since the start.
    is_stale: bool,
    /// Whether what was put off is checked afterwards.
    is_checked: bool,
}

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let batch = (prop::collection::vec(0..3usize, 1..8), any::<u32>(), any::<bool>(), any::<bool>());
    let batch =
        batch.prop_map(|(runs, turn, is_stale, is_checked)| Batch { runs, turn, is_stale, is_checked });
    prop::collection::vec(batch, 1..12)
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn the_first_window_has_the_same_runs_whichever_counter_was_quicker(batches in batches()) {
        let mut position = 0;
        let events: Vec<Vec<Arrival>> = batches
            .iter()
            .map(|batch| {
                let event = |workflow: &usize| {
                    position += 1;
                    let name = format!("r{position}");
                    Arrival { position, ..arrival(&name, *workflow, &name, 1, RunOutcome::Success) }
                };
                batch.runs.iter().map(event).collect()
            })
            .collect();
        let ends: Vec<u64> = events.iter().map(|batch| batch.last().unwrap().position).collect();

        let mut one = Counted::default();
        events.iter().for_each(|batch| one.store(batch, IntakeProgress::BeforeEachEvent));

        let mut several = Counted::default();
        let mut turns: Vec<usize> = (0..batches.len()).collect();
        turns.sort_by_key(|nth| batches[*nth].turn);
        let mut stored = vec![false; batches.len()];
        for nth in turns {
            let handled = |stored: &[bool]| stored.iter().take_while(|is_stored| **is_stored).count();
            let before = handled(&stored);
            let progress = match before.checked_sub(1) {
                _ if batches[nth].is_stale => IntakeProgress::UpTo(0),
                _ if before == nth => IntakeProgress::BeforeEachEvent,
                Some(last) => IntakeProgress::UpTo(ends[last]),
                None => IntakeProgress::UpTo(0),
            };
            several.store(&events[nth], progress);
            stored[nth] = true;
            if let Some(last) = handled(&stored).checked_sub(1).filter(|_| batches[nth].is_checked) {
                several.store(&[], IntakeProgress::UpTo(ends[last]));
            }
        }
        several.store(&[], IntakeProgress::UpTo(position));
        prop_assert_eq!(several.windows, one.windows);
        prop_assert!(workflows().iter().all(|key| several.positions.get(key).map(Vec::len) == one.positions.get(key).map(Vec::len)));
    }
}
