//! A person asks for a look at runs of their own choice, and decides what becomes of what was found.

use serde_json::{Value, json};

use crate::world::{Run, World, items, mending, text};

const WORKFLOW: &str = "release";

#[tokio::test]
async fn a_manual_retrospective_proposes_and_leaves_window_and_memory_as_they_were() {
    let mut world = World::start().await;
    world.emit("default", "first.jsonl", &mending(WORKFLOW, "deploy_service", 0..4)).await;
    let before = world.ask(&["workflows"]).await;
    let asked = trigger(&world, "release-2,release-1", "Which region does the service need?").await;
    let id = text(&asked, "retrospective").to_owned();
    let proposals = proposed(&world, &id, 1).await;
    assert_eq!(world.ask(&["workflows"]).await, before, "ordinals, window and epoch");
    assert_eq!(world.ask(&["memories", "list"]).await, json!([]), "a proposal is no memory");
    let evidence = items(&proposals[0]["proposal"]["evidence"]);
    let runs: Vec<_> = evidence.iter().map(|shown| text(shown, "run")).collect();
    assert_eq!(runs, ["release-1", "release-2"], "exactly what was named, in the order of counting");

    let again = trigger(&world, "release-1,release-2", "Which region does the service need?").await;
    assert_eq!(
        (text(&again, "retrospective"), text(&again, "did")),
        (id.as_str(), "was already opened by this request")
    );
    let unknown = ["retrospectives", "trigger", "--workflow", WORKFLOW, "--runs", "release-1,never-seen"];
    let refused = world.retro(&unknown).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("there is no run never-seen of workflow release"), "{refused:?}");

    for form in [&["reports", "show", &id][..], &["reports", "show", &id, "--markdown"]] {
        let shown = world.retro(form).await;
        assert!(shown.out.contains("Manual retrospective of release"), "{}", shown.out);
        assert!(shown.out.contains("1 pattern is proposed"), "{}", shown.out);
        assert!(shown.out.contains("Which region does the service need?"), "{}", shown.out);
    }
    let shown = world.retro(&["retrospectives", "show", &id]).await;
    assert!(shown.out.contains(text(&proposals[0]["proposal"], "id")), "{}", shown.out);

    world.emit("default", "second.jsonl", &mending(WORKFLOW, "deploy_service", 4..10)).await;
    let report = automatic_report(&world, 1).await;
    assert_eq!((&report["first"], &report["last"]), (&json!(1), &json!(10)), "its runs were in the window");
    let checked = world.sound().await;
    assert_eq!(
        (&checked["retrospectives"], &checked["reports"], &checked["proposals"]),
        (&json!(2), &json!(2), &json!(1))
    );
    world.stop().await;
}

