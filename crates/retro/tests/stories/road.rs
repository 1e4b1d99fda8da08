//! Real runs, from a file to a memory, and the same files again.

use std::collections::BTreeSet;

use retro_core::id::{Tenant, Workflow, WorkflowKey};
use serde_json::{Value, json};

use crate::world::{World, airline, intercode, items, mending, text};

const AIRLINE: &str = "airline-customer-service";

#[tokio::test]
async fn real_runs_travel_the_whole_road_to_a_memory_that_the_next_run_is_handed() {
    let mut world = World::start().await;
    let sent = world.ask(&["emit", &airline(), "--pace", "10"]).await;
    assert_eq!((&sent["sent"], &sent["refused"]), (&json!(100), &json!([])));
    world.still().await;

    let runs = world.ask(&["runs", "--limit", "1000"]).await;
    let ids: BTreeSet<_> = items(&runs).iter().map(|run| text(&run["facts"], "run_id")).collect();
    let ordinals: BTreeSet<_> = items(&runs).iter().filter_map(|run| run["ordinal"].as_u64()).collect();
    assert_eq!((ids.len(), ordinals), (100, (1..=100).collect()));
    let key =
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new(AIRLINE).expect("a name") };
    let store = world.store().await;
    assert_eq!(store.list_ordinals(&key).await.expect("they can be read"), (1..=100).collect::<Vec<_>>());

    let rows = world.ask(&["retrospectives", "list"]).await;
    let mut windows: Vec<_> = items(&rows).iter().map(|row| window(&row["retrospective"])).collect();
    windows.sort_unstable();
    let tens: Vec<_> = (0..10).map(|nth| (nth * 10 + 1, nth * 10 + 10, "closed".to_owned())).collect();
    assert_eq!(windows, tens);
    for row in items(&rows) {
        let report = world.ask(&["reports", "show", text(&row["retrospective"], "id")]).await;
        assert_eq!(report["ended"], "closed");
        assert_eq!((items(&report["sampled"]).len(), items(&report["unsampled"]).len()), (4, 6));
        assert_eq!(items(&report["investigations"]).len(), 4);
    }

    let active = world.ask(&["memories", "list", "--status", "active"]).await;
    let first = items(&active).first().expect("real runs leave an active memory");
    let context = world.ask(&["context", "--workflow", AIRLINE]).await;
    assert!(text(&context, "text").contains(text(&first["lesson"], "title")), "{context}");

    let checked = world.sound().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(100), &json!(10)));
    let health = store.load_health().await.expect("it can be read");
    assert_eq!((health.outbox_unsent, health.dead_letters_open, health.events_seen), (0, 0, 100));
    assert_eq!(world.ask(&["dead-letters", "list"]).await, json!([]));
    world.stop().await;
}

#[tokio::test]
async fn the_same_files_emitted_twice_more_change_nothing() {
    let mut world = World::start().await;
    let (airline, intercode) = (airline(), intercode());
    let emit = ["emit", &airline, &intercode, "--pace", "10"];
    let sent = world.ask(&emit).await;
    assert_eq!(sent["sent"], 250);
    world.still().await;
    let (counted, export) = (world.sound().await, world.export().await);
    let store = world.store().await;
    assert_eq!(store.load_health().await.expect("it can be read").events_seen, 250);

    // The pace waits until the counter has answered for the last event, so what is compared has happened.
    world.ask(&emit).await;
    world.still().await;
    assert_eq!(store.load_health().await.expect("it can be read").events_seen, 250);
    assert_eq!((world.sound().await, world.export().await), (counted.clone(), export.clone()));

    world.ask(&[&emit[..], &["--new-event-ids"]].concat()).await;
    world.still().await;
    assert_eq!(store.load_health().await.expect("it can be read").events_seen, 500, "they were looked at");
    assert_eq!((world.sound().await, world.export().await), (counted, export.clone()));
    assert_eq!(world.ask(&["dead-letters", "list"]).await, json!([]));

    world.emit("default", "new.jsonl", &mending("release", "deploy_service", 0..10)).await;
    assert_ne!(world.export().await, export, "an export that never changes would prove nothing");
    world.stop().await;
}

fn window(retrospective: &Value) -> (u64, u64, String) {
    let ordinal = |key: &str| retrospective[key].as_u64().expect("an ordinal");
    (ordinal("first"), ordinal("last"), text(retrospective, "state").to_owned())
}
