use std::sync::Mutex;

use retro_core::id::{RunId, Tenant, Workflow, WorkflowKey};

use super::*;
use crate::testing::{FakeStore, Trouble, active_memory};

fn presentation(run: usize) -> Presentation {
    let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("shop").unwrap() };
    let run = RunId::new(format!("run-{run}")).unwrap();
    Presentation { key, run, memories: vec![active_memory("select", 0).id], assignments: Vec::new() }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(200)
}

fn recorded(store: &FakeStore) -> usize {
    store.records.lock().unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_is_stored_once_though_the_database_was_away() {
    let store = Arc::new(FakeStore { recording_fails: Mutex::new(3), ..FakeStore::default() });
    let (queue, writer) = PresentationWriter::new(store.clone(), Arc::new(ContextCache::new()));
    let stop = CancellationToken::new();
    let running = tokio::spawn(writer.run(stop.clone()));
    for run in 0..10 {
        assert_eq!(queue.enqueue(presentation(run), soon()).await, Enqueued::Accepted);
    }
    queue.flush(Instant::now() + Duration::from_secs(9)).await;
    assert_eq!(recorded(&store), 10);
    stop.cancel();
    running.await.unwrap();
    assert_eq!(queue.enqueue(presentation(11), soon()).await, Enqueued::Closed(presentation(11)));
    assert_eq!(*store.waiting.lock().unwrap(), 0, "and applied");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_stored_when_the_process_stops() {
    let store = Arc::new(FakeStore { recording_fails: Mutex::new(1), ..FakeStore::default() });
    let (queue, writer) = PresentationWriter::new(store.clone(), Arc::new(ContextCache::new()));
    for run in 0..BATCH_MAX + 1 {
        assert_eq!(queue.enqueue(presentation(run), soon()).await, Enqueued::Accepted);
    }
    let stop = CancellationToken::new();
    stop.cancel();
    writer.run(stop).await;
    assert_eq!(recorded(&store), BATCH_MAX + 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_accepts_nothing_more_and_a_hanging_database_does_not_hold_up_the_stop() {
    let store = Arc::new(FakeStore { trouble: Trouble::OnlyRecordingHangs, ..FakeStore::default() });
    let (queue, writer) = PresentationWriter::new(store, Arc::new(ContextCache::new()));
    for run in 0..QUEUED_MAX {
        assert_eq!(queue.enqueue(presentation(run), soon()).await, Enqueued::Accepted);
    }
    assert_eq!(queue.enqueue(presentation(QUEUED_MAX), soon()).await, Enqueued::Full);
    let (stop, began) = (CancellationToken::new(), Instant::now());
    stop.cancel();
    writer.run(stop).await;
    assert_eq!(began.elapsed(), STOP_PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn what_the_database_refuses_spoils_nothing_else() {
    let store = Arc::new(FakeStore { refused_run: Some("run-3"), ..FakeStore::default() });
    let (queue, writer) = PresentationWriter::new(store.clone(), Arc::new(ContextCache::new()));
    for run in 0..5 {
        assert_eq!(queue.enqueue(presentation(run), soon()).await, Enqueued::Accepted);
    }
    let stop = CancellationToken::new();
    stop.cancel();
    writer.run(stop).await;
    assert_eq!(recorded(&store), 4);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_takes_too_long_is_stored_in_parts() {
    let store = Arc::new(FakeStore { part_max: Some(5), ..FakeStore::default() });
    let (queue, writer) = PresentationWriter::new(store.clone(), Arc::new(ContextCache::new()));
    for run in 0..40 {
        assert_eq!(queue.enqueue(presentation(run), soon()).await, Enqueued::Accepted);
    }
    let stop = CancellationToken::new();
    stop.cancel();
    writer.run(stop).await;
    assert_eq!(recorded(&store), 40);
}

#[tokio::test(start_paused = true)]
async fn what_another_process_has_left_is_applied() {
    let store = Arc::new(FakeStore { waiting: Mutex::new(1_000), ..FakeStore::default() });
    let (_queue, writer) = PresentationWriter::new(store.clone(), Arc::new(ContextCache::new()));
    let stop = CancellationToken::new();
    let running = tokio::spawn(writer.run(stop.clone()));
    let waiting = || *store.waiting.lock().unwrap();
    while waiting() > 0 {
        tokio::task::yield_now().await;
    }
    *store.waiting.lock().unwrap() = 7;
    tokio::time::advance(LEFT_LOOK_INTERVAL).await;
    while waiting() > 0 {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn answers_in_quick_succession_share_a_transaction_and_nobody_waits_for_it_who_asks() {
    let store = Arc::new(FakeStore::default());
    let (queue, writer) = PresentationWriter::new(store.clone(), Arc::new(ContextCache::new()));
    let stop = CancellationToken::new();
    let running = tokio::spawn(writer.run(stop.clone()));
    let accept = async |run| assert_eq!(queue.enqueue(presentation(run), soon()).await, Enqueued::Accepted);
    let transactions = || store.transactions.lock().unwrap().clone();
    accept(0).await;
    while transactions().is_empty() {
        tokio::task::yield_now().await;
    }
    for run in 1..=8 {
        accept(run).await;
        tokio::time::advance(BATCH_INTERVAL / 10).await;
    }
    let began = Instant::now();
    queue.flush(soon()).await;
    assert_eq!((transactions(), began.elapsed()), (vec![1, 8], Duration::ZERO));
    accept(9).await;
    accept(10).await;
    let mut settled = queue.settled.clone();
    settled.wait_for(|settled| *settled == 11).await.unwrap();
    assert_eq!((transactions(), began.elapsed()), (vec![1, 8, 2], BATCH_INTERVAL));
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn answers_are_applied_during_a_tenth_of_the_time_while_agents_ask() {
    let apply_takes = Duration::from_millis(10);
    let backlog = 1_000 * u64::from(APPLIED_MAX);
    let store = Arc::new(FakeStore { waiting: Mutex::new(backlog), apply_takes, ..FakeStore::default() });
    let cache = Arc::new(ContextCache::new());
    let (_queue, writer) = PresentationWriter::new(store.clone(), cache.clone());
    let stop = CancellationToken::new();
    let running = tokio::spawn(writer.run(stop.clone()));
    let count_applications = async |is_asked: bool| {
        let before = *store.waiting.lock().unwrap();
        for _ in 0..1_000 {
            if is_asked {
                let _ = cache.find_kill_switches();
            }
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        (before - *store.waiting.lock().unwrap()) / u64::from(APPLIED_MAX)
    };
    let (asked, idle) = (count_applications(true).await, count_applications(false).await);
    assert!((8..=11).contains(&asked) && idle > 60, "in a second: {asked} while asked, {idle} while idle");
    stop.cancel();
    running.await.unwrap();
}