#[tokio::test]
async fn an_accepted_proposal_is_handed_out_and_a_refused_one_is_kept() {
    let mut world = World::start().await;
    let runs = [0, 1].map(|n| two_lessons(&format!("release-{n}")));
    world.emit("default", "runs.jsonl", &runs).await;
    let id = text(&trigger(&world, "release-0,release-1", "deploy").await, "retrospective").to_owned();
    let proposals = proposed(&world, &id, 2).await;
    let of = |tool: &str| {
        let found = items(&proposals).iter().find(|row| row["proposal"]["lesson"]["cue"]["tool"] == tool);
        text(&found.expect("a proposal about the tool")["proposal"], "id").to_owned()
    };
    let (deploy, page) = (of("deploy_service"), of("page_the_owner"));

    let accepted = world.ask(&["proposals", "accept", &deploy, "--by", "ada"]).await;
    let memory = text(&accepted["decision"], "memory").to_owned();
    let refused = ["proposals", "refuse", &page, "--by", "bob", "--reason", "nobody is paged any more"];
    assert_eq!(world.ask(&refused).await["did"], "now");
    world.still().await;
    let handed = world.context("default", &json!({"workflow": WORKFLOW, "step": "deploy"})).await;
    assert!(text(&handed, "text").contains("deploy_service"), "{handed}");
    assert!(!text(&handed, "text").contains("page_the_owner"), "{handed}");
    let shown = world.ask(&["memories", "show", &memory]).await;
    assert_eq!(
        (&shown["status"], &shown["weight"], &shown["observed_runs"]),
        (&json!("active"), &json!(300), &json!(2))
    );
    let why = world.retro(&["-o", "table", "memories", "why", &memory]).await.out;
    assert!(why.contains("accepted") && why.contains(&deploy[..8]), "{why}");

    let export = world.export().await;
    let again = world.retro(&["-o", "json", "proposals", "accept", &deploy, "--by", "eve"]).await;
    assert_eq!((again.code, again.json()["decision"]["by"].as_str()), (Some(0), Some("ada")));
    let contrary = world.retro(&["-o", "json", "proposals", "accept", &page]).await;
    assert_eq!((contrary.code, contrary.json()["decision"]["by"].as_str()), (Some(4), Some("bob")));
    assert_eq!(world.export().await, export, "what is decided is decided");
    let listed = world.ask(&["proposals", "list", "--status", "refused"]).await;
    assert_eq!(listed[0]["decision"]["reason"], "nobody is paged any more");
    let nobody = "ffffffff-ffff-8fff-bfff-ffffffffffff";
    assert_eq!(world.retro(&["proposals", "accept", nobody]).await.code, Some(3));
    world.sound().await;
    world.stop().await;
}

/// Law 6, from outside: the run was seen by a person's look and by the automatic one, and is one run.
#[tokio::test]
async fn a_run_that_both_passes_look_at_confirms_nothing() {
    // One run in ten teaches something, and every run of the window is sampled.
    let mut world = World::empty();
    world.write_policy("[policy]\nsample_permille = 1000\nsample_runs_max = 10\n");
    world.up().await;
    let quiet = |n: u64| Run::new(WORKFLOW, &format!("release-{n}")).told("Nothing to do.").event();
    let mut runs: Vec<Value> = (1..10).map(quiet).collect();
    runs.insert(0, mending(WORKFLOW, "deploy_service", 0..1).remove(0));
    world.emit("default", "nine.jsonl", &runs[..9]).await;
    let id = text(&trigger(&world, "release-0", "deploy").await, "retrospective").to_owned();
    let proposal = text(&proposed(&world, &id, 1).await[0]["proposal"], "id").to_owned();
    let accepted = world.ask(&["proposals", "accept", &proposal]).await;
    let memory = text(&accepted["decision"], "memory").to_owned();
    world.emit("default", "tenth.jsonl", &runs[9..]).await;
    automatic_report(&world, 1).await;
    let shown = world.ask(&["memories", "show", &memory]).await;
    assert_eq!((&shown["observed_runs"], &shown["status"]), (&json!(1), &json!("active")));
    world.sound().await;
    world.stop().await;
}

#[tokio::test]
async fn a_tombstone_stops_an_acceptance_until_a_reason_overrides_it() {
    let mut world = World::start().await;
    world.emit("default", "runs.jsonl", &mending(WORKFLOW, "deploy_service", 0..10)).await;
    let memory = text(&world.ask(&["memories", "list"]).await[0], "id").to_owned();
    world.ask(&["memories", "delete", &memory, "--reason", "the tool asks by itself now"]).await;
    let id = text(&trigger(&world, "release-0,release-1", "deploy").await, "retrospective").to_owned();
    let proposal = text(&proposed(&world, &id, 1).await[0]["proposal"], "id").to_owned();
    let stopped = world.retro(&["proposals", "accept", &proposal]).await;
    assert_eq!(stopped.code, Some(1));
    assert!(stopped.err.contains("the tool asks by itself now"), "{stopped:?}");
    let despite = ["proposals", "accept", &proposal, "--despite-tombstone", "it asks no more"];
    let accepted = world.ask(&despite).await;
    let made = text(&accepted["decision"], "memory").to_owned();
    assert_ne!(made, memory);
    let why = world.ask(&["memories", "why", &made]).await.to_string();
    assert!(why.contains("despite a tombstone: it asks no more"), "{why}");
    world.sound().await;
    world.stop().await;
}

