//! Two tenants use the same names and cannot see each other's data. As a positive control, the owner first
//! sees everything that the other tenant must not see.

use serde_json::{Value, json};

use crate::world::{RunBuilder, World, build_correcting_runs, build_event, json_items, json_text};

const WORKFLOW: &str = "release";
const FIRST_TENANT: &str = "acme";
const SECOND_TENANT: &str = "globex";
/// An id that no object has.
const MISSING_ID: &str = "00000000-0000-8000-8000-000000000000";

#[tokio::test]
async fn two_tenants_with_the_same_workflow_step_and_run_names_see_nothing_of_each_other() {
    let mut world = World::empty();
    // The memories of both tenants have to reach the same run.
    world.write_policy("[context]\nwithhold_permille = 0\n");
    world.up().await;
    // Both tenants have the same runs, and only the first has one more lesson: equal data of two tenants must
    // not be merged.
    let shared = build_correcting_runs(WORKFLOW, "deploy_service", 0..10);
    let own: Vec<Value> = shared.iter().cloned().map(add_own_tool_lesson).collect();
    world.emit_and_wait(FIRST_TENANT, "mine.jsonl", &own).await;
    world.emit_and_wait(SECOND_TENANT, "other.jsonl", &shared).await;
    assert!(world.export_canonical().await.trim().is_empty(), "the default tenant has something");

    for (tenant, tool) in [(FIRST_TENANT, true), (SECOND_TENANT, false)] {
        let runs = world.run_json(&["--tenant", tenant, "runs"]).await;
        let ordinals: Vec<_> =
            json_items(&runs).iter().rev().map(|run| run["ordinal"].as_u64().unwrap()).collect();
        assert_eq!(ordinals, (1..=10).collect::<Vec<_>>(), "each tenant has a window of its own");
        assert!(json_items(&runs).iter().all(|run| run["key"]["tenant"] == tenant));
        let listed = world.run_json(&["--tenant", tenant, "memories", "list"]).await;
        assert_eq!(listed.to_string().contains("page_the_owner"), tool, "{tenant}: {listed}");
        for memory in json_items(&listed) {
            assert_eq!(memory["observed_runs"], 4, "{tenant}: seen in the four sampled runs: {memory}");
        }
        let question = json!({"workflow": WORKFLOW, "step": "deploy", "run_id": "next"});
        let context = world.fetch_context(tenant, &question).await;
        assert!(json_text(&context, "text").contains("deploy_service"), "{tenant}: {context}");
        assert_eq!(json_text(&context, "text").contains("page_the_owner"), tool, "{tenant}: {context}");
        let same = world
            .run_json(&["--tenant", tenant, "context", "--workflow", WORKFLOW, "--step", "deploy"])
            .await;
        assert_eq!(same["text"], context["text"]);
        let export = world.run_retro(&["--tenant", tenant, "export", "--canonical"]).await.out;
        assert_eq!(export.contains("page_the_owner"), tool);
    }
    for (tenant, had) in [(FIRST_TENANT, 1), (SECOND_TENANT, 1), ("default", 0)] {
        let (status, body) = world.get(tenant, "/v1/pipelines/versions").await;
        let listed: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!((status, json_items(&listed["versions"]).len()), (200, had), "{tenant}: {body}");
        let printed = world.run_json(&["--tenant", tenant, "pipeline", "versions"]).await;
        assert_eq!(printed, listed, "{tenant}: the command prints what the route answers");
    }
    let build_question = |workflow: &str| json!({"workflow": workflow, "step": "deploy"});
    let default_context = world.fetch_context("default", &build_question(WORKFLOW)).await;
    assert_eq!(
        default_context,
        world.fetch_context("default", &build_question("nobody-has-this-workflow")).await
    );
    assert_eq!(default_context["memories"], json!([]));
    for what in ["runs", "memories", "retrospectives", "dead-letters"] {
        let (status, body) = world.get("default", &format!("/v1/{what}")).await;
        assert_eq!((status, body.as_str()), (200, r#"{"items":[],"more":false}"#), "{what}");
    }
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn another_tenants_object_answers_exactly_like_a_missing_one() {
    let mut world = World::start().await;
    world
        .emit_and_wait(FIRST_TENANT, "mine.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..10))
        .await;
    world
        .emit_and_wait(
            SECOND_TENANT,
            "other.jsonl",
            &build_correcting_runs(WORKFLOW, "deploy_service", 0..10),
        )
        .await;
    let bad = build_event("bad", &json!({"workflow": WORKFLOW}));
    let dead_letter = create_dead_letter(&world, &bad).await;
    let memories = world.run_json(&["--tenant", FIRST_TENANT, "memories", "list"]).await;
    let rows = world.run_json(&["--tenant", FIRST_TENANT, "retrospectives", "list"]).await;
    let memory = json_text(&json_items(&memories)[0], "id");
    let retrospective = json_text(&rows[0]["retrospective"], "id");

    for (route, id) in [
        ("memories/{}", memory),
        ("memories/{}?run=release-1", memory),
        ("memories/{}/why", memory),
        ("memories/{}/effect", memory),
        ("retrospectives/{}", retrospective),
        ("reports/{}", retrospective),
        ("dead-letters/{}", dead_letter.as_str()),
    ] {
        let path = |id: &str| format!("/v1/{}", route.replace("{}", id));
        assert_eq!(world.get(FIRST_TENANT, &path(id)).await.0, 200, "{route}: its owner sees it");
        let (status, body) = world.get(SECOND_TENANT, &path(id)).await;
        let missing = world.get(SECOND_TENANT, &path(MISSING_ID)).await;
        assert_eq!((status, body.replace(id, MISSING_ID)), missing, "{route}");
        assert_eq!(missing.0, 404, "{route}");
    }
    for (command, id) in [
        (&["memories", "show", "{}"][..], memory),
        (&["memories", "why", "{}"], memory),
        (&["memories", "effect", "{}"], memory),
        (&["retrospectives", "show", "{}"], retrospective),
        (&["reports", "show", "{}"], retrospective),
        (&["dead-letters", "show", "{}"], dead_letter.as_str()),
    ] {
        let of = |tenant, id: &str| {
            let named = command.iter().map(|part| part.replace("{}", id));
            ["--tenant".to_owned(), String::from(tenant)].into_iter().chain(named).collect::<Vec<_>>()
        };
        assert_eq!(
            run_retro(&world, &of(FIRST_TENANT, id)).await.code,
            Some(0),
            "{command:?}: its owner sees it"
        );
        let mut crossed = run_retro(&world, &of(SECOND_TENANT, id)).await;
        crossed.err = crossed.err.replace(id, MISSING_ID);
        assert_eq!(crossed, run_retro(&world, &of(SECOND_TENANT, MISSING_ID)).await, "{command:?}");
        assert_eq!(crossed.code, Some(3), "{command:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_can_neither_delete_nor_release_nor_suppress_another_tenants_memory() {
    let mut world = World::start().await;
    world
        .emit_and_wait(FIRST_TENANT, "mine.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..10))
        .await;
    let memories = world.run_json(&["--tenant", FIRST_TENANT, "memories", "list"]).await;
    let memory = json_text(&json_items(&memories)[0], "id");
    let of = |tenant| ["--tenant", tenant, "memories", "delete", memory, "--reason", "not needed"];

    assert_eq!(world.run_retro(&of(SECOND_TENANT)).await.code, Some(3));
    assert_eq!(
        world.run_json(&["--tenant", FIRST_TENANT, "memories", "show", memory]).await["status"],
        "active"
    );
    let release = |tenant| ["--tenant", tenant, "memories", "release", memory, "--reason", "not needed"];
    assert_eq!(world.run_retro(&release(SECOND_TENANT)).await.code, Some(3));
    let refused = world.run_retro(&release(FIRST_TENANT)).await;
    assert!(
        refused.code == Some(1) && refused.err.contains("it is not held"),
        "its owner is told: {refused:?}"
    );
    assert_eq!(world.run_retro(&of(FIRST_TENANT)).await.code, Some(0), "its owner can");

    world
        .emit_and_wait(
            SECOND_TENANT,
            "other.jsonl",
            &build_correcting_runs(WORKFLOW, "deploy_service", 0..10),
        )
        .await;
    let learned = world.run_json(&["--tenant", SECOND_TENANT, "memories", "list"]).await;
    assert_eq!(
        json_items(&learned)[0]["status"],
        "active",
        "another tenant's tombstone suppressed it: {learned}"
    );
    world
        .emit_and_wait(
            FIRST_TENANT,
            "again.jsonl",
            &build_correcting_runs(WORKFLOW, "deploy_service", 10..20),
        )
        .await;
    let active = world.run_json(&["--tenant", FIRST_TENANT, "memories", "list", "--status", "active"]).await;
    assert_eq!(json_items(&active).len(), 0, "its own tombstone suppresses it: {active}");
    world.verify_store().await;
    world.stop().await;
}

/// Adds a lesson that the other tenant's runs do not contain.
fn add_own_tool_lesson(mut event: Value) -> Value {
    let own = RunBuilder::new(WORKFLOW, "own").with_corrected_call("page_the_owner", "urgency").build_event();
    let added = json_items(&own["data"]["trajectory"]["steps"]).to_vec();
    let steps = event["data"]["trajectory"]["steps"].as_array_mut().expect("a list of steps");
    steps.extend(added);
    event
}

/// Creates a dead letter of the first tenant and returns its id.
async fn create_dead_letter(world: &World, bad: &Value) -> String {
    world.publish_event(FIRST_TENANT, WORKFLOW, bad).await;
    let listed = world
        .wait_for("the dead letter", async || {
            let listed = world.run_json(&["--tenant", FIRST_TENANT, "dead-letters", "list"]).await;
            (!json_items(&listed).is_empty()).then_some(listed)
        })
        .await;
    json_text(&listed[0], "id").to_owned()
}

async fn run_retro(world: &World, arguments: &[String]) -> crate::world::CommandOutput {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    world.run_retro(&arguments).await
}
