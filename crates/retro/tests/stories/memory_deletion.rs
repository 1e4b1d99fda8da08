//! Tests that no run brings back a memory that an operator deleted.

use serde_json::{Value, json};

use crate::world::{World, build_correcting_runs, json_items, json_text};

const WORKFLOW: &str = "release";

#[tokio::test]
async fn a_memory_deleted_by_a_person_leaves_a_tombstone_and_does_not_come_back() {
    let mut world = World::start().await;
    world
        .emit_and_wait("default", "first.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..10))
        .await;
    let memories = world.run_json(&["memories", "list", "--status", "active"]).await;
    let memory = json_items(&memories).first().expect("ten runs leave an active memory").clone();
    let (id, title) = (json_text(&memory, "id"), json_text(&memory["lesson"], "title"));
    assert!(fetch_context_text(&world).await.contains(title), "the memory is presented before");

    let delete =
        ["memories", "delete", id, "--reason", "the tool asks by itself now", "--request", "ticket-7"];
    assert_eq!(world.run_json(&delete).await["result"], "deleted");
    world.wait_until_idle().await;
    assert!(!fetch_context_text(&world).await.contains(title), "the memory is presented after its deletion");
    assert_eq!(world.run_json(&["memories", "show", id]).await["status"], "deleted");
    assert!(
        world.run_json(&["memories", "why", id]).await.to_string().contains("the tool asks by itself now")
    );
    assert_eq!(world.verify_store().await["tombstones"], 1);

    let export = world.export_canonical().await;
    assert_eq!(world.run_json(&delete).await["result"], "was already deleted by this request");
    assert_eq!(world.export_canonical().await, export, "the same request again changes nothing");
    let unknown = "00000000-0000-8000-8000-000000000000";
    assert_eq!(world.run_retro(&["memories", "delete", unknown, "--reason", "none"]).await.code, Some(3));

    world
        .emit_and_wait("default", "second.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 10..20))
        .await;
    let report = load_newest_report(&world).await;
    let kinds: Vec<_> =
        json_items(&report["changes"]).iter().map(|change| &change["effect"]["change"]).collect();
    assert!(kinds.contains(&&json!("suppressed")), "the tombstone suppresses it: {kinds:?}");
    assert!(!kinds.contains(&&json!("created")) && !kinds.contains(&&json!("revived")), "{kinds:?}");
    assert!(!fetch_context_text(&world).await.contains(title));
    world.verify_store().await;
    world.stop().await;
}

async fn fetch_context_text(world: &World) -> String {
    let question = json!({"workflow": WORKFLOW, "step": "deploy"});
    json_text(&world.fetch_context("default", &question).await, "text").to_owned()
}

async fn load_newest_report(world: &World) -> Value {
    let rows = world.run_json(&["retrospectives", "list"]).await;
    let newest = json_items(&rows).iter().max_by_key(|row| row["retrospective"]["epoch"].as_u64());
    let id = json_text(&newest.expect("a retrospective")["retrospective"], "id").to_owned();
    world.run_json(&["reports", "show", &id]).await
}
