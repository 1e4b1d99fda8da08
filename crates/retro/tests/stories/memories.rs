//! What a person does to a memory stands.

use serde_json::{Value, json};

use crate::world::{World, items, mending, text};

const WORKFLOW: &str = "release";

#[tokio::test]
async fn a_memory_deleted_by_a_person_leaves_a_tombstone_and_does_not_come_back() {
    let mut world = World::start().await;
    world.emit("default", "first.jsonl", &mending(WORKFLOW, "deploy_service", 0..10)).await;
    let memories = world.ask(&["memories", "list", "--status", "active"]).await;
    let memory = items(&memories).first().expect("ten runs leave an active memory").clone();
    let (id, title) = (text(&memory, "id"), text(&memory["lesson"], "title"));
    assert!(context(&world).await.contains(title), "it is handed out before");

    let delete =
        ["memories", "delete", id, "--reason", "the tool asks by itself now", "--request", "ticket-7"];
    assert_eq!(world.ask(&delete).await["did"], "deleted");
    world.still().await;
    assert!(!context(&world).await.contains(title), "it is handed out after its deletion");
    assert_eq!(world.ask(&["memories", "show", id]).await["status"], "deleted");
    assert!(world.ask(&["memories", "why", id]).await.to_string().contains("the tool asks by itself now"));
    assert_eq!(world.sound().await["tombstones"], 1);

    let export = world.export().await;
    assert_eq!(world.ask(&delete).await["did"], "was already deleted by this request");
    assert_eq!(world.export().await, export, "the same request again changes nothing");
    let unknown = "00000000-0000-8000-8000-000000000000";
    assert_eq!(world.retro(&["memories", "delete", unknown, "--reason", "none"]).await.code, Some(3));

    world.emit("default", "second.jsonl", &mending(WORKFLOW, "deploy_service", 10..20)).await;
    let report = newest_report(&world).await;
    let kinds: Vec<_> = items(&report["changes"]).iter().map(|change| &change["effect"]["change"]).collect();
    assert!(kinds.contains(&&json!("suppressed")), "the tombstone keeps it away: {kinds:?}");
    assert!(!kinds.contains(&&json!("created")) && !kinds.contains(&&json!("revived")), "{kinds:?}");
    assert!(!context(&world).await.contains(title));
    world.sound().await;
    world.stop().await;
}

async fn context(world: &World) -> String {
    let question = json!({"workflow": WORKFLOW, "step": "deploy"});
    text(&world.context("default", &question).await, "text").to_owned()
}

async fn newest_report(world: &World) -> Value {
    let rows = world.ask(&["retrospectives", "list"]).await;
    let newest = items(&rows).iter().max_by_key(|row| row["retrospective"]["epoch"].as_u64());
    let id = text(&newest.expect("a retrospective")["retrospective"], "id").to_owned();
    world.ask(&["reports", "show", &id]).await
}
