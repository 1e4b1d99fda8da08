//! A run is counted once, no matter what is redelivered, replayed, re-emitted or restarted later.

use std::collections::BTreeSet;

use proptest::prelude::*;
use retro_core::count::{Arrival, Disposition};
use retro_core::id::EventKey;
use retro_core::time::add_seconds;

use crate::ledger::{Ledger, timelines, workflows};
use crate::world::start_time;
use crate::{CASES, cases};

/// Returns the runs of a workflow with at least one countable event.
fn countable_runs(events: &[Arrival], workflow: usize) -> BTreeSet<&str> {
    let of_workflow = events.iter().filter(|one| one.key == workflows()[workflow]);
    of_workflow.filter(|one| one.run.is_countable()).map(|one| one.run.run_id.as_str()).collect()
}

fn counted_runs(ledger: &Ledger, workflow: usize) -> BTreeSet<&str> {
    let of_workflow = ledger.runs.iter().filter(|((key, _), _)| *key == workflows()[workflow]);
    of_workflow.filter(|(_, (_, ordinal))| ordinal.is_some()).map(|((_, run), _)| run.as_str()).collect()
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn every_counted_run_has_one_ordinal_and_ordinals_have_no_gaps(timeline in timelines()) {
        let ledger = timeline.play(|ledger| {
            for key in workflows() {
                let ordinals = ledger.ordinals(&key);
                let given = ledger.workflows.get(&key).map_or(0, |state| state.counted);
                assert_eq!(ordinals, (1..=given).collect::<Vec<_>>(), "{key}");
            }
        });
        for workflow in 0..3 {
            let (may, did) = (countable_runs(&timeline.events, workflow), counted_runs(&ledger, workflow));
            // Only a cancelled attempt with a higher number that arrives first prevents a run from being
            // counted.
            let cancelled = timeline.events.iter().filter(|one| !one.run.is_countable());
            let cancelled: BTreeSet<_> = cancelled.map(|one| one.run.run_id.as_str()).collect();
            prop_assert!(did.is_subset(&may));
            prop_assert!(may.difference(&did).all(|run| cancelled.contains(run)), "{may:?} / {did:?}");
        }
    }

    #[test]
    fn replaying_every_event_changes_nothing(timeline in timelines(), turn in 0..40usize) {
        let mut ledger = timeline.play(|_| {});
        let before = ledger.clone();
        let mut again = timeline.events;
        let middle = turn % again.len();
        again.rotate_left(middle);
        // The time is that of the first events, so pauses still run and the replay does not open a window
        // that has become due.
        let effects = ledger.count(&again, start_time());
        prop_assert!(effects.decisions.iter().all(|one| one.disposition == Disposition::Duplicate));
        prop_assert_eq!(&ledger.events, &before.events);
        prop_assert_eq!(&ledger.runs, &before.runs);
        prop_assert_eq!(&ledger.workflows, &before.workflows);
    }

    #[test]
    fn re_emitting_every_run_under_new_event_ids_counts_none_again(timeline in timelines(), years in 0..50u64) {
        let mut ledger = timeline.play(|_| {});
        let before = ledger.clone();
        let renamed = |one: &Arrival| {
            let event = EventKey { id: format!("{} again", one.event.id), ..one.event.clone() };
            Arrival { event, ..one.clone() }
        };
        let again: Vec<_> = timeline.events.iter().map(renamed).collect();
        ledger.count(&again, add_seconds(start_time(), years * 365 * 24 * 3600));
        for (workflow, key) in workflows().iter().enumerate() {
            let had = counted_runs(&before, workflow);
            let has = counted_runs(&ledger, workflow);
            prop_assert!(had.is_subset(&has) && has.is_subset(&countable_runs(&timeline.events, workflow)));
            prop_assert_eq!(ledger.ordinals(key).len(), has.len());
            for run in had {
                let at = (key.clone(), crate::world::run(run));
                prop_assert_eq!(before.runs[&at].1, ledger.runs[&at].1, "ordinals never change");
            }
        }
    }
}
