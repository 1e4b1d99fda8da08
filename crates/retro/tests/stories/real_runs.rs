//! Follows real runs from a file to a memory, and emits the same files again.

use std::collections::BTreeSet;

use retro_core::id::{Tenant, Workflow, WorkflowKey};
use serde_json::{Value, json};

use crate::world::{World, airline_fixture, build_correcting_runs, intercode_fixture, json_items, json_text};

const AIRLINE_WORKFLOW: &str = "airline-customer-service";

#[tokio::test]
async fn real_runs_become_a_memory_that_the_next_run_receives() {
    let mut world = World::start().await;
    let sent = world.run_json(&["emit", &airline_fixture(), "--pause-every", "10"]).await;
    assert_eq!((&sent["sent"], &sent["refused"]), (&json!(100), &json!([])));
    world.wait_until_idle().await;

    let runs = world.run_json(&["runs", "--limit", "1000"]).await;
    let ids: BTreeSet<_> = json_items(&runs).iter().map(|run| json_text(&run["facts"], "run_id")).collect();
    let ordinals: BTreeSet<_> = json_items(&runs).iter().filter_map(|run| run["ordinal"].as_u64()).collect();
    assert_eq!((ids.len(), ordinals), (100, (1..=100).collect()));
    let key = WorkflowKey {
        tenant: Tenant::default_tenant(),
        workflow: Workflow::new(AIRLINE_WORKFLOW).expect("a name"),
    };
    let store = world.open_store().await;
    assert_eq!(
        store.list_ordinals(&key).await.expect("the ordinals can be read"),
        (1..=100).collect::<Vec<_>>()
    );

    let rows = world.run_json(&["retrospectives", "list"]).await;
    let mut windows: Vec<_> = json_items(&rows).iter().map(|row| window_of(&row["retrospective"])).collect();
    windows.sort_unstable();
    let tens: Vec<_> = (0..10).map(|nth| (nth * 10 + 1, nth * 10 + 10, "closed".to_owned())).collect();
    assert_eq!(windows, tens);
    for row in json_items(&rows) {
        let report = world.run_json(&["reports", "show", json_text(&row["retrospective"], "id")]).await;
        assert_eq!(report["ended"], "closed");
        assert_eq!((json_items(&report["sampled"]).len(), json_items(&report["unsampled"]).len()), (4, 6));
        assert_eq!(json_items(&report["investigations"]).len(), 4);
    }

    let active = world.run_json(&["memories", "list", "--status", "active"]).await;
    let first = json_items(&active).first().expect("real runs leave an active memory");
    let context = world.run_json(&["context", "--workflow", AIRLINE_WORKFLOW]).await;
    assert!(json_text(&context, "text").contains(json_text(&first["lesson"], "title")), "{context}");

    let checked = world.verify_store().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(100), &json!(10)));
    let health = store.load_health().await.expect("the store can be read");
    assert_eq!((health.outbox_unsent, health.dead_letters_open, health.events_seen), (0, 0, 100));
    assert_eq!(world.run_json(&["dead-letters", "list"]).await, json!([]));
    world.stop().await;
}

#[tokio::test]
async fn the_same_files_emitted_twice_more_change_nothing() {
    let mut world = World::start().await;
    let (airline, intercode) = (airline_fixture(), intercode_fixture());
    let emit = ["emit", &airline, &intercode, "--pause-every", "10"];
    let sent = world.run_json(&emit).await;
    assert_eq!(sent["sent"], 250);
    world.wait_until_idle().await;
    let (counted, export) = (world.verify_store().await, world.export_canonical().await);
    let store = world.open_store().await;
    assert_eq!(store.load_health().await.expect("the store can be read").events_seen, 250);

    // `--pause-every` waits until the counter has acknowledged the last event, so its effects are stored.
    world.run_json(&emit).await;
    world.wait_until_idle().await;
    assert_eq!(store.load_health().await.expect("the store can be read").events_seen, 250);
    assert_eq!(
        (world.verify_store().await, world.export_canonical().await),
        (counted.clone(), export.clone())
    );

    world.run_json(&[&emit[..], &["--new-event-ids"]].concat()).await;
    world.wait_until_idle().await;
    assert_eq!(
        store.load_health().await.expect("the store can be read").events_seen,
        500,
        "the events were handled"
    );
    assert_eq!((world.verify_store().await, world.export_canonical().await), (counted, export.clone()));
    assert_eq!(world.run_json(&["dead-letters", "list"]).await, json!([]));

    world
        .emit_and_wait("default", "new.jsonl", &build_correcting_runs("release", "deploy_service", 0..10))
        .await;
    assert_ne!(world.export_canonical().await, export, "an export that never changes would prove nothing");
    world.stop().await;
}

fn window_of(retrospective: &Value) -> (u64, u64, String) {
    let ordinal = |key: &str| retrospective[key].as_u64().expect("an ordinal");
    (ordinal("first"), ordinal("last"), json_text(retrospective, "state").to_owned())
}
