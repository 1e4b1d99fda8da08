//! GitHub's webhooks, over HTTP to what the broker keeps and what is counted.

use serde_json::{Value, json};

use crate::world::{BRIDGED, SECRET, Webhook, World, items, real, text};

async fn bridged() -> World {
    let mut world = World::empty();
    world.up_with(&BRIDGED).await;
    world
}

#[tokio::test]
async fn a_signed_webhook_is_one_event_of_its_tenant_and_an_unsigned_one_is_nothing() {
    let mut world = bridged().await;
    let forged = Webhook::real("pull_request_review", "delivery-0", "submitted").signed_by("guessed");
    let (status, problem) = world.webhook(&forged).await;
    assert_eq!((status, text(&problem, "title")), (401, "the webhook is not signed by a known secret"));
    assert_eq!(world.github_messages().await, []);

    let kinds = [
        ("pull_request", "opened"),
        ("pull_request_review", "submitted"),
        ("pull_request_review_comment", "created"),
        ("pull_request_review_thread", "unresolved"),
        ("issue_comment", "on-pull-request"),
    ];
    for (event, file) in kinds {
        let (status, answer) = world.webhook(&Webhook::real(event, event, file)).await;
        assert_eq!((status, &answer), (202, &json!({"outcome": "taken"})), "{event}");
    }
    let mut push = real("push", "push");
    push["commits"][0]["message"] = json!("Fix it\n\nRetro-Run: run-17\n");
    assert_eq!(world.webhook(&Webhook::new("push", "push", &push)).await.0, 202);

    let told = world.github_messages().await;
    let subjects: Vec<&str> = told.iter().map(|message| message.subject.as_str()).collect();
    let wanted = kinds.iter().map(|(event, _)| *event).chain(["push"]);
    assert_eq!(subjects, wanted.map(|event| format!("retro.github.acme.{event}")).collect::<Vec<_>>());
    let review: Value = serde_json::from_slice(&told[1].payload).expect("JSON");
    assert_eq!(
        (text(&review, "id"), text(&review, "type")),
        ("pull_request_review", "dev.retrospect.github.pull_request_review.v1")
    );
    assert_eq!(
        (text(&review["data"], "repo"), text(&review["data"]["review"], "state")),
        ("acme/shop", "commented")
    );
    let push: Value = serde_json::from_slice(&told[5].payload).expect("JSON");
    assert_eq!(push["data"]["commits"][0]["runs"], json!(["run-17"]));
    world.stop().await;
}

