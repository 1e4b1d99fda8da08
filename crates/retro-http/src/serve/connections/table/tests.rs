use super::*;

const SOON: Duration = Duration::from_millis(1);

/// Returns what a table with these connections answers to the next one. Awaiting ones say for how many milliseconds they do.
fn asked(states: &[Option<u64>], max: usize) -> Admission {
    let now = Instant::now() + Duration::from_secs(60);
    let since = |ms| State::AwaitingRequest(now.checked_sub(Duration::from_millis(ms)).unwrap());
    let states: Vec<_> = states.iter().map(|state| state.map_or(State::Answering, since)).collect();
    let admission = admit((0..).zip(states).collect::<Vec<_>>().into_iter(), max, now);
    match admission {
        Admission::Wait(Some(until)) => {
            assert!(until > now, "waiting for what is past");
            Admission::Wait(None)
        }
        other => other,
    }
}

#[test]
fn who_has_been_without_a_whole_request_longest_makes_place_and_who_is_answered_does_not() {
    assert_eq!(asked(&[Some(9000), None], 3), Admission::Free);
    assert_eq!(asked(&[Some(300), Some(9000), None], 3), Admission::Evict(1));
    assert_eq!(asked(&[None, Some(300), None], 3), Admission::Evict(1));
    assert_eq!(asked(&[None, None, None], 3), Admission::Wait(None));
    assert_eq!(asked(&[Some(249), Some(0), None], 3), Admission::Wait(None), "they may have only just come");
    assert_eq!(asked(&[Some(250), Some(249), None], 3), Admission::Evict(0));
}

#[tokio::test(start_paused = true)]
async fn the_next_one_waits_a_moment_at_most_behind_those_that_say_nothing() {
    let table = ConnectionTable::new(2);
    let (first, second) = (table.admit().await, table.admit().await);
    tokio::time::advance(SOON).await;
    first.await_request();
    let begun = Instant::now();
    let third = table.admit().await;
    assert_eq!(begun.elapsed(), KEPT_FOR - SOON);
    assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled(), "the first made progress");
    drop(second);
    assert_eq!(table.open().connections.len(), 2, "who was evicted takes no other's place along");
    let _fourth = table.admit().await;
    assert!(first.evicted.is_cancelled() && !third.evicted.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn while_all_are_answered_the_next_one_waits_until_an_answer_is_over() {
    let table = ConnectionTable::new(1);
    let busy = table.admit().await;
    busy.answer();
    let mut waiting = Box::pin(table.admit());
    assert!(tokio::time::timeout(Duration::from_secs(3600), waiting.as_mut()).await.is_err());
    assert!(busy.is_waited_for());
    busy.await_request();
    let next = waiting.await;
    assert!(busy.evicted.is_cancelled() && !next.is_waited_for());
    drop(next);
    assert_eq!(table.open().connections.len(), 0);
}
