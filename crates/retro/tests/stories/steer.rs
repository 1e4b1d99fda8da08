//! People's hand on retrospectives: one that failed and is followed at once, and one that is called off.

use jiff::Timestamp;
use retro_core::count::{Arrival, count_arrivals};
use retro_core::id::{EventKey, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::retrospective::Retrospective;
use retro_core::{investigate, sample};
use retro_store::{DrawnSample, IncomingBody, IncomingRun, Store, StoreError};
use serde_json::{Value, json};

use crate::world::{Answer, World, event, items, mending, text};

#[tokio::test]
async fn when_every_body_is_gone_it_fails_and_replaying_its_letter_opens_the_next_epoch_at_once() {
    let mut world = World::start().await;
    let (failed, letter) = fail(&world, "lost", 0..10).await;
    let state = &items(&world.ask(&["workflows"]).await)[0]["state"].clone();
    assert!(state["paused_until"].is_string(), "{state}");
    let listed = world.retro(&["workflows"]).await.out;
    assert!(listed.contains("until 20"), "the pause is shown: {listed}");
    let report = world.ask(&["reports", "show", text(&failed, "id")]).await;
    assert_eq!((&report["ended"], items(&report["changes"]).len()), (&json!("failed"), 0));
    let problem = text(&items(&report["investigations"])[0], "problem");
    assert!(problem.contains("no such object"), "{problem}");
    world.sound().await;

    // Since then the object store is whole again: three runs with bodies come, and the pause holds them back.
    let more = mending("lost", "deploy_service", 10..13);
    let file = world.write_events("more.jsonl", &more);
    world.ask(&["emit", &file]).await;
    world.counted("default", 13).await;
    assert_eq!(items(&world.ask(&["retrospectives", "list"]).await).len(), 1, "the workflow pauses");
    let replay = ["dead-letters", "replay", &letter, "--by", "ann", "--reason", "the store is back"];
    let told = world.ask(&replay).await;
    assert_eq!((&told["did"], &told["epoch"]), (&json!("done"), &json!(2)));
    ended(&world).await;
    let second = world.ask(&["retrospectives", "show", text(&told, "retrospective")]).await;
    let window = (&second["retrospective"]["first"], &second["retrospective"]["last"]);
    assert_eq!(window, (&json!(1), &json!(13)));
    assert_ne!(second["sample"]["seed"], report["sample"]["seed"]);
    let again = world.ask(&["dead-letters", "replay", &letter, "--by", "bob", "--reason", "again"]).await;
    assert_eq!(again["did"], "done_before");
    assert!(text(&again, "detail").contains("by ann") && text(&again, "detail").contains("retrospective 2"));
    let shown = world.retro(&["dead-letters", "show", &letter]).await.out;
    assert!(shown.contains("status     replayed") && shown.contains("the store is back"), "{shown}");
    world.sound().await;
    world.stop().await;
}

#[tokio::test]
async fn replaying_over_http_answers_in_the_same_words_and_only_the_owner_s_letter() {
    let mut world = World::start().await;
    let (_, letter) = fail(&world, "lost", 0..10).await;
    let path = format!("/v1/dead-letters/{letter}/replay");
    let asked = json!({"reason": "the store is back", "by": "ann"});
    let (status, missing) = world.post("acme", &path, &asked).await;
    assert_eq!(status, 404, "{missing}");
    let (status, refused) = world.post("default", &path, &json!({"reason": " "})).await;
    assert_eq!((status, refused["path"].as_str()), (400, Some("reason")), "{refused}");
    let (status, told) = world.post("default", &path, &asked).await;
    assert_eq!((status, &told["did"], &told["epoch"]), (200, &json!("done"), &json!(2)), "{told}");
    let (status, told) = world.post("default", &path, &asked).await;
    assert_eq!((status, &told["did"]), (200, &json!("done_before")), "{told}");
    let (_, shown) = world.get("default", &format!("/v1/dead-letters/{letter}")).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["status"], &shown["acts"][0]["by"]), (&json!("replayed"), &json!("ann")));
    world.sound().await;
    world.stop().await;
}

