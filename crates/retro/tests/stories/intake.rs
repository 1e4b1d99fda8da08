//! Runs that come over HTTP.

use serde_json::{Value, json};

use crate::world::{Run, World, items, mending, text};

const SINGLE: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

#[tokio::test]
async fn events_of_every_form_are_counted_and_the_bad_one_of_a_batch_is_named() {
    let mut world = World::start().await;
    let events = mending("release", "deploy_service", 0..10);
    let one = world.post_events("acme", SINGLE, &[], events[0].to_string()).await;
    assert_eq!((one.status, &one.body), (202, &json!({"accepted": 1, "refused": []})), "{one:?}");

    let attributes = ["specversion", "id", "source", "type"].map(|name| (format!("ce-{name}"), name));
    let headers: Vec<_> =
        attributes.iter().map(|(header, name)| (header.as_str(), text(&events[1], name))).collect();
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
    let [refused] = items(&posted.body["refused"]) else { panic!("{posted:?}") };
    assert_eq!(text(refused, "path"), "[3].data.run_id");

    world.counted("acme", 10).await;
    world.still().await;
    let memories = world.ask(&["--tenant", "acme", "memories", "list"]).await;
    assert!(!items(&memories).is_empty(), "what came over HTTP is learned from");
    assert_eq!(items(&world.ask(&["--tenant", "acme", "dead-letters", "list"]).await).len(), 0);
    assert_eq!(items(&world.ask(&["runs"]).await).len(), 0, "nothing went to another tenant");
    world.sound().await;
    world.stop().await;
}

#[tokio::test]
async fn the_same_request_under_a_key_is_answered_again_and_another_one_is_refused() {
    let mut world = World::start().await;
    let events = mending("release", "deploy_service", 0..3);
    let key = [("Idempotency-Key", "night-1")];
    let first = world.post_events("acme", BATCH, &key, Value::from(events.clone()).to_string()).await;
    assert_eq!((first.status, first.replayed), (202, false), "{first:?}");
    let again = world.post_events("acme", BATCH, &key, Value::from(events.clone()).to_string()).await;
    assert_eq!((again.status, again.replayed, &again.body), (202, true, &first.body));
    let other = world.post_events("acme", BATCH, &key, Value::from(&events[..2]).to_string()).await;
    assert_eq!((other.status, &other.body["path"]), (422, &json!("Idempotency-Key")), "{other:?}");
    let elsewhere = world.post_events("other", BATCH, &key, Value::from(&events[..2]).to_string()).await;
    assert_eq!((elsewhere.status, elsewhere.replayed), (202, false), "another tenant's key is another key");
    world.counted("acme", 3).await;
    world.counted("other", 2).await;
    world.stop().await;
}

#[tokio::test]
async fn a_body_of_ten_megabytes_is_stored_apart_and_read_by_its_investigation() {
    let mut world = World::empty();
    world.write_policy("[policy]\nthreshold_runs = 1\n");
    world.up().await;
    let listing = "a line of a long listing\n".repeat(10 * 1024 * 1024 / 25);
    let run = Run::new("release", "release-1").told("Deploy the service.");
    let event = run.call("list_releases", &json!({}), &listing).mends("deploy_service", "region").event();
    let posted = world.post_events("default", SINGLE, &[], event.to_string()).await;
    assert_eq!(posted.status, 202, "{posted:?}");
    world.counted("default", 1).await;
    world.still().await;
    let run = world.ask(&["runs"]).await[0].clone();
    assert_eq!(run["body"]["in"], "object", "{run}");
    let id = world.ask(&["retrospectives", "list"]).await[0]["retrospective"]["id"].clone();
    let report = world.ask(&["reports", "show", id.as_str().unwrap()]).await;
    assert_eq!(
        (&report["ended"], &report["investigations"][0]["result"]),
        (&json!("closed"), &json!("found"))
    );

    let large = Run::new("release", "release-2").told(&"x".repeat(17 * 1024 * 1024)).event();
    let refused = world.post_events("default", SINGLE, &[], large.to_string()).await;
    assert_eq!((refused.status, &refused.body["status"]), (413, &json!(413)), "{refused:?}");
    world.sound().await;
    world.stop().await;
}

#[tokio::test]
async fn without_a_broker_nothing_is_taken_and_what_is_sent_again_is_counted_once() {
    let mut world = World::start().await;
    let batch = Value::from(mending("release", "deploy_service", 0..5)).to_string();
    let key = [("Idempotency-Key", "once")];
    // Its supervisor is quick: now and then a request finds it back already.
    let mut nth = 0;
    let refused = world
        .until("a request meets no broker", async || {
            world.broker()?.kill();
            nth += 1;
            let key = [("Idempotency-Key", format!("{nth}"))];
            let key = key.each_ref().map(|(name, value)| (*name, value.as_str()));
            let posted = world.post_events("acme", BATCH, &key, batch.clone()).await;
            (posted.status != 202).then_some(posted)
        })
        .await;
    assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("1")), "{refused:?}");
    assert!(["broker_away", "outcome_unknown"].contains(&text(&refused.body, "code")), "{refused:?}");
    let taken = async || {
        let posted = world.post_events("acme", BATCH, &key, batch.clone()).await;
        assert!([202, 503].contains(&posted.status), "{posted:?}");
        (posted.status == 202).then_some(posted)
    };
    let taken = world.until("the events are taken", taken).await;
    assert!(!taken.replayed, "a 503 is not kept: {taken:?}");
    world.counted("acme", 5).await;
    world.sound().await;
    world.stop().await;
}
