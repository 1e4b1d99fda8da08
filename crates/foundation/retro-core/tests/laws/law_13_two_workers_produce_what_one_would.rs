//! Two workers that process the same input concurrently leave the same state as one.

use proptest::prelude::*;
use retro_core::count::{IntakeProgress, count_arrivals as count};

use crate::ledger::{Ledger, policy, timelines};
use crate::story::stories;
use crate::world::{WriterInput, decide, start_time};
use crate::{CASES, cases};

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn two_writers_with_the_same_facts_decide_the_same_and_it_is_stored_once(story in stories()) {
        story.play(|before, input, applied, after| {
            let second = decide(input);
            assert_eq!(&second, applied);
            let mut both = before.clone();
            both.commit(applied);
            assert_eq!(both.commit(&second), [""; 0]);
            assert_eq!((&both.memories, &both.log, &both.tombstones), (&after.memories, &after.log, &after.tombstones));
        });
    }

    #[test]
    fn a_second_writer_changes_nothing(story in stories()) {
        story.play(|_, input, _, after| {
            let mut late = after.clone();
            let mut facts = after.facts(input.facts.retrospective, &input.batch);
            facts.previous_epoch = input.facts.previous_epoch;
            let second = decide(&WriterInput { facts, batch: input.batch.clone() });
            assert_eq!(late.commit(&second), [""; 0]);
            assert_eq!((late.memories, late.log), (after.memories.clone(), after.log.clone()));
        });
    }

    #[test]
    fn two_counters_with_the_same_facts_decide_the_same_and_it_is_stored_once(timeline in timelines()) {
        timeline.play(|ledger| {
            let facts = || ledger.load(&timeline.events);
            let (one, two) = (
                count(facts(), &timeline.events, IntakeProgress::NotAwaited, &policy(), start_time()),
                count(facts(), &timeline.events, IntakeProgress::NotAwaited, &policy(), start_time()),
            );
            assert_eq!(one, two);
            let (mut once, mut twice) = (ledger.clone(), ledger.clone());
            once.store(&timeline.events, &one);
            twice.store(&timeline.events, &one);
            twice.store(&timeline.events, &two);
            assert_eq!(once, twice);
        });
    }

    #[test]
    fn a_second_counter_changes_nothing(timeline in timelines()) {
        let mut ledger = Ledger::default();
        ledger.count(&timeline.events, start_time());
        let once = ledger.clone();
        ledger.count(&timeline.events, start_time());
        prop_assert_eq!(ledger, once);
    }
}