#[tokio::test]
async fn what_is_nobodys_or_not_used_is_answered_well_and_told_once() {
    let mut world = bridged().await;
    for delivery in ["1", "2"] {
        let mut elsewhere = real("pull_request", "opened");
        elsewhere["repository"]["full_name"] = json!("other/shop");
        let (status, answer) = world.webhook(&Webhook::new("pull_request", delivery, &elsewhere)).await;
        assert_eq!((status, text(&answer, "outcome")), (200, "unmapped"));
    }
    let told_once =
        world.log().matches("github.com/other/shop (installation 1) belongs to no tenant").count();
    assert_eq!(told_once, 1, "{}", world.log());
    for (event, file, outcome) in
        [("ping", "ping", "ping"), ("issue_comment", "on-issue", "not_taken"), ("push", "push", "not_taken")]
    {
        let (status, answer) = world.webhook(&Webhook::real(event, event, file)).await;
        assert_eq!((status, text(&answer, "outcome")), (200, outcome), "{event}");
    }
    assert_eq!(world.webhook(&Webhook::new("star", "star", &json!({}))).await.0, 200);
    assert_eq!(world.github_messages().await, []);
    let (_, metrics) = world.get("default", "/metrics").await;
    for (event, outcome, times) in [
        ("pull_request", "unmapped", 2),
        ("ping", "ping", 1),
        ("push", "not_taken", 1),
        ("other", "not_taken", 1),
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
async fn a_workflow_of_github_that_is_over_is_counted_once_however_often_it_is_delivered() {
    let mut world = bridged().await;
    let run = Webhook::real("workflow_run", "delivery-1", "completed");
    for _ in 0..2 {
        assert_eq!(world.webhook(&run).await.0, 202);
    }
    let again = Webhook { delivery: "delivery-2".to_owned(), ..run };
    assert_eq!(world.webhook(&again).await.0, 202);
    world.counted("acme", 1).await;
    world.still().await;
    let runs = world.ask(&["--tenant", "acme", "runs"]).await;
    let [run] = items(&runs) else { panic!("{runs}") };
    assert_eq!(text(&run["key"], "workflow"), "github.com/acme/shop/test.yml");
    let facts = ["run_id", "outcome", "repo"].map(|fact| text(&run["facts"], fact));
    assert_eq!(facts, ["4900979072", "failure", "acme/shop"]);
    assert_eq!(items(&world.ask(&["--tenant", "acme", "dead-letters", "list"]).await).len(), 0);
    world.sound().await;
    world.stop().await;
}

#[tokio::test]
async fn without_a_broker_a_delivery_fails_and_delivered_again_it_arrives() {
    let mut world = bridged().await;
    let comment = Webhook::real("issue_comment", "delivery-1", "on-pull-request");
    // Its supervisor is quick: now and then a webhook finds it back already.
    let refused = world
        .until("a webhook meets no broker", async || {
            world.broker()?.kill();
            let answered = world.webhook(&comment).await;
            (answered.0 != 202).then_some(answered)
        })
        .await;
    assert_eq!(refused.0, 503, "{refused:?}");
    assert!(["broker_away", "outcome_unknown"].contains(&text(&refused.1, "code")), "{refused:?}");
    let taken = async || {
        let answered = world.webhook(&comment).await;
        assert!([202, 503].contains(&answered.0), "{answered:?}");
        (answered.0 == 202).then_some(())
    };
    world.until("the webhook is taken", taken).await;
    let told = world.github_messages().await;
    assert!(!told.is_empty(), "what was answered 202 is there");
    assert!(
        told.iter().all(|one| String::from_utf8_lossy(&one.payload).contains("\"delivery-1\"")),
        "under one identity"
    );
    world.stop().await;
}

/// A team's secret that leaks lets nobody speak for another team.
#[tokio::test]
async fn a_tenants_own_secret_says_nothing_of_anothers_repositories() {
    const OWN: &str = "known to GitHub and to one team";
    let mut world = World::empty();
    let secrets = world.write("secrets", format!("other = {OWN}\n"));
    let tenants = ("RETRO_GITHUB_TENANTS", "acme/* = acme, theirs/* = other");
    let own = ("RETRO_GITHUB_TENANT_SECRETS_FILE", secrets.as_str());
    world.up_with(&[BRIDGED[0], BRIDGED[1], tenants, own]).await;
    let mut theirs = real("pull_request", "opened");
    theirs["repository"]["full_name"] = json!("theirs/shop");
    let theirs = Webhook::new("pull_request", "1", &theirs);
    let acmes = Webhook::real("pull_request", "2", "opened");
    let (status, unmapped) = world.webhook(&acmes.clone().signed_by(OWN)).await;
    assert_eq!((status, text(&unmapped, "outcome")), (200, "unmapped"));
    assert!(
        world.log().contains("belongs to the tenant acme, but its webhook was signed"),
        "{}",
        world.log()
    );
    let mut nobodys = real("pull_request", "opened");
    nobodys["repository"]["full_name"] = json!("nobody/shop");
    let nobodys = world.webhook(&Webhook::new("pull_request", "3", &nobodys).signed_by(OWN)).await;
    assert_eq!(nobodys, (200, unmapped), "whose it is cannot be told from the answer");
    for (webhook, secret) in [(&theirs, OWN), (&theirs, SECRET), (&acmes, SECRET)] {
        assert_eq!(world.webhook(&webhook.clone().signed_by(secret)).await.0, 202, "positive control");
    }
    let told = world.github_messages().await;
    let subjects: Vec<&str> = told.iter().map(|message| message.subject.as_str()).collect();
    let [other, acme] = ["retro.github.other.pull_request", "retro.github.acme.pull_request"];
    assert_eq!(subjects, [other, other, acme]);
    world.stop().await;
}

#[tokio::test]
async fn while_secrets_are_changed_both_hold_and_without_one_there_is_no_bridge() {
    let mut world = World::empty();
    let secrets = world.write("secrets", format!("{SECRET}\nthe next secret\n"));
    let (listen, tenants) = (BRIDGED[0], BRIDGED[2]);
    world.up_with(&[listen, tenants, ("RETRO_GITHUB_SECRET_FILE", &secrets)]).await;
    let webhook = Webhook::real("pull_request", "1", "opened");
    assert_eq!(world.webhook(&webhook).await.0, 202);
    assert_eq!(world.webhook(&webhook.clone().signed_by("the next secret")).await.0, 202);
    assert_eq!(world.webhook(&webhook.clone().signed_by("the one before")).await.0, 401);
    world.stop().await;

    let mut serve = world.command(&["serve", "--role", "bridge"]);
    let refused = crate::world::carry_out(serve.env("NATS_URL", "nats://127.0.0.1:1")).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("github_secret"), "{refused:?}");
    let doctor = world.retro(&["doctor"]).await;
    assert!(doctor.out.contains("none are accepted: github_secret is not set"), "{doctor:?}");
}
