//! Tests the commands on retrospectives: replaying a failed one, which opens the next one at once, and
//! cancelling an open one.

use jiff::Timestamp;
use retro_core::count::{Arrival, IntakeProgress, count_arrivals};
use retro_core::id::{EventKey, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::retrospective::Retrospective;
use retro_core::{investigate, sample};
use retro_store::{DrawnSample, IncomingBody, IncomingRun, Store, StoreError, WindowsToCheck};
use serde_json::{Value, json};

use crate::world::{CommandOutput, World, build_correcting_runs, build_event, json_items, json_text};

#[tokio::test]
async fn a_retrospective_without_bodies_fails_and_replaying_its_dead_letter_opens_the_next_epoch() {
    let mut world = World::start().await;
    let (failed, dead_letter) = fail_retrospective(&world, "lost", 0..10).await;
    let state = &json_items(&world.run_json(&["workflows"]).await)[0]["state"].clone();
    assert!(state["paused_until"].is_string(), "{state}");
    let listed = world.run_retro(&["workflows"]).await.out;
    assert!(listed.contains("until 20"), "the pause is shown: {listed}");
    let report = world.run_json(&["reports", "show", json_text(&failed, "id")]).await;
    assert_eq!((&report["ended"], json_items(&report["changes"]).len()), (&json!("failed"), 0));
    let problem = json_text(&json_items(&report["investigations"])[0], "error");
    assert!(problem.contains("no such object"), "{problem}");
    world.verify_store().await;

    // The object store works again: three runs with bodies arrive, and the pause keeps them waiting.
    let more = build_correcting_runs("lost", "deploy_service", 10..13);
    let file = world.write_events("more.jsonl", &more);
    world.run_json(&["emit", &file]).await;
    world.wait_until_counted("default", 13).await;
    assert_eq!(
        json_items(&world.run_json(&["retrospectives", "list"]).await).len(),
        1,
        "the workflow pauses"
    );
    let replay = ["dead-letters", "replay", &dead_letter, "--by", "ann", "--reason", "the store is back"];
    let answer = world.run_json(&replay).await;
    assert_eq!((&answer["status"], &answer["epoch"]), (&json!("done"), &json!(2)));
    wait_until_none_open(&world).await;
    let second = world.run_json(&["retrospectives", "show", json_text(&answer, "retrospective")]).await;
    let window = (&second["retrospective"]["first"], &second["retrospective"]["last"]);
    assert_eq!(window, (&json!(1), &json!(13)));
    assert_ne!(second["sample"]["seed"], report["sample"]["seed"]);
    let again =
        world.run_json(&["dead-letters", "replay", &dead_letter, "--by", "bob", "--reason", "again"]).await;
    assert_eq!(again["status"], "already_done");
    assert!(
        json_text(&again, "detail").contains("by ann")
            && json_text(&again, "detail").contains("retrospective 2")
    );
    let shown = world.run_retro(&["dead-letters", "show", &dead_letter]).await.out;
    assert!(shown.contains("status     replayed") && shown.contains("the store is back"), "{shown}");
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn replaying_over_http_answers_the_same_and_only_for_the_owning_tenant() {
    let mut world = World::start().await;
    let (_, dead_letter) = fail_retrospective(&world, "lost", 0..10).await;
    let path = format!("/v1/dead-letters/{dead_letter}/replay");
    let request = json!({"reason": "the store is back", "by": "ann"});
    let (status, missing) = world.post_json("acme", &path, &request).await;
    assert_eq!(status, 404, "{missing}");
    let (status, refused) = world.post_json("default", &path, &json!({"reason": " "})).await;
    assert_eq!((status, refused["path"].as_str()), (400, Some("reason")), "{refused}");
    let (status, answer) = world.post_json("default", &path, &request).await;
    assert_eq!((status, &answer["status"], &answer["epoch"]), (200, &json!("done"), &json!(2)), "{answer}");
    let (status, answer) = world.post_json("default", &path, &request).await;
    assert_eq!((status, &answer["status"]), (200, &json!("already_done")), "{answer}");
    let (_, shown) = world.get("default", &format!("/v1/dead-letters/{dead_letter}")).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["status"], &shown["audit_log"][0]["by"]), (&json!("replayed"), &json!("ann")));
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn a_cancelled_retrospective_releases_its_runs_and_fences_its_worker() {
    let mut world = World::empty();
    world.run_retro(&["migrate"]).await;
    let store = world.open_store().await;
    let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("shop").unwrap() };
    let opened = open_retrospective(&*store, &key).await;
    store.draw_sample(&key.tenant, opened.id, &draw_sample).await.unwrap();
    let claim = store.claim_investigation("a worker", 3600).await.unwrap().expect("an investigation is due");
    let id = opened.id.to_string();
    let cancel = |by: &'static str| ["retrospectives", "cancel", &id, "--by", by, "--reason", "a load test"];
    let answer = world.run_json(&cancel("ann")).await;
    assert_eq!((&answer["status"], &answer["epoch"]), (&json!("done"), &json!(1)));
    let detail = json_text(&answer, "detail");
    assert!(detail.contains("10 runs are released") && detail.contains("no other before 20"), "{detail}");
    let late = store.extend_lease(&claim, 60).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    let again = world.run_json(&cancel("bob")).await;
    assert_eq!(again["status"], "already_done");
    assert!(json_text(&again, "detail").contains("by ann"), "{again}");
    let CommandOutput { code, .. } =
        world.run_retro(&[&["--tenant", "acme"][..], &cancel("eve")].concat()).await;
    assert_eq!(code, Some(3), "another tenant's retrospective is not found");

    // The program starts on this state: the remaining messages have no effect, and the workflow stays paused.
    world.up().await;
    wait_until_none_open(&world).await;
    let row = &json_items(&world.run_json(&["retrospectives", "list"]).await)[0]["retrospective"].clone();
    assert_eq!((&row["state"], &row["epoch"]), (&json!("cancelled"), &json!(1)));
    let shown = world.run_retro(&["retrospectives", "show", &id]).await.out;
    assert!(shown.contains("cancelled by ann") && shown.contains("a load test"), "{shown}");
    assert_eq!(store.list_dead_letters(&key.tenant, &Default::default()).await.unwrap(), []);
    assert!(!world.export_canonical().await.contains("\"kind\":\"report\""));
    world.verify_store().await;
    world.stop().await;
}

