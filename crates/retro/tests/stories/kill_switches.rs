//! A person stops that memories are handed out, and goes on.

use serde_json::{Value, json};

use crate::world::{DatabaseKind, Fleet, World, build_correcting_runs, json_items, json_text};

const WORKFLOW: &str = "release";

/// Returns the number of memories that the next run of a step gets, and the reason if it gets none.
async fn ask(world: &World, tenant: &str, step: &str) -> (usize, String) {
    let question = json!({"workflow": WORKFLOW, "step": step, "run_id": "next"});
    let answer = world.fetch_context(tenant, &question).await;
    let reason = answer["reason"].as_str().unwrap_or_default().to_owned();
    (json_items(&answer["memories"]).len(), reason)
}

#[tokio::test]
async fn a_kill_switch_stops_a_step_a_workflow_a_tenant_or_everybody() {
    let mut world = World::empty();
    world.write_policy("[context]\nwithhold_permille = 0\n");
    world.up().await;
    for tenant in ["default", "acme"] {
        let runs = build_correcting_runs(WORKFLOW, "deploy_service", 0..10);
        world.emit_and_wait(tenant, &format!("{tenant}.jsonl"), &runs).await;
        assert_eq!(ask(&world, tenant, "deploy").await.0, 1, "positive control");
    }
    let memories = world.run_json(&["memories", "list"]).await;
    let memory = format!("/v1/memories/{}", json_text(&json_items(&memories)[0], "id"));
    let search = format!("/v1/memories/search?workflow={WORKFLOW}&step=deploy&query=deploy_service");
    let is_shown = async |path: &str| {
        let (status, body) = world.get("default", path).await;
        assert_eq!(status, 200, "{body}");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        body["memory"].is_object() || body["memories"].as_array().is_some_and(|all| !all.is_empty())
    };
    let set = async |state: &str, scope: &[&str]| {
        let command =
            [&["kill-switches", state][..], scope, &["--reason", "an incident", "--by", "ada"]].concat();
        world.run_json(&command).await
    };
    let scopes: [(&[&str], &str, bool); 4] = [
        (&["--workflow", WORKFLOW, "--step", "deploy"], "step deploy of workflow release", false),
        (&["--workflow", WORKFLOW], "workflow release", false),
        (&["--whole-tenant"], "tenant default", false),
        (&["--every-tenant"], "every tenant", true),
    ];
    for (scope, named, is_for_others) in scopes {
        assert!(is_shown(&memory).await && is_shown(&search).await, "positive control");
        assert_eq!(set("engage", scope).await["status"], "done", "{named}");
        let reason = format!("no memories: a person has switched them off for {named}");
        assert_eq!(ask(&world, "default", "deploy").await, (0, reason));
        assert!(!is_shown(&memory).await && !is_shown(&search).await, "{named}");
        assert_eq!(ask(&world, "acme", "deploy").await.0, usize::from(!is_for_others), "{named}");
        let other_step = ask(&world, "default", "another").await.1;
        assert_eq!(
            other_step.contains("switched them off"),
            !scope.contains(&"--step"),
            "{named}: {other_step}"
        );
        assert_eq!(set("engage", scope).await["status"], "already_done", "{named}");
        let listed = world.run_json(&["kill-switches"]).await;
        assert_eq!((json_items(&listed).len(), &listed[0]["engaged"]["by"]), (1, &json!("ada")), "{listed}");
        assert_eq!(set("disengage", scope).await["status"], "done", "{named}");
        assert_eq!(ask(&world, "default", "deploy").await.0, 1, "{named}");
    }
    // Over HTTP a person stops his own tenant, and does not learn why everybody was stopped.
    let request = json!({"state": "engaged", "reason": "an incident", "by": "bob"});
    let (status, answer) = world.post_json("acme", "/v1/kill-switches", &request).await;
    assert_eq!((status, &answer["status"]), (200, &json!("done")), "{answer}");
    assert_eq!((ask(&world, "acme", "deploy").await.0, ask(&world, "default", "deploy").await.0), (0, 1));
    let (_, listed) = world.get("acme", "/v1/kill-switches").await;
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let by: Vec<_> = json_items(&listed["items"]).iter().map(|one| one["engaged"]["by"].clone()).collect();
    assert_eq!(by, ["bob", "the operators"], "{listed}");
    let (status, answer) = world
        .post_json("acme", "/v1/kill-switches", &json!({"state": "engaged", "step": "s", "reason": "r"}))
        .await;
    assert_eq!((status, &answer["path"]), (400, &json!("step")), "{answer}");
    let nothing = world.run_retro(&["kill-switches", "engage", "--reason", "which?"]).await;
    assert_eq!(nothing.code, Some(2), "the whole tenant has to be named: {nothing:?}");
    world.verify_store().await;
    world.stop().await;
}

/// A gateway that stands still hands out nothing when it goes on.
#[tokio::test]
async fn a_kill_switch_stops_each_gateway_of_a_fleet() {
    let mut fleet =
        Fleet::start(DatabaseKind::Postgres, &[("counter,sampler,investigator,writer,relay", 1)]).await;
    let mut gateways = Vec::new();
    for _ in 0..2 {
        let nth = fleet.serve("gateway");
        gateways.push((nth, fleet.http_url().to_owned()));
        fleet.wait_until_ready(nth).await;
    }
    fleet
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..10))
        .await;
    let http = retro_eval::http_client::configure_client().build().expect("a client");
    let ask = async |url: &str| {
        let question = json!({"workflow": WORKFLOW, "step": "deploy"});
        let request = http.post(format!("{url}/v1/context")).json(&question);
        let answer: Value = request.send().await.expect("an answer").json().await.expect("JSON");
        json_items(&answer["memories"]).len()
    };
    for (_, url) in &gateways {
        // Often enough for the gateway to have a lease.
        for _ in 0..200 {
            assert_eq!(ask(url).await, 1, "positive control");
        }
    }
    let (still, still_url) = &gateways[1];
    fleet.freeze_between_writes(*still).await;
    let engage = ["kill-switches", "engage", "--workflow", WORKFLOW, "--reason", "an incident"];
    assert_eq!(fleet.run_json(&engage).await["status"], "done");
    assert_eq!(ask(&gateways[0].1).await, 0);
    fleet.resume(*still);
    assert_eq!(ask(still_url).await, 0, "it has stood still with the memory");
    fleet.stop_all().await;
}
