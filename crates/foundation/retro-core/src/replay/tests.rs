use proptest::prelude::*;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_790_000_000_000 + millis).unwrap()
}

fn decide_action(canary: u32, progress: BatchProgress) -> BatchAction {
    decide_batch_action(&ReplayPace { canary, ..ReplayPace::default() }, &progress, at(0), at(0))
}

#[test]
fn the_canary_goes_first_and_the_others_wait_for_all_of_it() {
    let waiting = |waiting, under_way, handled| BatchProgress {
        waiting,
        under_way,
        handled,
        ..BatchProgress::default()
    };
    assert_eq!(decide_action(2, waiting(20, 0, 0)), BatchAction::Release(2));
    assert_eq!(decide_action(2, waiting(18, 2, 0)), BatchAction::Wait);
    assert_eq!(decide_action(2, waiting(18, 1, 1)), BatchAction::Wait);
    assert_eq!(decide_action(2, waiting(18, 0, 2)), BatchAction::Release(5), "a second's worth of the pace");
    assert_eq!(decide_action(0, waiting(20, 0, 0)), BatchAction::Release(5));
    assert_eq!(
        decide_action(9, waiting(3, 0, 0)),
        BatchAction::Release(3),
        "a batch smaller than its canary"
    );
    assert_eq!(decide_action(2, waiting(0, 3, 17)), BatchAction::Wait);
    assert_eq!(decide_action(2, waiting(0, 0, 20)), BatchAction::Done);
}

#[test]
fn a_skipped_dead_letter_is_no_canary() {
    let progress = BatchProgress { waiting: 18, skipped: 2, ..BatchProgress::default() };
    assert_eq!(decide_action(2, progress), BatchAction::Release(2));
    assert_eq!(
        decide_action(2, BatchProgress { skipped: 20, ..BatchProgress::default() }),
        BatchAction::Done
    );
}

#[test]
fn a_failed_canary_stops_and_so_does_too_large_a_share() {
    let canary = BatchProgress { waiting: 18, under_way: 1, failed: 1, ..BatchProgress::default() };
    let stopped = BatchAction::Stop(StopReason::CanaryFailed { failed: 1, of: 2 });
    assert_eq!(decide_action(2, canary), stopped);
    let ended = |handled, failed| BatchProgress { waiting: 5, handled, failed, ..BatchProgress::default() };
    assert!(matches!(decide_action(0, ended(0, 2)), BatchAction::Release(_)), "two are no share yet");
    assert_eq!(
        decide_action(0, ended(0, 3)),
        BatchAction::Stop(StopReason::TooManyFailed { failed: 3, of: 3 })
    );
    assert!(matches!(decide_action(2, ended(40, 10)), BatchAction::Release(_)), "a fifth is allowed");
    assert_eq!(
        decide_action(2, ended(39, 11)),
        BatchAction::Stop(StopReason::TooManyFailed { failed: 11, of: 50 })
    );
    let all_fail = ReplayPace { failed_permille_max: 1000, ..ReplayPace::default() };
    assert!(matches!(decide_batch_action(&all_fail, &ended(0, 50), at(0), at(0)), BatchAction::Release(_)));
}

#[test]
fn the_pace_is_kept_and_missed_time_is_not_caught_up() {
    let progress = BatchProgress { waiting: 100, ..BatchProgress::default() };
    let slow = ReplayPace { rate_milli: 100, ..ReplayPace::default() };
    assert_eq!(decide_batch_action(&slow, &progress, at(0), at(0)), BatchAction::Release(1));
    assert_eq!(decide_batch_action(&slow, &progress, at(10_000), at(0)), BatchAction::Wait);
    assert_eq!(decide_batch_action(&slow, &progress, at(10_000), at(9_500)), BatchAction::Release(1));
    let usual = ReplayPace::default();
    assert_eq!(decide_batch_action(&usual, &progress, at(0), at(3_600_000)), BatchAction::Release(5));
    assert_eq!(decide_batch_action(&usual, &progress, at(600), at(0)), BatchAction::Release(2));
    assert_eq!(decide_batch_action(&usual, &progress, at(1000), at(0)), BatchAction::Wait);
}

#[test]
fn an_invalid_pace_is_rejected_with_its_field() {
    let refused = |pace: ReplayPace| pace.validate().unwrap_err().to_string();
    let usual = ReplayPace::default();
    assert_eq!(usual.validate(), Ok(()));
    assert_eq!(refused(ReplayPace { rate_milli: 0, ..usual }), "`rate_milli` is 0; it must be 1 to 1000000");
    assert!(refused(ReplayPace { failed_permille_max: 1001, ..usual }).contains("failed_permille_max"));
    assert!(refused(ReplayPace { canary: 10_001, ..usual }).contains("canary"));
}

proptest! {
    /// Holds for any results of the dead letters, in any order.
    #[test]
    fn a_batch_ends_and_never_does_more_than_it_may(
        letters in 1u32..200,
        canary in 0u32..20,
        rate_milli in 100u32..50_000,
        failed_permille_max in 0u32..=1000,
        fates in proptest::collection::vec((any::<bool>(), 0u8..4), 200),
    ) {
        let pace = ReplayPace { canary, rate_milli, failed_permille_max };
        let mut progress = BatchProgress { waiting: letters, ..BatchProgress::default() };
        let (mut due, mut now) = (at(0), at(0));
        let (mut released, mut steps) = (0u32, 0u32);
        let mut fates = fates.into_iter().cycle();
        loop {
            steps += 1;
            prop_assert!(steps < 50_000, "it never ends: {progress:?}");
            prop_assert_eq!(progress.total_count(), letters);
            match decide_batch_action(&pace, &progress, due, now) {
                BatchAction::Release(count) => {
                    prop_assert!(count >= 1 && count <= progress.waiting);
                    if progress.handled < canary {
                        prop_assert!(progress.under_way + progress.handled + progress.failed + count <= canary);
                    }
                    progress.waiting -= count;
                    progress.under_way += count;
                    prop_assert!(progress.under_way <= BATCH_IN_FLIGHT_MAX);
                    released += count;
                    due = due.max(now) + pace.send_interval() * i32::try_from(count).unwrap();
                    let seconds = (now.duration_since(at(0)) + LOOKAHEAD).as_secs_f64();
                    prop_assert!(f64::from(released - 1) <= seconds * f64::from(rate_milli) / 1000.0 + 1.0);
                }
                BatchAction::Wait => {
                    let (good, kind) = fates.next().unwrap();
                    if progress.under_way > 0 {
                        progress.under_way -= 1;
                        match (good, kind) {
                            (_, 0) => progress.skipped += 1,
                            (true, _) => progress.handled += 1,
                            (false, _) => progress.failed += 1,
                        }
                    }
                    now += SignedDuration::from_millis(200);
                }
                BatchAction::Stop(StopReason::CanaryFailed { failed, of }) => {
                    prop_assert!(failed > 0 && of <= canary && released <= canary + progress.skipped);
                    break;
                }
                BatchAction::Stop(StopReason::TooManyFailed { failed, of }) => {
                    prop_assert!(u64::from(failed) * 1000 > u64::from(failed_permille_max) * u64::from(of));
                    break;
                }
                BatchAction::Done => {
                    prop_assert_eq!(progress.ended_count(), letters);
                    break;
                }
            }
        }
    }
}
