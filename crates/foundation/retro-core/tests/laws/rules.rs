//! The laws of rules. Deciding a review again changes nothing (4), in any order of its remarks (13). The log
//! folds to the rules (5). Every rule can be activated, archived and deleted (7). The author's standing
//! limits what a remark can do.

use std::collections::BTreeMap;

use proptest::prelude::*;
use retro_core::learn::RuleUse;
use retro_core::memory::{ChangeEffect, MemoryStatus};
use retro_core::remark::AuthorStanding;
use retro_core::review::{ReadRemark, RuleMutationKind};

use crate::cases;
use crate::world::rules::{RuleStore, confined_to, rule_request};

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

/// Generates a requested rule: the author's standing, the title, whether it is limited to a folder, and
/// whether it is hostile.
fn wish() -> impl Strategy<Value = (AuthorStanding, usize, bool, bool)> {
    (standing(), 0..TITLES.len(), any::<bool>(), proptest::bool::weighted(0.2))
}

/// Generates reviews, each with remarks on one pull request.
fn reviews() -> impl Strategy<Value = Vec<Vec<ReadRemark>>> {
    let remarks = proptest::collection::vec(wish(), 1..5);
    proptest::collection::vec((1u64..4, remarks), 1..7).prop_map(|reviews| {
        let mut id = 0;
        let remarks_of = |number: u64, wishes: Vec<(AuthorStanding, usize, bool, bool)>, id: &mut u64| {
            let remark = |(standing, title, folder, hostile): (AuthorStanding, usize, bool, bool)| {
                *id += 1;
                let mut read = rule_request(standing, number, *id, TITLES[title]);
                if hostile {
                    read.screening.hostile = vec!["it is hostile".to_owned()];
                }
                if folder { confined_to("src", read) } else { read }
            };
            wishes.into_iter().map(remark).collect::<Vec<_>>()
        };
        reviews.into_iter().map(|(number, wishes)| remarks_of(number, wishes, &mut id)).collect()
    })
}

fn record_reviews(reviews: &[Vec<ReadRemark>]) -> RuleStore {
    let mut store = RuleStore::new();
    for review in reviews {
        store.record_review(review);
    }
    store
}

proptest! {
    #![proptest_config(cases(crate::CASES))]

    #[test]
    fn deciding_a_review_again_changes_nothing(reviews in reviews()) {
        let mut store = record_reviews(&reviews);
        let before = store.clone();
        for review in reviews.iter().chain(reviews.iter().rev()) {
            store.record_review(review);
        }
        prop_assert_eq!((&store.memories, &store.log), (&before.memories, &before.log));
    }

    #[test]
    fn the_order_of_remarks_does_not_matter(reviews in reviews()) {
        let turned: Vec<Vec<_>> =
            reviews.iter().map(|review| review.iter().rev().cloned().collect()).collect();
        prop_assert_eq!(record_reviews(&reviews), record_reviews(&turned));
    }

    #[test]
    fn the_log_folds_to_the_rules_and_active_rules_of_a_scope_differ(reviews in reviews()) {
        let store = record_reviews(&reviews);
        prop_assert_eq!(&store.fold_log(), &store.memories);
        let active: Vec<_> = store.memories.values().filter(|memory| memory.status == MemoryStatus::Active).collect();
        for (at, one) in active.iter().enumerate() {
            for other in &active[at + 1..] {
                prop_assert!((&one.scope, &one.lesson.title) != (&other.scope, &other.lesson.title));
            }
        }
    }

    #[test]
    fn authority_limits_the_effect_of_a_remark(reviews in reviews()) {
        let store = record_reviews(&reviews);
        for memory in store.memories.values() {
            if memory.quarantine.is_some() {
                prop_assert!(memory.status != MemoryStatus::Active, "{:?}", memory);
            }
            if memory.status == MemoryStatus::Active {
                let pull_requests: std::collections::BTreeSet<_> = memory.evidence.iter().map(|shown| &shown.run).collect();
                let insider = memory.authority == Some(AuthorStanding::Insider);
                prop_assert!(insider || pull_requests.len() > 1, "{:?}", memory);
            }
            let first = store.log.iter().find(|change| change.memory == memory.id).unwrap();
            if let ChangeEffect::Created { evidence: Some(evidence), .. } = &first.effect {
                prop_assert!(evidence.remark.as_ref().unwrap().standing > AuthorStanding::Bot);
            }
        }
    }

    #[test]
    fn every_rule_can_be_activated_archived_and_deleted(reviews in reviews()) {
        let mut store = record_reviews(&reviews);
        let living: Vec<_> = store.memories.values().filter(|memory| memory.status.is_living()).map(|memory| memory.id).collect();
        for id in living {
            if store.memories[&id].status == MemoryStatus::Tentative {
                store.promote(id).unwrap();
            }
            if store.memories[&id].status == MemoryStatus::Superseded {
                continue;
            }
            prop_assert_eq!(store.memories[&id].status, MemoryStatus::Active);
            let uses = BTreeMap::from([(id, RuleUse { presented: 50, unused: 50 })]);
            store.apply_mutation(RuleMutationKind::Expire, uses);
            prop_assert_eq!(store.memories[&id].status, MemoryStatus::Archived);
            store.promote(id).unwrap();
            store.retire(id);
            prop_assert_eq!(store.memories[&id].status, MemoryStatus::Deleted);
        }
    }
}
