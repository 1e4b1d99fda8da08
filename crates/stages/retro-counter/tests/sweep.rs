//! Tests the counter's sweep over a real database.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use retro_consumer::{Consumer, HandlerOutcome, Sweep};
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_counter::Counter;
use retro_events::{Delivery, StreamProgress, subject};
use retro_store::{OperatorStore, RunFilter};
use retro_store_sql::SqliteStore;
use retro_testkit::MovableClock;
use serde_json::json;
use tokio::sync::Notify;

const RUNS: u64 = 3;

#[tokio::test]
async fn a_sweep_opens_full_windows_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.unwrap());
    let counter = |threshold_runs| {
        let policies = Arc::new(Policy { threshold_runs, ..Policy::default() });
        let clock = Arc::new(MovableClock::starting_at(Timestamp::UNIX_EPOCH));
        Counter::new(store.clone(), policies, clock, Arc::new(Notify::new()))
    };
    let patient = counter(10);
    let batch: Vec<Delivery> = (1..=RUNS).map(run_completed_delivery).collect();
    let verdicts = patient.handle(&batch).await;
    assert!(verdicts.iter().all(|verdict| matches!(verdict, HandlerOutcome::Done)), "{verdicts:?}");

    assert_eq!(patient.sweep().await.unwrap(), 0, "three runs of ten");
    let tenant = Tenant::default_tenant();
    assert!(!store.list_workflows(&tenant).await.unwrap()[0].state.open);

    // The threshold is lowered while no run arrives.
    let eager = counter(3);
    assert_eq!(eager.sweep().await.unwrap(), 1);
    let state = store.list_workflows(&tenant).await.unwrap()[0].state.clone();
    assert_eq!((state.open, state.claimed, state.window_size()), (true, RUNS, 0));
    assert_eq!(eager.sweep().await.unwrap(), 0, "it is open already");
}

/// Position up to which all counters together have acknowledged the stream.
#[derive(Default)]
struct Broker(AtomicU64);

#[async_trait]
impl StreamProgress for Broker {
    async fn acknowledged_up_to(&self) -> Result<u64, String> {
        Ok(self.0.load(Ordering::Relaxed))
    }
}

#[tokio::test]
async fn a_window_has_the_first_runs_of_the_stream_whichever_of_two_counters_was_quicker() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.unwrap());
    let broker = Arc::new(Broker::default());
    let [slow, quick] = [(); 2].map(|()| {
        let policies = Arc::new(Policy { threshold_runs: 3, ..Policy::default() });
        let clock = Arc::new(MovableClock::starting_at(Timestamp::UNIX_EPOCH));
        Counter::new(store.clone(), policies, clock, Arc::new(Notify::new())).with_progress(broker.clone())
    });
    let batch = |positions: RangeInclusive<u64>| positions.map(run_completed_delivery).collect::<Vec<_>>();
    let tenant = Tenant::default_tenant();
    let state = async || store.list_workflows(&tenant).await.unwrap()[0].state.clone();

    quick.handle(&batch(5..=8)).await;
    assert_eq!(quick.sweep().await.unwrap(), 0, "1 to 4 are not counted");
    slow.handle(&batch(1..=4)).await;
    assert!(!state().await.open, "it does not know what the other one has");
    assert_eq!(
        quick.sweep().await.unwrap(),
        0,
        "nothing is acknowledged, so the other one knows nothing new"
    );
    assert_eq!(slow.sweep().await.unwrap(), 1, "it knows what it has handled itself");
    assert_eq!((state().await.claimed, state().await.counted), (3, 8));
    let mut runs = store.list_runs(&tenant, &RunFilter { limit: 9, ..Default::default() }).await.unwrap();
    runs.sort_by_key(|run| run.ordinal);
    let window: Vec<&str> = runs.iter().take(3).map(|run| run.facts.run_id.as_str()).collect();
    assert_eq!(window, ["run-1", "run-2", "run-3"]);

    // The other way round: who has the end asks the broker, which knows of both.
    let of_two = |position| run_completed_delivery_of("deploy", position);
    quick.handle(&(13..=16).map(of_two).collect::<Vec<_>>()).await;
    slow.handle(&(9..=12).map(of_two).collect::<Vec<_>>()).await;
    assert_eq!(quick.sweep().await.unwrap(), 0);
    broker.0.store(16, Ordering::Relaxed);
    assert_eq!(quick.sweep().await.unwrap(), 1);
}

fn run_completed_delivery(number: u64) -> Delivery {
    run_completed_delivery_of("release", number)
}

fn run_completed_delivery_of(workflow: &str, number: u64) -> Delivery {
    let key =
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new(workflow).expect("a name") };
    let event = json!({
        "specversion": "1.0",
        "id": format!("event-{number}"),
        "source": "/tests",
        "type": "dev.retrospect.run.completed.v1",
        "data": {"workflow": workflow, "run_id": format!("run-{number}"), "outcome": "success"},
    });
    Delivery {
        stream: "RETRO_INTAKE".to_owned(),
        subject: subject::run_completed_subject(&key),
        sequence: number,
        headers: Vec::new(),
        payload: event.to_string().into(),
        delivered: 1,
        stored_at: Timestamp::UNIX_EPOCH,
    }
}