/// Publishes runs whose bodies are missing. Returns the failed retrospective over them and the id of its dead
/// letter.
async fn fail_retrospective(world: &World, workflow: &str, runs: std::ops::Range<u64>) -> (Value, String) {
    for number in runs {
        let run = format!("{workflow}-{number}");
        let body = json!({"name": format!("default/{number:064x}"), "sha256": format!("{number:064x}"), "bytes": 70_000});
        let data = json!({"workflow": workflow, "run_id": run, "outcome": "success", "dataref": body});
        world.publish_event("default", workflow, &build_event(&format!("event of {run}"), &data)).await;
    }
    let dead_letter = wait_for_dead_letter(world).await;
    assert_eq!(dead_letter["code"], "retrospective_failed", "{dead_letter}");
    let rows = world.run_json(&["retrospectives", "list"]).await;
    let row = json_items(&rows)[0]["retrospective"].clone();
    assert_eq!((json_items(&rows).len(), &row["state"]), (1, &json!("failed")));
    (row, json_text(&dead_letter, "id").to_owned())
}

/// Waits for the only dead letter of the default tenant.
async fn wait_for_dead_letter(world: &World) -> Value {
    let listed = world
        .wait_for("a dead letter is stored", async || {
            let listed = world.run_json(&["dead-letters", "list"]).await;
            (!json_items(&listed).is_empty()).then_some(listed)
        })
        .await;
    assert_eq!(json_items(&listed).len(), 1, "{listed}");
    json_items(&listed)[0].clone()
}

/// Waits until no retrospective is open and every message is sent. A window may be full during a pause.
async fn wait_until_none_open(world: &World) {
    let store = world.open_store().await;
    let tenant = Tenant::default_tenant();
    world
        .wait_for("no retrospective is open", async || {
            let rows = store.list_workflows(&tenant).await.ok()?;
            let idle =
                store.load_health().await.ok()?.outbox_unsent == 0 && !rows.iter().any(|row| row.state.open);
            idle.then_some(())
        })
        .await;
}

/// Counts ten runs in a database that no process uses and returns the retrospective that they opened.
async fn open_retrospective(store: &dyn Store, key: &WorkflowKey) -> Retrospective {
    let batch: Vec<IncomingRun> = (0..10).map(|number| build_incoming_run(key, number)).collect();
    let now = "2026-11-20T10:00:00Z".parse::<Timestamp>().expect("a timestamp");
    let policy = Policy::default();
    let count = |facts, arrivals: &[Arrival]| {
        count_arrivals(facts, arrivals, IntakeProgress::NotAwaited, &policy, now)
    };
    store.count_runs(&batch, WindowsToCheck::default(), &count).await.expect("counting");
    let rows = store.list_retrospectives(&key.tenant, None, 1).await.expect("listing");
    rows.into_iter().next().expect("a retrospective was opened").retrospective
}

fn build_incoming_run(key: &WorkflowKey, number: u64) -> IncomingRun {
    let run_id = RunId::new(format!("shop-{number}")).expect("a name");
    let id = format!("event of {run_id}");
    let event = EventKey { tenant: key.tenant.clone(), source: "/tests/composed".to_owned(), id };
    let run = serde_json::from_value(json!({"run_id": run_id, "outcome": "success"})).expect("facts");
    let arrival =
        Arrival { event, key: key.clone(), content_hash: number.to_string(), position: number, run };
    IncomingRun { arrival, body: IncomingBody::None, trace: None }
}

fn draw_sample(retrospective: &Retrospective, window: Vec<u64>) -> DrawnSample {
    let sample = sample::draw_sample(retrospective.id, window, &retrospective.policy);
    let first = investigate::decide_next_stage(&sample, &[]);
    DrawnSample { sample, first }
}
