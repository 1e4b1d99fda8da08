//! Two workers handed the same thing at once leave what one would have left.

use proptest::prelude::*;
use retro_core::count::count_arrivals as count;

use crate::ledger::{Ledger, lives, policy};
use crate::story::stories;
use crate::world::{Asked, dawn, decide};
use crate::{CASES, cases};

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn two_writers_on_the_same_facts_decide_the_same_and_storing_both_is_storing_one(story in stories()) {
        story.tell(|before, asked, applied, after| {
            let second = decide(asked);
            assert_eq!(&second, applied);
            let mut both = before.clone();
            both.commit(applied);
            assert_eq!(both.commit(&second), [""; 0]);
            assert_eq!((&both.memories, &both.log, &both.tombstones), (&after.memories, &after.log, &after.tombstones));
        });
    }

    #[test]
    fn a_writer_that_comes_second_finds_everything_done(story in stories()) {
        story.tell(|_, asked, _, after| {
            let mut late = after.clone();
            let mut facts = after.facts(asked.facts.retrospective, &asked.batch);
            facts.previous_epoch = asked.facts.previous_epoch;
            let second = decide(&Asked { facts, batch: asked.batch.clone() });
            assert_eq!(late.commit(&second), [""; 0]);
            assert_eq!((late.memories, late.log), (after.memories.clone(), after.log.clone()));
        });
    }

    #[test]
    fn two_counters_on_the_same_facts_decide_the_same_and_storing_both_is_storing_one(life in lives()) {
        life.live(|ledger| {
            let facts = || ledger.load(&life.events);
            let (one, two) = (
                count(facts(), &life.events, &policy(), dawn()),
                count(facts(), &life.events, &policy(), dawn()),
            );
            assert_eq!(one, two);
            let (mut once, mut twice) = (ledger.clone(), ledger.clone());
            once.store(&life.events, &one);
            twice.store(&life.events, &one);
            twice.store(&life.events, &two);
            assert_eq!(once, twice);
        });
    }

    #[test]
    fn a_counter_that_comes_second_finds_every_event_seen(life in lives()) {
        let mut ledger = Ledger::default();
        ledger.count(&life.events, dawn());
        let once = ledger.clone();
        ledger.count(&life.events, dawn());
        prop_assert_eq!(ledger, once);
    }
}
