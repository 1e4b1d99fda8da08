use proptest::prelude::*;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_790_000_000_000 + millis).unwrap()
}

fn asked(canary: u32, progress: Progress) -> Next {
    next(&Pace { canary, ..Pace::default() }, &progress, at(0), at(0))
}

#[test]
fn the_canary_goes_first_and_the_rest_waits_for_all_of_it() {
    let waiting =
        |waiting, under_way, handled| Progress { waiting, under_way, handled, ..Progress::default() };
    assert_eq!(asked(2, waiting(20, 0, 0)), Next::Release(2));
    assert_eq!(asked(2, waiting(18, 2, 0)), Next::Wait);
    assert_eq!(asked(2, waiting(18, 1, 1)), Next::Wait);
    assert_eq!(asked(2, waiting(18, 0, 2)), Next::Release(5), "a second's worth of the pace");
    assert_eq!(asked(0, waiting(20, 0, 0)), Next::Release(5));
    assert_eq!(asked(9, waiting(3, 0, 0)), Next::Release(3), "a batch smaller than its canary");
    assert_eq!(asked(2, waiting(0, 3, 17)), Next::Wait);
    assert_eq!(asked(2, waiting(0, 0, 20)), Next::Done);
}

#[test]
fn a_letter_that_was_left_alone_is_no_canary() {
    let progress = Progress { waiting: 18, skipped: 2, ..Progress::default() };
    assert_eq!(asked(2, progress), Next::Release(2));
    assert_eq!(asked(2, Progress { skipped: 20, ..Progress::default() }), Next::Done);
}

#[test]
fn a_failed_canary_stops_and_so_does_too_large_a_share() {
    let canary = Progress { waiting: 18, under_way: 1, failed: 1, ..Progress::default() };
    let stopped = Next::Stop(Stop::CanaryFailed { failed: 1, of: 2 });
    assert_eq!(asked(2, canary), stopped);
    let ended = |handled, failed| Progress { waiting: 5, handled, failed, ..Progress::default() };
    assert!(matches!(asked(0, ended(0, 2)), Next::Release(_)), "two are no share yet");
    assert_eq!(asked(0, ended(0, 3)), Next::Stop(Stop::TooManyFailed { failed: 3, of: 3 }));
    assert!(matches!(asked(2, ended(40, 10)), Next::Release(_)), "a fifth is allowed");
    assert_eq!(asked(2, ended(39, 11)), Next::Stop(Stop::TooManyFailed { failed: 11, of: 50 }));
    let all_fail = Pace { failed_permille_max: 1000, ..Pace::default() };
    assert!(matches!(next(&all_fail, &ended(0, 50), at(0), at(0)), Next::Release(_)));
}

#[test]
fn the_pace_is_kept_and_what_was_missed_is_not_caught_up_with() {
    let progress = Progress { waiting: 100, ..Progress::default() };
    let slow = Pace { rate_milli: 100, ..Pace::default() };
    assert_eq!(next(&slow, &progress, at(0), at(0)), Next::Release(1));
    assert_eq!(next(&slow, &progress, at(10_000), at(0)), Next::Wait);
    assert_eq!(next(&slow, &progress, at(10_000), at(9_500)), Next::Release(1));
    let usual = Pace::default();
    assert_eq!(next(&usual, &progress, at(0), at(3_600_000)), Next::Release(5));
    assert_eq!(next(&usual, &progress, at(600), at(0)), Next::Release(2));
    assert_eq!(next(&usual, &progress, at(1000), at(0)), Next::Wait);
}

#[test]
fn a_pace_that_cannot_be_kept_is_refused_with_its_field() {
    let refused = |pace: Pace| pace.check().unwrap_err().to_string();
    let usual = Pace::default();
    assert_eq!(usual.check(), Ok(()));
    assert_eq!(refused(Pace { rate_milli: 0, ..usual }), "`rate_milli` is 0; it must be 1 to 1000000");
    assert!(refused(Pace { failed_permille_max: 1001, ..usual }).contains("max_failed_permille"));
    assert!(refused(Pace { canary: 10_001, ..usual }).contains("canary"));
}

proptest! {
    /// Whatever comes of the letters, in whichever order.
    #[test]
    fn a_batch_ends_and_never_does_more_than_it_may(
        letters in 1u32..200,
        canary in 0u32..20,
        rate_milli in 100u32..50_000,
        failed_permille_max in 0u32..=1000,
        fates in proptest::collection::vec((any::<bool>(), 0u8..4), 200),
    ) {
        let pace = Pace { canary, rate_milli, failed_permille_max };
        let mut progress = Progress { waiting: letters, ..Progress::default() };
        let (mut due, mut now) = (at(0), at(0));
        let (mut released, mut steps) = (0u32, 0u32);
        let mut fates = fates.into_iter().cycle();
        loop {
            steps += 1;
            prop_assert!(steps < 50_000, "it never ends: {progress:?}");
            prop_assert_eq!(progress.letters(), letters);
            match next(&pace, &progress, due, now) {
                Next::Release(count) => {
                    prop_assert!(count >= 1 && count <= progress.waiting);
                    if progress.handled < canary {
                        prop_assert!(progress.under_way + progress.handled + progress.failed + count <= canary);
                    }
                    progress.waiting -= count;
                    progress.under_way += count;
                    prop_assert!(progress.under_way <= UNDER_WAY_MAX);
                    released += count;
                    due = due.max(now) + pace.gap() * i32::try_from(count).unwrap();
                    let seconds = (now.duration_since(at(0)) + AHEAD).as_secs_f64();
                    prop_assert!(f64::from(released - 1) <= seconds * f64::from(rate_milli) / 1000.0 + 1.0);
                }
                Next::Wait => {
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
                Next::Stop(Stop::CanaryFailed { failed, of }) => {
                    prop_assert!(failed > 0 && of <= canary && released <= canary + progress.skipped);
                    break;
                }
                Next::Stop(Stop::TooManyFailed { failed, of }) => {
                    prop_assert!(u64::from(failed) * 1000 > u64::from(failed_permille_max) * u64::from(of));
                    break;
                }
                Next::Done => {
                    prop_assert_eq!(progress.ended(), letters);
                    break;
                }
            }
        }
    }
}
