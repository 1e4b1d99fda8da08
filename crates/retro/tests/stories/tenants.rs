//! Two tenants use the same names; nothing crosses. Each thing that must not be seen is first seen by its owner.

use serde_json::{Value, json};

use crate::world::{Run, World, event, items, mending, text};

const WORKFLOW: &str = "release";
const MINE: &str = "acme";
const OTHER: &str = "globex";
/// No object of anybody has this id.
const NOBODYS: &str = "00000000-0000-8000-8000-000000000000";

#[tokio::test]
async fn two_tenants_with_the_same_workflow_step_and_run_names_see_nothing_of_each_other() {
    let mut world = World::start().await;
    // The same runs under both, and one that only the first has: what is alike must not be joined.
    let shared = mending(WORKFLOW, "deploy_service", 0..10);
    let own: Vec<Value> = shared.iter().cloned().map(with_a_tool_of_its_own).collect();
    world.emit(MINE, "mine.jsonl", &own).await;
    world.emit(OTHER, "other.jsonl", &shared).await;
    assert!(world.export().await.trim().is_empty(), "the default tenant has something");

    for (tenant, tool) in [(MINE, true), (OTHER, false)] {
        let runs = world.ask(&["--tenant", tenant, "runs"]).await;
        let ordinals: Vec<_> =
            items(&runs).iter().rev().map(|run| run["ordinal"].as_u64().unwrap()).collect();
        assert_eq!(ordinals, (1..=10).collect::<Vec<_>>(), "each tenant has a window of its own");
        assert!(items(&runs).iter().all(|run| run["key"]["tenant"] == tenant));
        let listed = world.ask(&["--tenant", tenant, "memories", "list"]).await;
        assert_eq!(listed.to_string().contains("page_the_owner"), tool, "{tenant}: {listed}");
        for memory in items(&listed) {
            assert_eq!(memory["observed_runs"], 4, "{tenant}: a sample of four showed it: {memory}");
        }
        let question = json!({"workflow": WORKFLOW, "step": "deploy", "run_id": "next"});
        let context = world.context(tenant, &question).await;
        assert!(text(&context, "text").contains("deploy_service"), "{tenant}: {context}");
        assert_eq!(text(&context, "text").contains("page_the_owner"), tool, "{tenant}: {context}");
        let same =
            world.ask(&["--tenant", tenant, "context", "--workflow", WORKFLOW, "--step", "deploy"]).await;
        assert_eq!(same["text"], context["text"]);
        let export = world.retro(&["--tenant", tenant, "export", "--canonical"]).await.out;
        assert_eq!(export.contains("page_the_owner"), tool);
    }
    let asked = |workflow: &str| json!({"workflow": workflow, "step": "deploy"});
    let handed = world.context("default", &asked(WORKFLOW)).await;
    assert_eq!(handed, world.context("default", &asked("nobody-has-this-workflow")).await);
    assert_eq!(handed["memories"], json!([]));
    for what in ["runs", "memories", "retrospectives", "dead-letters"] {
        let (status, body) = world.get("default", &format!("/v1/{what}")).await;
        assert_eq!((status, body.as_str()), (200, r#"{"items":[],"more":false}"#), "{what}");
    }
    world.sound().await;
    world.stop().await;
}

#[tokio::test]
async fn what_another_tenant_has_answers_exactly_like_what_nobody_has() {
    let mut world = World::start().await;
    world.emit(MINE, "mine.jsonl", &mending(WORKFLOW, "deploy_service", 0..10)).await;
    world.emit(OTHER, "other.jsonl", &mending(WORKFLOW, "deploy_service", 0..10)).await;
    let bad = event("bad", &json!({"workflow": WORKFLOW}));
    let letter = dead_letter(&world, &bad).await;
    let memories = world.ask(&["--tenant", MINE, "memories", "list"]).await;
    let rows = world.ask(&["--tenant", MINE, "retrospectives", "list"]).await;
    let memory = text(&items(&memories)[0], "id");
    let retrospective = text(&rows[0]["retrospective"], "id");

    for (route, id) in [
        ("memories/{}", memory),
        ("memories/{}?run=release-1", memory),
        ("memories/{}/why", memory),
        ("memories/{}/effect", memory),
        ("retrospectives/{}", retrospective),
        ("reports/{}", retrospective),
        ("dead-letters/{}", letter.as_str()),
    ] {
        let path = |id: &str| format!("/v1/{}", route.replace("{}", id));
        assert_eq!(world.get(MINE, &path(id)).await.0, 200, "{route}: its owner sees it");
        let (status, body) = world.get(OTHER, &path(id)).await;
        let missing = world.get(OTHER, &path(NOBODYS)).await;
        assert_eq!((status, body.replace(id, NOBODYS)), missing, "{route}");
        assert_eq!(missing.0, 404, "{route}");
    }
    for (command, id) in [
        (&["memories", "show", "{}"][..], memory),
        (&["memories", "why", "{}"], memory),
        (&["memories", "effect", "{}"], memory),
        (&["retrospectives", "show", "{}"], retrospective),
        (&["reports", "show", "{}"], retrospective),
        (&["dead-letters", "show", "{}"], letter.as_str()),
    ] {
        let of = |tenant, id: &str| {
            let named = command.iter().map(|part| part.replace("{}", id));
            ["--tenant".to_owned(), String::from(tenant)].into_iter().chain(named).collect::<Vec<_>>()
        };
        assert_eq!(retro(&world, &of(MINE, id)).await.code, Some(0), "{command:?}: its owner sees it");
        let mut crossed = retro(&world, &of(OTHER, id)).await;
        crossed.err = crossed.err.replace(id, NOBODYS);
        assert_eq!(crossed, retro(&world, &of(OTHER, NOBODYS)).await, "{command:?}");
        assert_eq!(crossed.code, Some(3), "{command:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_can_neither_delete_nor_keep_away_what_another_one_has() {
    let mut world = World::start().await;
    world.emit(MINE, "mine.jsonl", &mending(WORKFLOW, "deploy_service", 0..10)).await;
    let memories = world.ask(&["--tenant", MINE, "memories", "list"]).await;
    let memory = text(&items(&memories)[0], "id");
    let of = |tenant| ["--tenant", tenant, "memories", "delete", memory, "--reason", "not needed"];

    assert_eq!(world.retro(&of(OTHER)).await.code, Some(3));
    assert_eq!(world.ask(&["--tenant", MINE, "memories", "show", memory]).await["status"], "active");
    assert_eq!(world.retro(&of(MINE)).await.code, Some(0), "its owner can");

    world.emit(OTHER, "other.jsonl", &mending(WORKFLOW, "deploy_service", 0..10)).await;
    let learned = world.ask(&["--tenant", OTHER, "memories", "list"]).await;
    assert_eq!(
        items(&learned)[0]["status"],
        "active",
        "a tombstone of another tenant kept it away: {learned}"
    );
    world.emit(MINE, "again.jsonl", &mending(WORKFLOW, "deploy_service", 10..20)).await;
    let kept = world.ask(&["--tenant", MINE, "memories", "list", "--status", "active"]).await;
    assert_eq!(items(&kept).len(), 0, "its own tombstone keeps it away: {kept}");
    world.sound().await;
    world.stop().await;
}

/// Adds a lesson that runs of the other tenant cannot teach.
fn with_a_tool_of_its_own(mut event: Value) -> Value {
    let own = Run::new(WORKFLOW, "own").mends("page_the_owner", "urgency").event();
    let added = items(&own["data"]["trajectory"]["steps"]).to_vec();
    let steps = event["data"]["trajectory"]["steps"].as_array_mut().expect("a list of steps");
    steps.extend(added);
    event
}

/// Makes a dead letter of the first tenant's; returns its id.
async fn dead_letter(world: &World, bad: &Value) -> String {
    world.publish(MINE, WORKFLOW, bad).await;
    let listed = world
        .until("the dead letter", async || {
            let listed = world.ask(&["--tenant", MINE, "dead-letters", "list"]).await;
            (!items(&listed).is_empty()).then_some(listed)
        })
        .await;
    text(&listed[0], "id").to_owned()
}

async fn retro(world: &World, arguments: &[String]) -> crate::world::Answer {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    world.retro(&arguments).await
}
