//! Triggers a retrospective over selected runs and decides on its proposals, as an operator does.

use serde_json::{Value, json};

use crate::world::{RunBuilder, World, build_correcting_runs, json_items, json_text};

const WORKFLOW: &str = "release";

#[tokio::test]
async fn a_manual_retrospective_proposes_and_leaves_window_and_memory_as_they_were() {
    let mut world = World::start().await;
    world
        .emit_and_wait("default", "first.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..4))
        .await;
    let before = world.run_json(&["workflows"]).await;
    let triggered =
        trigger_retrospective(&world, "release-2,release-1", "Which region does the service need?").await;
    let id = json_text(&triggered, "retrospective").to_owned();
    let proposals = wait_for_proposals(&world, &id, 1).await;
    assert_eq!(world.run_json(&["workflows"]).await, before, "ordinals, window and epoch");
    assert_eq!(world.run_json(&["memories", "list"]).await, json!([]), "a proposal is not a memory");
    let evidence = json_items(&proposals[0]["proposal"]["evidence"]);
    let runs: Vec<_> = evidence.iter().map(|shown| json_text(shown, "run")).collect();
    assert_eq!(runs, ["release-1", "release-2"], "exactly the named runs, in counting order");

    let again =
        trigger_retrospective(&world, "release-1,release-2", "Which region does the service need?").await;
    assert_eq!(
        (json_text(&again, "retrospective"), json_text(&again, "result")),
        (id.as_str(), "was already opened by this request")
    );
    let unknown = ["retrospectives", "trigger", "--workflow", WORKFLOW, "--runs", "release-1,never-seen"];
    let refused = world.run_retro(&unknown).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("there is no run never-seen of workflow release"), "{refused:?}");

    for form in [&["reports", "show", &id][..], &["reports", "show", &id, "--markdown"]] {
        let shown = world.run_retro(form).await;
        assert!(shown.out.contains("Manual retrospective of release"), "{}", shown.out);
        assert!(shown.out.contains("1 pattern is proposed"), "{}", shown.out);
        assert!(shown.out.contains("Which region does the service need?"), "{}", shown.out);
    }
    let shown = world.run_retro(&["retrospectives", "show", &id]).await;
    assert!(shown.out.contains("; reason: to learn from it"), "{}", shown.out);
    assert!(shown.out.contains(&json_text(&proposals[0]["proposal"], "id")[..8]), "{}", shown.out);

    world
        .emit_and_wait("default", "second.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 4..10))
        .await;
    let report = load_automatic_report(&world, 1).await;
    assert_eq!((&report["first"], &report["last"]), (&json!(1), &json!(10)), "its runs were in the window");
    let checked = world.verify_store().await;
    assert_eq!(
        (&checked["retrospectives"], &checked["reports"], &checked["proposals"]),
        (&json!(2), &json!(2), &json!(1))
    );
    world.stop().await;
}

#[tokio::test]
async fn an_accepted_proposal_is_presented_and_a_refused_one_stays_listed() {
    let mut world = World::start().await;
    let runs = [0, 1].map(|n| build_run_with_two_lessons(&format!("release-{n}")));
    world.emit_and_wait("default", "runs.jsonl", &runs).await;
    let id =
        json_text(&trigger_retrospective(&world, "release-0,release-1", "deploy").await, "retrospective")
            .to_owned();
    let proposals = wait_for_proposals(&world, &id, 2).await;
    let of = |tool: &str| {
        let found =
            json_items(&proposals).iter().find(|row| row["proposal"]["lesson"]["cue"]["tool"] == tool);
        json_text(&found.expect("a proposal about the tool")["proposal"], "id").to_owned()
    };
    let (deploy, page) = (of("deploy_service"), of("page_the_owner"));

    let accept = ["proposals", "accept", &deploy[..8], "--by", "ada", "--reason", "both runs show it"];
    let accepted = world.run_json(&accept).await;
    assert_eq!(accepted["decision"]["reason"], "both runs show it");
    let memory = json_text(&accepted["decision"], "memory").to_owned();
    let refused = ["proposals", "refuse", &page, "--by", "bob", "--reason", "nobody is paged any more"];
    assert_eq!(world.run_json(&refused).await["newly_decided"], true);
    world.wait_until_idle().await;
    let context = world.fetch_context("default", &json!({"workflow": WORKFLOW, "step": "deploy"})).await;
    assert!(json_text(&context, "text").contains("deploy_service"), "{context}");
    assert!(!json_text(&context, "text").contains("page_the_owner"), "{context}");
    let shown = world.run_json(&["memories", "show", &memory]).await;
    assert_eq!(
        (&shown["status"], &shown["weight"], &shown["observed_runs"]),
        (&json!("active"), &json!(300), &json!(2))
    );
    let why = world.run_retro(&["-o", "table", "memories", "why", &memory]).await.out;
    assert!(why.contains("accepted") && why.contains(&deploy[..8]), "{why}");

    let export = world.export_canonical().await;
    let again = world.run_retro(&["-o", "json", "proposals", "accept", &deploy, "--by", "eve"]).await;
    assert_eq!((again.code, again.parse_json()["decision"]["by"].as_str()), (Some(0), Some("ada")));
    let contrary = world.run_retro(&["-o", "json", "proposals", "accept", &page]).await;
    assert_eq!((contrary.code, contrary.parse_json()["decision"]["by"].as_str()), (Some(4), Some("bob")));
    assert_eq!(world.export_canonical().await, export, "a decision is final");
    let listed = world.run_json(&["proposals", "list", "--status", "refused"]).await;
    assert_eq!(listed[0]["decision"]["reason"], "nobody is paged any more");
    let nobody = "ffffffff-ffff-8fff-bfff-ffffffffffff";
    assert_eq!(world.run_retro(&["proposals", "accept", nobody]).await.code, Some(3));
    world.verify_store().await;
    world.stop().await;
}

/// Law 6, from outside: a run seen by a manual and an automatic retrospective is a single run.
#[tokio::test]
async fn a_run_seen_by_a_manual_and_an_automatic_retrospective_counts_once() {
    // One run in ten has a lesson, and every run of the window is sampled.
    let mut world = World::empty();
    world.write_policy("[selection]\nsample_permille = 1000\nsample_runs_max = 10\n");
    world.up().await;
    let quiet = |n: u64| {
        RunBuilder::new(WORKFLOW, &format!("release-{n}")).with_message("Nothing to do.").build_event()
    };
    let mut runs: Vec<Value> = (1..10).map(quiet).collect();
    runs.insert(0, build_correcting_runs(WORKFLOW, "deploy_service", 0..1).remove(0));
    world.emit_and_wait("default", "nine.jsonl", &runs[..9]).await;
    let id =
        json_text(&trigger_retrospective(&world, "release-0", "deploy").await, "retrospective").to_owned();
    let proposal = json_text(&wait_for_proposals(&world, &id, 1).await[0]["proposal"], "id").to_owned();
    let accepted = world.run_json(&["proposals", "accept", &proposal]).await;
    let memory = json_text(&accepted["decision"], "memory").to_owned();
    world.emit_and_wait("default", "tenth.jsonl", &runs[9..]).await;
    load_automatic_report(&world, 1).await;
    let shown = world.run_json(&["memories", "show", &memory]).await;
    assert_eq!((&shown["observed_runs"], &shown["status"]), (&json!(1), &json!("active")));
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn a_tombstone_stops_an_acceptance_until_a_reason_overrides_it() {
    let mut world = World::start().await;
    world
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..10))
        .await;
    let memory = json_text(&world.run_json(&["memories", "list"]).await[0], "id").to_owned();
    world.run_json(&["memories", "delete", &memory, "--reason", "the tool asks by itself now"]).await;
    let id =
        json_text(&trigger_retrospective(&world, "release-0,release-1", "deploy").await, "retrospective")
            .to_owned();
    let proposal = json_text(&wait_for_proposals(&world, &id, 1).await[0]["proposal"], "id").to_owned();
    let stopped = world.run_retro(&["proposals", "accept", &proposal]).await;
    assert_eq!(stopped.code, Some(1));
    assert!(stopped.err.contains("the tool asks by itself now"), "{stopped:?}");
    let despite = ["proposals", "accept", &proposal, "--override-tombstone", "it asks no more"];
    let accepted = world.run_json(&despite).await;
    let new_memory = json_text(&accepted["decision"], "memory").to_owned();
    assert_ne!(new_memory, memory);
    let why = world.run_json(&["memories", "why", &new_memory]).await.to_string();
    assert!(why.contains("despite a tombstone: it asks no more"), "{why}");
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn manual_retrospectives_work_over_http_and_another_tenant_sees_nothing() {
    let mut world = World::start().await;
    world.emit_and_wait("acme", "runs.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..2)).await;
    let body = json!({"workflow": WORKFLOW, "runs": ["release-0", "release-1"], "by": "ada"});
    let (status, foreign) = world.post_json("default", "/v1/retrospectives", &body).await;
    assert_eq!(status, 400, "{foreign}");
    assert!(foreign.to_string().contains("there is no run release-0"), "{foreign}");
    let (status, opened) = world.post_json("acme", "/v1/retrospectives", &body).await;
    assert_eq!((status, &opened["opened"]), (200, &json!(true)), "{opened}");
    let (status, again) = world.post_json("acme", "/v1/retrospectives", &body).await;
    assert_eq!(
        (status, &again["opened"], &again["retrospective"]),
        (200, &json!(false), &opened["retrospective"])
    );
    let listed = world
        .wait_for("the proposal", async || {
            let (_, body) = world.get("acme", "/v1/proposals").await;
            let body: Value = serde_json::from_str(&body).ok()?;
            (!json_items(&body["items"]).is_empty()).then_some(body)
        })
        .await;
    let id = json_text(&listed["items"][0]["proposal"], "id");
    let (status, nothing) = world.get("default", "/v1/proposals").await;
    assert_eq!((status, nothing.as_str()), (200, r#"{"items":[],"more":false}"#));
    let path = |id: &str| format!("/v1/proposals/{id}");
    let accept = format!("{}/accept", path(id));
    assert_eq!(
        world.post_json("default", &accept, &json!({"by": "eve"})).await.0,
        404,
        "another tenant cannot decide"
    );
    let (status, decided) = world.post_json("acme", &accept, &json!({"by": "ada"})).await;
    assert_eq!((status, &decided["newly_decided"]), (200, &json!(true)), "{decided}");
    let refuse = format!("{}/refuse", path(id));
    let (status, problem) = world.post_json("acme", &refuse, &json!({"reason": "no", "by": "bob"})).await;
    assert_eq!(status, 409, "{problem}");
    assert!(problem.to_string().contains("it was already accepted by ada"), "{problem}");
    world.verify_store().await;
    world.stop().await;
}

async fn trigger_retrospective(world: &World, runs: &str, focus: &str) -> Value {
    let command = ["retrospectives", "trigger", "--workflow", WORKFLOW, "--runs", runs, "--focus", focus];
    world.run_json(&[&command[..], &["--reason", "to learn from it"]].concat()).await
}

/// Waits until a manual retrospective is closed and asserts its number of proposals.
async fn wait_for_proposals(world: &World, id: &str, proposals: usize) -> Value {
    let closed = async || {
        let shown = world.run_json(&["retrospectives", "show", id]).await;
        (shown["retrospective"]["state"] == "closed").then_some(())
    };
    world.wait_for("the manual retrospective is closed", closed).await;
    world.wait_until_idle().await;
    let listed = world.run_json(&["proposals", "list", "--retrospective", id]).await;
    assert_eq!(json_items(&listed).len(), proposals, "{listed}");
    listed
}

async fn load_automatic_report(world: &World, epoch: u64) -> Value {
    let rows = world.run_json(&["retrospectives", "list"]).await;
    let found = json_items(&rows).iter().find(|row| row["retrospective"]["epoch"] == json!(epoch));
    let id = json_text(&found.expect("the window was full")["retrospective"], "id").to_owned();
    world.run_json(&["reports", "show", &id]).await
}

fn build_run_with_two_lessons(id: &str) -> Value {
    let run = RunBuilder::new(WORKFLOW, id).with_message("Deploy the service and page its owner.");
    run.with_corrected_call("deploy_service", "region")
        .with_corrected_call("page_the_owner", "urgency")
        .build_event()
}
