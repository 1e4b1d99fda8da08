use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// Generates the facts of one event.
fn said() -> impl Strategy<Value = PullRequestFacts> {
    let moment = || (0i64..6).prop_map(at);
    let review = (0u64..4, prop::option::of(prop::bool::ANY), prop::bool::ANY, prop::bool::ANY).prop_map(
        |(id, verdict, dismissed, by_insider)| {
            let verdict = verdict
                .map(|good| if good { ReviewVerdict::Approved } else { ReviewVerdict::ChangesRequested });
            (id, ReviewFacts { verdict, dismissed, by_insider })
        },
    );
    let latest_state = prop::option::of((moment(), prop::bool::ANY));
    let closed = prop::collection::btree_set(moment(), 0..2);
    let reviews = prop::collection::btree_map(0u64..4, Just(ReviewFacts::default()), 0..1);
    let parts = (
        prop::option::of(moment()),
        (prop::option::of(moment()), prop::option::of(moment())),
        closed,
        latest_state,
        reviews,
        prop::option::of(review),
    );
    parts.prop_map(|(opened_at, (merged_at, reverted_at), closed_at, latest_state, mut reviews, review)| {
        reviews.extend(review);
        PullRequestFacts { opened_at, merged_at, closed_at, latest_state, reverted_at, reviews }
    })
}

fn folded(events: &[PullRequestFacts]) -> PullRequestFacts {
    events.iter().fold(PullRequestFacts::default(), PullRequestFacts::merge_facts)
}

proptest! {
    /// The facts are the same for events in any order, repeated, and in any grouping.
    #[test]
    fn what_is_known_of_a_pull_request_does_not_depend_on_the_order_in_which_it_came(
        events in prop::collection::vec(said(), 0..8),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..24),
        cut in any::<prop::sample::Index>(),
    ) {
        let once = folded(&events);
        let mut again = events.clone();
        if !events.is_empty() {
            again.extend(order.iter().map(|one| one.get(&events).clone()));
        }
        again.reverse();
        prop_assert_eq!(&folded(&again), &once);
        let (front, back) = events.split_at(if events.is_empty() { 0 } else { cut.index(events.len()) });
        prop_assert_eq!(folded(back).merge_facts(&folded(front)), once);
    }

    /// The stored facts are bounded, and the order of events does not decide which of them are stored.
    #[test]
    fn reviews_and_closings_are_bounded_in_any_order(seed in 0u64..50) {
        let one = |id: u64| PullRequestFacts {
            reviews: [(id, ReviewFacts { verdict: Some(ReviewVerdict::Approved), ..ReviewFacts::default() })].into(),
            closed_at: [at(id as i64)].into(),
            ..PullRequestFacts::default()
        };
        let mut all: Vec<_> = (0..300).map(|id| one((id * 7 + seed) % 300)).collect();
        let forward = folded(&all);
        all.reverse();
        prop_assert_eq!(&folded(&all), &forward);
        prop_assert_eq!((forward.reviews.len(), forward.closed_at.len()), (REVIEWS_KEPT_MAX, CLOSINGS_KEPT_MAX));
        prop_assert!(forward.reviews.contains_key(&0) && !forward.reviews.contains_key(&299));
    }
}

#[test]
fn the_latest_event_decides_the_state_and_merged_is_final() {
    let open =
        PullRequestFacts { opened_at: Some(at(0)), latest_state: Some((at(0), true)), ..Default::default() };
    let closed =
        PullRequestFacts { closed_at: [at(5)].into(), latest_state: Some((at(5), false)), ..open.clone() };
    let reopened = PullRequestFacts { latest_state: Some((at(6), true)), ..Default::default() };
    let merged = PullRequestFacts {
        merged_at: Some(at(90)),
        latest_state: Some((at(90), false)),
        ..Default::default()
    };
    let known = open.merge_facts(&closed);
    assert_eq!(
        (known.state(), known.outcomes()),
        (PullRequestState::Closed, vec![CreditedOutcome::ClosedUnmerged])
    );
    let known = reopened.merge_facts(&known);
    assert_eq!(known.state(), PullRequestState::Open);
    let known = merged.merge_facts(&known);
    assert_eq!((known.state(), known.time_to_merge_s()), (PullRequestState::Merged, Some(90)));
    assert_eq!(known.outcomes(), [CreditedOutcome::Merged, CreditedOutcome::ClosedUnmerged]);
}

#[test]
fn a_dismissed_approval_does_not_count_and_a_dismissed_round_does() {
    let review = |verdict, dismissed| PullRequestFacts {
        reviews: [(1, ReviewFacts { verdict, dismissed, by_insider: true })].into(),
        ..Default::default()
    };
    let dismissal = review(None, true);
    assert!(review(Some(ReviewVerdict::Approved), false).is_approved());
    assert!(!dismissal.clone().merge_facts(&review(Some(ReviewVerdict::Approved), false)).is_approved());
    let round = dismissal.merge_facts(&review(Some(ReviewVerdict::ChangesRequested), false));
    assert_eq!((round.review_rounds(), round.is_approved()), (1, false));
}

#[test]
fn a_request_for_changes_counts_if_an_insider_made_it_and_a_revert_if_there_was_a_merge() {
    let requested = |by_insider| PullRequestFacts {
        reviews: [(
            1,
            ReviewFacts { verdict: Some(ReviewVerdict::ChangesRequested), dismissed: false, by_insider },
        )]
        .into(),
        ..Default::default()
    };
    assert_eq!(requested(false).outcomes(), []);
    assert_eq!(requested(true).outcomes(), [CreditedOutcome::ChangesRequested]);
    let dismissal = PullRequestFacts {
        reviews: [(1, ReviewFacts { verdict: None, dismissed: true, by_insider: false })].into(),
        ..Default::default()
    };
    assert_eq!(dismissal.merge_facts(&requested(true)).outcomes(), [CreditedOutcome::ChangesRequested]);
    let reverted = PullRequestFacts { reverted_at: Some(at(9)), ..Default::default() };
    assert_eq!((reverted.outcomes(), reverted.is_reverted()), (vec![], false));
    let merged = PullRequestFacts { merged_at: Some(at(5)), ..Default::default() };
    assert_eq!(
        reverted.merge_facts(&merged).outcomes(),
        [CreditedOutcome::Merged, CreditedOutcome::Reverted]
    );
}
