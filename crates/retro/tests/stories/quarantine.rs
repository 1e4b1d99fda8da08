//! Tests that a held memory waits for a person: no agent is shown it until somebody releases it.

use retro_core::id::Tenant;
use serde_json::json;

use crate::world::{World, build_correcting_runs, hold_memory, json_items, json_text};

const WORKFLOW: &str = "release";

#[tokio::test]
async fn a_held_memory_is_shown_to_no_agent_until_a_person_releases_it() {
    let mut world = World::start().await;
    world
        .emit_and_wait("default", "first.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..10))
        .await;
    let memories = world.run_json(&["memories", "list", "--status", "active"]).await;
    let memory = json_items(&memories).first().expect("ten runs leave an active memory").clone();
    let (id, title) = (json_text(&memory, "id"), json_text(&memory["lesson"], "title"));
    assert!(fetch_context_text(&world).await.contains(title), "the memory is presented before");
    assert_eq!(json_items(&world.run_json(&["memories", "list", "--held"]).await).len(), 0);

    let id_parsed = id.parse().expect("an id");
    hold_memory(&*world.open_store().await, &Tenant::default_tenant(), id_parsed).await;
    world.wait_until_idle().await;
    assert!(!fetch_context_text(&world).await.contains(title), "a held memory is presented");
    let held = world.run_json(&["memories", "list", "--held"]).await;
    assert_eq!(json_items(&held).iter().map(|one| json_text(one, "id")).collect::<Vec<_>>(), [id]);
    let (status, listed) = world.get("default", "/v1/memories?held=true").await;
    assert!(status == 200 && listed.contains(id), "{listed}");
    let shown = world.run_retro(&["memories", "show", id]).await;
    assert!(
        shown.out.contains("held for a person: a person decides; use `retro memories release"),
        "{shown:?}"
    );
    let table = world.run_retro(&["memories", "list", "--held"]).await;
    assert!(table.out.contains("active, held"), "{table:?}");

    let path = format!("/v1/memories/{id}/release");
    let release = json!({"reason": "the region is ours", "by": "ann"});
    let (status, missing) = world.post_json("acme", &path, &release).await;
    assert_eq!(status, 404, "another tenant: {missing}");
    let (status, released) = world.post_json("default", &path, &release).await;
    assert_eq!((status, &released["status"]), (200, &json!("done")), "{released}");
    let (status, again) = world.post_json("default", &path, &release).await;
    assert_eq!((status, &again["status"]), (200, &json!("already_done")), "{again}");
    let other = json!({"reason": "twice", "by": "bob"});
    let (status, refused) = world.post_json("default", &path, &other).await;
    assert!(status == 409 && json_text(&refused, "detail").contains("it is not held"), "{refused}");
    let command = ["memories", "release", id, "--reason", "twice"];
    assert_eq!(world.run_retro(&command).await.code, Some(1), "as over HTTP");

    world.wait_until_idle().await;
    assert!(fetch_context_text(&world).await.contains(title), "a released memory is not presented");
    let shown = world.run_json(&["memories", "show", id]).await;
    assert_eq!((&shown["released_by"], shown.get("quarantine")), (&json!("ann"), None));
    let why = world.run_json(&["memories", "why", id]).await.to_string();
    assert!(why.contains("released by ann: the region is ours"), "{why}");
    world.verify_store().await;

    let retire = format!("/v1/memories/{id}/retire");
    let reason = json!({"reason": "the region moved", "by": "ann"});
    assert_eq!(world.post_json("acme", &retire, &reason).await.0, 404, "another tenant");
    assert_eq!(world.post_json("default", &retire, &reason).await.0, 200);
    assert_eq!(world.run_json(&["memories", "show", id]).await["status"], "deleted");
    assert_eq!(world.verify_store().await["tombstones"], 1);
    world.stop().await;
}

async fn fetch_context_text(world: &World) -> String {
    let question = json!({"workflow": WORKFLOW, "step": "deploy"});
    json_text(&world.fetch_context("default", &question).await, "text").to_owned()
}
