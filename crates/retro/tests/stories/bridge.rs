//! Follows GitHub's webhooks from HTTP to the broker's messages and the counted runs.

use serde_json::{Value, json};

use crate::world::{BRIDGE_ENV, WEBHOOK_SECRET, Webhook, World, json_items, json_text, load_payload};

async fn start_bridged_world() -> World {
    let mut world = World::empty();
    world.up_with_env(&BRIDGE_ENV).await;
    world
}

#[tokio::test]
async fn a_signed_webhook_becomes_one_event_of_its_tenant_and_an_unsigned_one_none() {
    let mut world = start_bridged_world().await;
    let forged = Webhook::from_fixture("pull_request_review", "delivery-0", "submitted").signed_by("guessed");
    let (status, problem) = world.post_webhook(&forged).await;
    assert_eq!((status, json_text(&problem, "title")), (401, "the webhook is not signed by a known secret"));
    assert_eq!(world.list_github_messages().await, []);

    let kinds = [
        ("pull_request", "opened"),
        ("pull_request_review", "submitted"),
        ("pull_request_review_comment", "created"),
        ("pull_request_review_thread", "unresolved"),
        ("issue_comment", "on-pull-request"),
    ];
    for (event, file) in kinds {
        let (status, answer) = world.post_webhook(&Webhook::from_fixture(event, event, file)).await;
        assert_eq!((status, &answer), (202, &json!({"outcome": "accepted"})), "{event}");
    }
    let mut push = load_payload("push", "push");
    push["commits"][0]["message"] = json!("Fix it\n\nRetro-Run: run-17\n");
    assert_eq!(world.post_webhook(&Webhook::new("push", "push", &push)).await.0, 202);

    let messages = world.list_github_messages().await;
    let subjects: Vec<&str> = messages.iter().map(|message| message.subject.as_str()).collect();
    let expected_events = kinds.iter().map(|(event, _)| *event).chain(["push"]);
    assert_eq!(
        subjects,
        expected_events.map(|event| format!("retro.github.acme.{event}")).collect::<Vec<_>>()
    );
    let review: Value = serde_json::from_slice(&messages[1].payload).expect("JSON");
    assert_eq!(
        (json_text(&review, "id"), json_text(&review, "type")),
        ("pull_request_review", "dev.retrospect.github.pull_request_review.v1")
    );
    assert_eq!(
        (json_text(&review["data"], "repo"), json_text(&review["data"]["review"], "state")),
        ("acme/shop", "commented")
    );
    let push: Value = serde_json::from_slice(&messages[5].payload).expect("JSON");
    assert_eq!(push["data"]["commits"][0]["runs"], json!(["run-17"]));
    world.stop().await;
}

#[tokio::test]
async fn unmapped_or_irrelevant_webhooks_get_200_and_are_logged_once() {
    let mut world = start_bridged_world().await;
    for delivery in ["1", "2"] {
        let mut elsewhere = load_payload("pull_request", "opened");
        elsewhere["repository"]["full_name"] = json!("other/shop");
        let (status, answer) = world.post_webhook(&Webhook::new("pull_request", delivery, &elsewhere)).await;
        assert_eq!((status, json_text(&answer, "outcome")), (200, "unmapped"));
    }
    let logged_once =
        world.log_tail().matches("github.com/other/shop (installation 1) belongs to no tenant").count();
    assert_eq!(logged_once, 1, "{}", world.log_tail());
    for (event, file, outcome) in
        [("ping", "ping", "ping"), ("issue_comment", "on-issue", "ignored"), ("push", "push", "ignored")]
    {
        let (status, answer) = world.post_webhook(&Webhook::from_fixture(event, event, file)).await;
        assert_eq!((status, json_text(&answer, "outcome")), (200, outcome), "{event}");
    }
    assert_eq!(world.post_webhook(&Webhook::new("star", "star", &json!({}))).await.0, 200);
    assert_eq!(world.list_github_messages().await, []);
    let (_, metrics) = world.get("default", "/metrics").await;
    for (event, outcome, times) in [
        ("pull_request", "unmapped", 2),
        ("ping", "ping", 1),
        ("push", "ignored", 1),
        ("other", "ignored", 1),
    ] {
        let line = metrics.lines().find(|line| {
            line.starts_with("retro_github_deliveries_total{")
                && line.contains(&format!("\"{event}\""))
                && line.contains(&format!("\"{outcome}\""))
        });
        let count = line.and_then(|line| line.rsplit(' ').next());
        assert_eq!(count, Some(times.to_string().as_str()), "{event} {outcome}: {metrics}");
    }
    assert!(!metrics.contains("other/shop"));
    world.stop().await;
}

