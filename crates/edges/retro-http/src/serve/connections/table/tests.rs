use super::*;

const SOON: Duration = Duration::from_millis(1);

/// Returns the admission of the next connection to a table with these connections: `None` is being answered,
/// `Some` has been awaiting a request for this many milliseconds.
fn admission_for(states: &[Option<u64>], max: usize) -> Admission {
    let now = Instant::now() + Duration::from_secs(60);
    let since = |ms| ConnectionState::AwaitingRequest(now.checked_sub(Duration::from_millis(ms)).unwrap());
    let states: Vec<_> = states.iter().map(|state| state.map_or(ConnectionState::Answering, since)).collect();
    let admission = decide_admission((0..).zip(states).collect::<Vec<_>>().into_iter(), max, now);
    match admission {
        Admission::Wait(Some(until)) => {
            assert!(until > now, "the wait is over");
            Admission::Wait(None)
        }
        other => other,
    }
}

#[test]
fn the_connection_longest_without_a_request_is_evicted() {
    assert_eq!(admission_for(&[Some(9000), None], 3), Admission::Free);
    assert_eq!(admission_for(&[Some(300), Some(9000), None], 3), Admission::Evict(1));
    assert_eq!(admission_for(&[None, Some(300), None], 3), Admission::Evict(1));
    assert_eq!(admission_for(&[None, None, None], 3), Admission::Wait(None));
    assert_eq!(
        admission_for(&[Some(249), Some(0), None], 3),
        Admission::Wait(None),
        "they may have only just connected"
    );
    assert_eq!(admission_for(&[Some(250), Some(249), None], 3), Admission::Evict(0));
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_waits_at_most_for_the_eviction_grace() {
    let table = ConnectionTable::new(2);
    let (first, second) = (table.wait_for_slot().await, table.wait_for_slot().await);
    tokio::time::advance(SOON).await;
    first.mark_awaiting_request();
    let begun = Instant::now();
    let third = table.wait_for_slot().await;
    assert_eq!(begun.elapsed(), EVICTION_GRACE - SOON);
    assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled(), "the first made progress");
    drop(second);
    assert_eq!(table.lock_state().connections.len(), 2, "an evicted connection frees no other slot");
    let _fourth = table.wait_for_slot().await;
    assert!(first.evicted.is_cancelled() && !third.evicted.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn while_all_are_answering_a_new_connection_waits() {
    let table = ConnectionTable::new(1);
    let busy = table.wait_for_slot().await;
    busy.mark_answering();
    let mut waiting = Box::pin(table.wait_for_slot());
    assert!(tokio::time::timeout(Duration::from_secs(3600), waiting.as_mut()).await.is_err());
    assert!(busy.has_waiter());
    busy.mark_awaiting_request();
    let next = waiting.await;
    assert!(busy.evicted.is_cancelled() && !next.has_waiter());
    drop(next);
    assert_eq!(table.lock_state().connections.len(), 0);
}