#[tokio::test]
async fn over_http_the_same_is_asked_and_decided_and_another_tenant_sees_nothing() {
    let mut world = World::start().await;
    world.emit("acme", "runs.jsonl", &mending(WORKFLOW, "deploy_service", 0..2)).await;
    let body = json!({"workflow": WORKFLOW, "runs": ["release-0", "release-1"], "by": "ada"});
    let (status, foreign) = world.post("default", "/v1/retrospectives", &body).await;
    assert_eq!(status, 400, "{foreign}");
    assert!(foreign.to_string().contains("there is no run release-0"), "{foreign}");
    let (status, opened) = world.post("acme", "/v1/retrospectives", &body).await;
    assert_eq!((status, &opened["opened"]), (200, &json!(true)), "{opened}");
    let (status, again) = world.post("acme", "/v1/retrospectives", &body).await;
    assert_eq!(
        (status, &again["opened"], &again["retrospective"]),
        (200, &json!(false), &opened["retrospective"])
    );
    let listed = world
        .until("the proposal", async || {
            let (_, body) = world.get("acme", "/v1/proposals").await;
            let body: Value = serde_json::from_str(&body).ok()?;
            (!items(&body["items"]).is_empty()).then_some(body)
        })
        .await;
    let id = text(&listed["items"][0]["proposal"], "id");
    let (status, nothing) = world.get("default", "/v1/proposals").await;
    assert_eq!((status, nothing.as_str()), (200, r#"{"items":[],"more":false}"#));
    let path = |id: &str| format!("/v1/proposals/{id}");
    let accept = format!("{}/accept", path(id));
    assert_eq!(world.post("default", &accept, &json!({"by": "eve"})).await.0, 404, "not theirs to decide");
    let (status, decided) = world.post("acme", &accept, &json!({"by": "ada"})).await;
    assert_eq!((status, &decided["now"]), (200, &json!(true)), "{decided}");
    let refuse = format!("{}/refuse", path(id));
    let (status, problem) = world.post("acme", &refuse, &json!({"reason": "no", "by": "bob"})).await;
    assert_eq!(status, 409, "{problem}");
    assert!(problem.to_string().contains("it was already accepted by ada"), "{problem}");
    world.sound().await;
    world.stop().await;
}

async fn trigger(world: &World, runs: &str, focus: &str) -> Value {
    let command = ["retrospectives", "trigger", "--workflow", WORKFLOW, "--runs", runs, "--focus", focus];
    world.ask(&command).await
}

/// Waits until a manual retrospective has its report, and so many proposals.
async fn proposed(world: &World, id: &str, proposals: usize) -> Value {
    let closed = async || {
        let shown = world.ask(&["retrospectives", "show", id]).await;
        (shown["retrospective"]["state"] == "closed").then_some(())
    };
    world.until("the manual retrospective is closed", closed).await;
    world.still().await;
    let listed = world.ask(&["proposals", "list", "--retrospective", id]).await;
    assert_eq!(items(&listed).len(), proposals, "{listed}");
    listed
}

async fn automatic_report(world: &World, epoch: u64) -> Value {
    let rows = world.ask(&["retrospectives", "list"]).await;
    let found = items(&rows).iter().find(|row| row["retrospective"]["epoch"] == json!(epoch));
    let id = text(&found.expect("the window was full")["retrospective"], "id").to_owned();
    world.ask(&["reports", "show", &id]).await
}

fn two_lessons(id: &str) -> Value {
    let run = Run::new(WORKFLOW, id).told("Deploy the service and page its owner.");
    run.mends("deploy_service", "region").mends("page_the_owner", "urgency").event()
}