#[tokio::test]
async fn a_github_workflow_run_is_recorded_once_however_often_it_is_delivered_and_a_rerun_updates_it() {
    let mut world = start_bridged_world().await;
    let run = Webhook::from_fixture("workflow_run", "delivery-1", "completed");
    for _ in 0..2 {
        assert_eq!(world.post_webhook(&run).await.0, 202);
    }
    let again = Webhook { delivery: "delivery-2".to_owned(), ..run };
    assert_eq!(world.post_webhook(&again).await.0, 202);
    let runs = wait_for_runs(&world, 1, |runs| runs.len() == 1).await;
    let run = &runs[0];
    assert_eq!(json_text(&run["key"], "workflow"), "github.com/acme/shop/test.yml");
    let facts = ["run_id", "outcome", "repo"].map(|fact| json_text(&run["facts"], fact));
    assert_eq!(facts, ["4900979072", "failure", "acme/shop"]);
    assert_eq!((&run["ordinal"], json_text(run, "not_counted")), (&Value::Null, "outcome_only"));

    let mut rerun = load_payload("workflow_run", "completed");
    rerun["workflow_run"]["run_attempt"] = json!(2);
    rerun["workflow_run"]["conclusion"] = json!("success");
    let rerun = Webhook::new("workflow_run", "delivery-3", &rerun);
    assert_eq!(world.post_webhook(&rerun).await.0, 202);
    let runs = wait_for_runs(&world, 1, |runs| runs[0]["facts"]["attempt"] == 2).await;
    assert_eq!(json_text(&runs[0]["facts"], "outcome"), "success");
    assert_eq!(world.post_webhook(&again).await.0, 202, "the first attempt once more changes nothing");
    world.wait_until_idle().await;
    assert_eq!(wait_for_runs(&world, 1, |_| true).await, runs);
    let table = world.run_retro(&["--tenant", "acme", "runs"]).await;
    assert!(table.out.contains("not counted: outcome only"), "{table:?}");
    assert_eq!(json_items(&world.run_json(&["--tenant", "acme", "dead-letters", "list"]).await).len(), 0);
    world.stop().await;
}

/// Waits until as many runs of the tenant `acme` are stored and fulfil the condition, and returns them.
async fn wait_for_runs(world: &World, number: usize, done: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let stored = async || {
        let runs = world.run_json(&["--tenant", "acme", "runs"]).await;
        let runs = json_items(&runs).to_vec();
        (runs.len() == number && done(&runs)).then_some(runs)
    };
    world.wait_for("the runs are stored", stored).await
}

#[tokio::test]
async fn runs_of_which_only_the_outcome_is_known_fill_no_window_and_other_runs_without_a_body_do() {
    let mut world = start_bridged_world().await;
    let mut payload = load_payload("workflow_run", "completed");
    for nth in 0..10 {
        payload["workflow_run"]["id"] = json!(nth + 1);
        let webhook = Webhook::new("workflow_run", &format!("ci-{nth}"), &payload);
        assert_eq!(world.post_webhook(&webhook).await.0, 202);
    }
    wait_for_runs(&world, 10, |_| true).await;
    world.wait_until_idle().await;
    let retrospectives = ["--tenant", "acme", "retrospectives", "list"];
    assert_eq!(json_items(&world.run_json(&retrospectives).await).len(), 0);

    let events: Vec<Value> = (0..10).map(|nth| build_bare_run("nightly", nth)).collect();
    for event in &events {
        world.publish_event("acme", "nightly", event).await;
    }
    world.wait_until_counted("acme", 10).await;
    world.wait_until_idle().await;
    assert_eq!(json_items(&world.run_json(&retrospectives).await).len(), 1, "positive control");
    world.verify_store().await;
    world.stop().await;
}

/// Returns the event of a failed run of another emitter, without a body.
pub(crate) fn build_bare_run(workflow: &str, nth: u32) -> Value {
    json!({
        "specversion": "1.0", "type": "dev.retrospect.run.completed.v1", "source": "https://engine", "id": nth.to_string(),
        "data": {"workflow": workflow, "run_id": format!("bare-{nth}"), "outcome": "failure"},
    })
}