#[tokio::test]
async fn a_cancelled_retrospective_releases_its_runs_and_fences_who_was_at_work() {
    let mut world = World::empty();
    world.retro(&["migrate"]).await;
    let store = world.store().await;
    let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("shop").unwrap() };
    let opened = open(&*store, &key).await;
    store.draw_sample(&key.tenant, opened.id, &drawn).await.unwrap();
    let claim = store.claim_investigation("a worker", 3600).await.unwrap().expect("one is due");
    let id = opened.id.to_string();
    let cancel = |by: &'static str| ["retrospectives", "cancel", &id, "--by", by, "--reason", "a load test"];
    let told = world.ask(&cancel("ann")).await;
    assert_eq!((&told["did"], &told["epoch"]), (&json!("done"), &json!(1)));
    let detail = text(&told, "detail");
    assert!(detail.contains("10 runs are released") && detail.contains("no other before 20"), "{detail}");
    let late = store.extend_lease(&claim, 60).await;
    assert!(matches!(late, Err(StoreError::Fenced { .. })), "{late:?}");
    let again = world.ask(&cancel("bob")).await;
    assert_eq!(again["did"], "done_before");
    assert!(text(&again, "detail").contains("by ann"), "{again}");
    let Answer { code, .. } = world.retro(&[&["--tenant", "acme"][..], &cancel("eve")].concat()).await;
    assert_eq!(code, Some(3), "another tenant's is not there");

    // The program starts on what is left: its messages do nothing, and the workflow waits.
    world.up().await;
    ended(&world).await;
    let row = &items(&world.ask(&["retrospectives", "list"]).await)[0]["retrospective"].clone();
    assert_eq!((&row["state"], &row["epoch"]), (&json!("cancelled"), &json!(1)));
    let shown = world.retro(&["retrospectives", "show", &id]).await.out;
    assert!(shown.contains("cancelled by ann") && shown.contains("a load test"), "{shown}");
    assert_eq!(store.list_dead_letters(&key.tenant, &Default::default()).await.unwrap(), []);
    assert!(!world.export().await.contains("\"kind\":\"report\""));
    world.sound().await;
    world.stop().await;
}

/// Runs whose bodies are nowhere: the retrospective over them, and its letter.
async fn fail(world: &World, workflow: &str, runs: std::ops::Range<u64>) -> (Value, String) {
    for number in runs {
        let run = format!("{workflow}-{number}");
        let body = json!({"name": format!("default/{number:064x}"), "sha256": format!("{number:064x}"), "bytes": 70_000});
        let data = json!({"workflow": workflow, "run_id": run, "outcome": "success", "dataref": body});
        world.publish("default", workflow, &event(&format!("event of {run}"), &data)).await;
    }
    let letter = letter_of(world).await;
    assert_eq!(letter["code"], "retrospective_failed", "{letter}");
    let rows = world.ask(&["retrospectives", "list"]).await;
    let row = items(&rows)[0]["retrospective"].clone();
    assert_eq!((items(&rows).len(), &row["state"]), (1, &json!("failed")));
    (row, text(&letter, "id").to_owned())
}

/// Waits for the only letter of the default tenant.
async fn letter_of(world: &World) -> Value {
    let listed = world
        .until("a letter is there", async || {
            let listed = world.ask(&["dead-letters", "list"]).await;
            (!items(&listed).is_empty()).then_some(listed)
        })
        .await;
    assert_eq!(items(&listed).len(), 1, "{listed}");
    items(&listed)[0].clone()
}

/// Waits until no retrospective is open and every message is sent; a window may wait behind a pause.
async fn ended(world: &World) {
    let store = world.store().await;
    let tenant = Tenant::default_tenant();
    world
        .until("no retrospective is open", async || {
            let rows = store.list_workflows(&tenant).await.ok()?;
            let idle =
                store.load_health().await.ok()?.outbox_unsent == 0 && !rows.iter().any(|row| row.state.open);
            idle.then_some(())
        })
        .await;
}

/// Ten counted runs in a database on which nothing works, and the retrospective that they opened.
async fn open(store: &dyn Store, key: &WorkflowKey) -> Retrospective {
    let batch: Vec<IncomingRun> = (0..10).map(|number| incoming(key, number)).collect();
    let now = "2026-11-20T10:00:00Z".parse::<Timestamp>().expect("a moment");
    let policy = Policy::default();
    let count = |facts, arrivals: &[Arrival]| count_arrivals(facts, arrivals, &policy, now);
    store.count_runs(&batch, &[], &count).await.expect("counting");
    let rows = store.list_retrospectives(&key.tenant, None, 1).await.expect("listing");
    rows.into_iter().next().expect("one was opened").retrospective
}

fn incoming(key: &WorkflowKey, number: u64) -> IncomingRun {
    let run_id = RunId::new(format!("shop-{number}")).expect("a name");
    let id = format!("event of {run_id}");
    let event = EventKey { tenant: key.tenant.clone(), source: "/tests/composed".to_owned(), id };
    let run = serde_json::from_value(json!({"run_id": run_id, "outcome": "success"})).expect("facts");
    let arrival = Arrival { event, key: key.clone(), content_hash: number.to_string(), run };
    IncomingRun { arrival, position: number, body: IncomingBody::None, trace: None }
}

fn drawn(retrospective: &Retrospective, window: Vec<u64>) -> DrawnSample {
    let sample = sample::draw_sample(retrospective.id, window, &retrospective.policy);
    let first = investigate::decide_next_stage(&sample, &[]);
    DrawnSample { sample, first }
}
