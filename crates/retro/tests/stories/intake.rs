//! Runs that come over HTTP.

use serde_json::{Value, json};

use crate::world::{World, items, mending, text};

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