#[tokio::test]
async fn a_delivery_without_a_broker_fails_and_its_redelivery_arrives() {
    let mut world = start_bridged_world().await;
    let comment = Webhook::from_fixture("issue_comment", "delivery-1", "on-pull-request");
    // The supervisor is fast: the broker may be back before the webhook arrives.
    let refused = world
        .wait_for("a webhook arrives without a broker", async || {
            world.find_broker()?.kill();
            let answered = world.post_webhook(&comment).await;
            (answered.0 != 202).then_some(answered)
        })
        .await;
    assert_eq!(refused.0, 503, "{refused:?}");
    assert!(["broker_away", "outcome_unknown"].contains(&json_text(&refused.1, "code")), "{refused:?}");
    let is_accepted = async || {
        let answered = world.post_webhook(&comment).await;
        assert!([202, 503].contains(&answered.0), "{answered:?}");
        (answered.0 == 202).then_some(())
    };
    world.wait_for("the webhook is accepted", is_accepted).await;
    let messages = world.list_github_messages().await;
    assert!(!messages.is_empty(), "an event answered with 202 is stored");
    assert!(
        messages.iter().all(|one| String::from_utf8_lossy(&one.payload).contains("\"delivery-1\"")),
        "all have the same event id"
    );
    world.stop().await;
}

/// A team's leaked secret lets nobody post webhooks for another team.
#[tokio::test]
async fn a_tenants_own_secret_is_not_valid_for_another_tenants_repositories() {
    const OWN_SECRET: &str = "known to GitHub and to one team";
    let mut world = World::empty();
    let secrets = world.write_file("secrets", format!("other = {OWN_SECRET}\n"));
    let tenants = ("RETRO_GITHUB_TENANTS", "acme/* = acme, theirs/* = other");
    let own = ("RETRO_GITHUB_TENANT_SECRETS_FILE", secrets.as_str());
    world.up_with_env(&[BRIDGE_ENV[0], BRIDGE_ENV[1], tenants, own]).await;
    let mut other_webhook = load_payload("pull_request", "opened");
    other_webhook["repository"]["full_name"] = json!("theirs/shop");
    let other_webhook = Webhook::new("pull_request", "1", &other_webhook);
    let acme_webhook = Webhook::from_fixture("pull_request", "2", "opened");
    let (status, unmapped) = world.post_webhook(&acme_webhook.clone().signed_by(OWN_SECRET)).await;
    assert_eq!((status, json_text(&unmapped, "outcome")), (200, "unmapped"));
    assert!(
        world.log_tail().contains("belongs to the tenant acme, but its webhook was signed"),
        "{}",
        world.log_tail()
    );
    let mut unmapped_webhook = load_payload("pull_request", "opened");
    unmapped_webhook["repository"]["full_name"] = json!("nobody/shop");
    let unmapped_webhook =
        world.post_webhook(&Webhook::new("pull_request", "3", &unmapped_webhook).signed_by(OWN_SECRET)).await;
    assert_eq!(unmapped_webhook, (200, unmapped), "the answer does not reveal the owner");
    for (webhook, secret) in
        [(&other_webhook, OWN_SECRET), (&other_webhook, WEBHOOK_SECRET), (&acme_webhook, WEBHOOK_SECRET)]
    {
        assert_eq!(world.post_webhook(&webhook.clone().signed_by(secret)).await.0, 202, "positive control");
    }
    let messages = world.list_github_messages().await;
    let subjects: Vec<&str> = messages.iter().map(|message| message.subject.as_str()).collect();
    let [other, acme] = ["retro.github.other.pull_request", "retro.github.acme.pull_request"];
    assert_eq!(subjects, [other, other, acme]);
    world.stop().await;
}

#[tokio::test]
async fn both_secrets_are_valid_during_rotation_and_the_bridge_needs_one() {
    let mut world = World::empty();
    let secrets = world.write_file("secrets", format!("{WEBHOOK_SECRET}\nthe next secret\n"));
    let (listen, tenants) = (BRIDGE_ENV[0], BRIDGE_ENV[2]);
    world.up_with_env(&[listen, tenants, ("RETRO_GITHUB_SECRET_FILE", &secrets)]).await;
    let webhook = Webhook::from_fixture("pull_request", "1", "opened");
    assert_eq!(world.post_webhook(&webhook).await.0, 202);
    assert_eq!(world.post_webhook(&webhook.clone().signed_by("the next secret")).await.0, 202);
    assert_eq!(world.post_webhook(&webhook.clone().signed_by("the one before")).await.0, 401);
    world.stop().await;

    let mut serve = world.command(&["serve", "--role", "bridge"]);
    let refused = crate::world::run_command(serve.env("NATS_URL", "nats://127.0.0.1:1")).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("github_secret"), "{refused:?}");
    let doctor = world.run_retro(&["doctor"]).await;
    assert!(doctor.out.contains("none are accepted: github_secret is not set"), "{doctor:?}");
}
