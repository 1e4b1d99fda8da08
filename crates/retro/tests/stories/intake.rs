//! Tests runs received over HTTP.

use serde_json::{Value, json};

use crate::world::{RunBuilder, World, build_correcting_runs, json_items, json_text};

const SINGLE: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

#[tokio::test]
async fn events_of_every_form_are_counted_and_the_bad_one_of_a_batch_is_named() {
    let mut world = World::start().await;
    let events = build_correcting_runs("release", "deploy_service", 0..10);
    let one = world.post_events("acme", SINGLE, &[], events[0].to_string()).await;
    assert_eq!((one.status, &one.body), (202, &json!({"accepted": 1, "refused": []})), "{one:?}");

    let attributes = ["specversion", "id", "source", "type"].map(|name| (format!("ce-{name}"), name));
    let headers: Vec<_> =
        attributes.iter().map(|(header, name)| (header.as_str(), json_text(&events[1], name))).collect();
    let binary = world.post_events("acme", "application/json", &headers, events[1]["data"].to_string()).await;
    assert_eq!(binary.status, 202, "{binary:?}");

    let mut batch = events[2..].to_vec();
    batch.insert(
        3,
        json!({"specversion": "1.0", "id": "bad", "source": "/tests", "type": events[0]["type"],
        "data": {"workflow": "release", "outcome": "success"}}),
    );
    let posted = world.post_events("acme", BATCH, &[], Value::from(batch).to_string()).await;
    assert_eq!((posted.status, &posted.body["accepted"]), (207, &json!(8)), "{posted:?}");
    let [refused] = json_items(&posted.body["refused"]) else { panic!("{posted:?}") };
    assert_eq!(json_text(refused, "path"), "[3].data.run_id");

    world.wait_until_counted("acme", 10).await;
    world.wait_until_idle().await;
    let memories = world.run_json(&["--tenant", "acme", "memories", "list"]).await;
    assert!(!json_items(&memories).is_empty(), "runs received over HTTP are learned from");
    assert_eq!(json_items(&world.run_json(&["--tenant", "acme", "dead-letters", "list"]).await).len(), 0);
    assert_eq!(json_items(&world.run_json(&["runs"]).await).len(), 0, "nothing went to another tenant");
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn a_repeated_idempotency_key_replays_the_answer_and_refuses_another_request() {
    let mut world = World::start().await;
    let events = build_correcting_runs("release", "deploy_service", 0..3);
    let key = [("Idempotency-Key", "night-1")];
    let first = world.post_events("acme", BATCH, &key, Value::from(events.clone()).to_string()).await;
    assert_eq!((first.status, first.replayed), (202, false), "{first:?}");
    let again = world.post_events("acme", BATCH, &key, Value::from(events.clone()).to_string()).await;
    assert_eq!((again.status, again.replayed, &again.body), (202, true, &first.body));
    let other = world.post_events("acme", BATCH, &key, Value::from(&events[..2]).to_string()).await;
    assert_eq!((other.status, &other.body["path"]), (422, &json!("Idempotency-Key")), "{other:?}");
    let elsewhere = world.post_events("other", BATCH, &key, Value::from(&events[..2]).to_string()).await;
    assert_eq!((elsewhere.status, elsewhere.replayed), (202, false), "another tenant's key is another key");
    world.wait_until_counted("acme", 3).await;
    world.wait_until_counted("other", 2).await;
    world.stop().await;
}

#[tokio::test]
async fn a_body_of_ten_megabytes_is_stored_apart_and_read_by_its_investigation() {
    let mut world = World::empty();
    world.write_policy("[trigger]\nthreshold_runs = 1\n");
    world.up().await;
    let listing = "a line of a long listing\n".repeat(10 * 1024 * 1024 / 25);
    let run = RunBuilder::new("release", "release-1").with_message("Deploy the service.");
    let event = run
        .with_call("list_releases", &json!({}), &listing)
        .with_corrected_call("deploy_service", "region")
        .build_event();
    let posted = world.post_events("default", SINGLE, &[], event.to_string()).await;
    assert_eq!(posted.status, 202, "{posted:?}");
    world.wait_until_counted("default", 1).await;
    world.wait_until_idle().await;
    let run = world.run_json(&["runs"]).await[0].clone();
    assert_eq!(run["body"]["location"], "object", "{run}");
    let id = world.run_json(&["retrospectives", "list"]).await[0]["retrospective"]["id"].clone();
    let report = world.run_json(&["reports", "show", id.as_str().unwrap()]).await;
    assert_eq!(
        (&report["ended"], &report["investigations"][0]["result"]),
        (&json!("closed"), &json!("found"))
    );

    let large =
        RunBuilder::new("release", "release-2").with_message(&"x".repeat(17 * 1024 * 1024)).build_event();
    let refused = world.post_events("default", SINGLE, &[], large.to_string()).await;
    assert_eq!((refused.status, &refused.body["status"]), (413, &json!(413)), "{refused:?}");
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn without_a_broker_nothing_is_accepted_and_resent_events_are_counted_once() {
    let mut world = World::start().await;
    let batch = Value::from(build_correcting_runs("release", "deploy_service", 0..5)).to_string();
    let key = [("Idempotency-Key", "once")];
    // The supervisor is fast: the broker may be back before the request arrives.
    let mut nth = 0;
    let refused = world
        .wait_for("a request arrives without a broker", async || {
            world.find_broker()?.kill();
            nth += 1;
            let key = [("Idempotency-Key", format!("{nth}"))];
            let key = key.each_ref().map(|(name, value)| (*name, value.as_str()));
            let posted = world.post_events("acme", BATCH, &key, batch.clone()).await;
            (posted.status != 202).then_some(posted)
        })
        .await;
    assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("1")), "{refused:?}");
    assert!(["broker_away", "outcome_unknown"].contains(&json_text(&refused.body, "code")), "{refused:?}");
    let accepted = async || {
        let posted = world.post_events("acme", BATCH, &key, batch.clone()).await;
        assert!([202, 503].contains(&posted.status), "{posted:?}");
        (posted.status == 202).then_some(posted)
    };
    let accepted = world.wait_for("the events are accepted", accepted).await;
    assert!(!accepted.replayed, "a 503 is not stored for the key: {accepted:?}");
    world.wait_until_counted("acme", 5).await;
    world.verify_store().await;
    world.stop().await;
}
