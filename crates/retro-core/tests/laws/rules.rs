//! The laws of rules: a review that is decided again changes nothing (4), in whichever order its remarks came (13); the log
//! folds to the rules (5); every rule can be reached and forgotten (7); and nobody is believed beyond their standing.

use std::collections::BTreeMap;

use proptest::prelude::*;
use retro_core::learn::RuleUse;
use retro_core::memory::{ChangeEffect, MemoryStatus};
use retro_core::review::{AuthorStanding, ReadRemark, RuleMutationKind};

use crate::cases;
use crate::world::rules::{Shop, asks, within};

const TITLES: [&str; 5] = [
    "Wrap every error with context",
    "Never wrap every error with context",
    "Use `rg` instead of `grep`",
    "Use `grep` instead of `rg`",
    "Keep functions short",
];

fn standing() -> impl Strategy<Value = AuthorStanding> {
    prop_oneof![
        Just(AuthorStanding::Bot),
        Just(AuthorStanding::Outsider),
        Just(AuthorStanding::Contributor),
        Just(AuthorStanding::Insider)
    ]
}

/// What one person asks for, in or out of a folder, hostile or not.
fn wish() -> impl Strategy<Value = (AuthorStanding, usize, bool, bool)> {
    (standing(), 0..TITLES.len(), any::<bool>(), proptest::bool::weighted(0.2))
}

/// Pull requests with what was said on each.
fn reviews() -> impl Strategy<Value = Vec<Vec<ReadRemark>>> {
    let remarks = proptest::collection::vec(wish(), 1..5);
    proptest::collection::vec((1u64..4, remarks), 1..7).prop_map(|reviews| {
        let mut id = 0;
        let said = |number: u64, wishes: Vec<(AuthorStanding, usize, bool, bool)>, id: &mut u64| {
            let remark = |(standing, title, folder, hostile): (AuthorStanding, usize, bool, bool)| {
                *id += 1;
                let mut read = asks(standing, number, *id, TITLES[title]);
                if hostile {
                    read.screening.hostile = vec!["it is hostile".to_owned()];
                }
                if folder { within("src", read) } else { read }
            };
            wishes.into_iter().map(remark).collect::<Vec<_>>()
        };
        reviews.into_iter().map(|(number, wishes)| said(number, wishes, &mut id)).collect()
    })
}

fn heard(reviews: &[Vec<ReadRemark>]) -> Shop {
    let mut shop = Shop::new();
    for review in reviews {
        shop.hear(review);
    }
    shop
}

proptest! {
    #![proptest_config(cases(crate::CASES))]

    #[test]
    fn a_review_that_is_decided_again_changes_nothing(reviews in reviews()) {
        let mut shop = heard(&reviews);
        let before = shop.clone();
        for review in reviews.iter().chain(reviews.iter().rev()) {
            shop.hear(review);
        }
        prop_assert_eq!((&shop.memories, &shop.log), (&before.memories, &before.log));
    }

    #[test]
    fn the_order_in_which_remarks_came_does_not_matter(reviews in reviews()) {
        let turned: Vec<Vec<_>> =
            reviews.iter().map(|review| review.iter().rev().cloned().collect()).collect();
        prop_assert_eq!(heard(&reviews), heard(&turned));
    }

    #[test]
    fn the_log_folds_to_the_rules_and_no_two_active_ones_of_a_scope_are_the_same(reviews in reviews()) {
        let shop = heard(&reviews);
        prop_assert_eq!(&shop.folded(), &shop.memories);
        let active: Vec<_> = shop.memories.values().filter(|memory| memory.status == MemoryStatus::Active).collect();
        for (at, one) in active.iter().enumerate() {
            for other in &active[at + 1..] {
                prop_assert!((&one.scope, &one.lesson.title) != (&other.scope, &other.lesson.title));
            }
        }
    }

    #[test]
    fn nobody_is_believed_beyond_their_standing(reviews in reviews()) {
        let shop = heard(&reviews);
        for memory in shop.memories.values() {
            if memory.quarantine.is_some() {
                prop_assert!(memory.status != MemoryStatus::Active, "{:?}", memory);
            }
            if memory.status == MemoryStatus::Active {
                let pull_requests: std::collections::BTreeSet<_> = memory.evidence.iter().map(|shown| &shown.run).collect();
                let insider = memory.authority == Some(AuthorStanding::Insider);
                prop_assert!(insider || pull_requests.len() > 1, "{:?}", memory);
            }
            let first = shop.log.iter().find(|change| change.memory == memory.id).unwrap();
            if let ChangeEffect::Created { evidence, .. } = &first.effect {
                prop_assert!(evidence.remark.as_ref().unwrap().standing > AuthorStanding::Bot);
            }
        }
    }

    #[test]
    fn every_rule_can_be_reached_and_forgotten(reviews in reviews()) {
        let mut shop = heard(&reviews);
        let living: Vec<_> = shop.memories.values().filter(|memory| memory.status.is_living()).map(|memory| memory.id).collect();
        for id in living {
            if shop.memories[&id].status == MemoryStatus::Tentative {
                shop.promote(id).unwrap();
            }
            if shop.memories[&id].status == MemoryStatus::Superseded {
                continue;
            }
            prop_assert_eq!(shop.memories[&id].status, MemoryStatus::Active);
            let uses = BTreeMap::from([(id, RuleUse { presented: 50, unused: 50 })]);
            shop.ask(RuleMutationKind::Expire, uses);
            prop_assert_eq!(shop.memories[&id].status, MemoryStatus::Archived);
            shop.promote(id).unwrap();
            shop.retire(id);
            prop_assert_eq!(shop.memories[&id].status, MemoryStatus::Deleted);
        }
    }
}
