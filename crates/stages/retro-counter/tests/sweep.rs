//! Tests the counter's sweep over a real database.

use std::sync::Arc;

use jiff::Timestamp;
use retro_consumer::{Consumer, HandlerOutcome, Sweep};
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_counter::Counter;
use retro_events::{Delivery, subject};
use retro_store::OperatorStore;
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

fn run_completed_delivery(number: u64) -> Delivery {
    let key =
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("release").expect("a name") };
    let event = json!({
        "specversion": "1.0",
        "id": format!("event-{number}"),
        "source": "/tests",
        "type": "dev.retrospect.run.completed.v1",
        "data": {"workflow": "release", "run_id": format!("run-{number}"), "outcome": "success"},
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
