//! Runs publishers that send the same runs at the same time, each in a different order.

use serde_json::{Value, json};

use super::wait_until_intake_drained;
use crate::world::{DatabaseKind, Fleet, NatsConnection, RawMessage, RunBuilder, json_items, json_text};

/// Number of runs before the one that fills the window.
const RUNS: u64 = 30;

#[tokio::test]
async fn publishers_in_any_order_with_and_without_message_ids_leave_each_run_once_on_a_shared_file() {
    publish_in_any_order(DatabaseKind::Sqlite).await;
}

#[tokio::test]
async fn publishers_in_any_order_with_and_without_message_ids_leave_each_run_once_on_postgres() {
    publish_in_any_order(DatabaseKind::Postgres).await;
}

/// Every run has two attempts, one event each. Four publishers send all of them at once to two counters:
/// forwards, backwards (so the second attempt comes first), starting in the middle, and twice with message
/// ids.
async fn publish_in_any_order(kind: DatabaseKind) {
    let mut fleet = Fleet::start(kind, &[]).await;
    fleet.write_policy("[trigger]\nthreshold_runs = 31\n");
    for roles in ["counter", "counter", "sampler,investigator,writer,relay"] {
        let nth = fleet.serve(roles);
        fleet.wait_until_ready(nth).await;
    }
    let forwards: Vec<Value> =
        (0..RUNS).flat_map(|run| [build_attempt(run, 1), build_attempt(run, 2)]).collect();
    let backwards: Vec<Value> = forwards.iter().rev().cloned().collect();
    let mut from_the_middle = forwards.clone();
    from_the_middle.rotate_left(forwards.len() / 2);
    let files = [("forwards", &forwards), ("backwards", &backwards), ("middle", &from_the_middle)];
    let mut publishers = Vec::new();
    for (name, events) in files {
        let file = fleet.write_events(&format!("{name}.jsonl"), events);
        publishers.push(tokio::spawn(fleet.command(&["emit", &file]).output()));
    }
    let mut wire = NatsConnection::connect(fleet.nats_url()).await;
    for event in backwards.iter().flat_map(|event| [event, event]) {
        let stored = wire.publish(&with_message_id(event)).await;
        assert!(stored["seq"].is_u64(), "{stored}");
    }
    for publisher in publishers {
        let sent = publisher.await.expect("the task does not panic").expect("the command starts");
        assert!(sent.status.success(), "{sent:?}\n{}", fleet.log_tail());
    }
    wait_until_intake_drained(&fleet).await;
    fleet.wait_until_counted("default", RUNS).await;
    let runs = fleet.run_json(&["runs", "--limit", "1000"]).await;
    for run in json_items(&runs) {
        assert_eq!(
            (&run["facts"]["attempt"], json_text(&run["facts"], "outcome")),
            (&json!(2), "success"),
            "{run}"
        );
    }
    let mut ordinals: Vec<_> =
        json_items(&runs).iter().map(|run| run["ordinal"].as_u64().expect("counted")).collect();
    ordinals.sort_unstable();
    assert_eq!(ordinals, (1..=RUNS).collect::<Vec<_>>());
    assert_eq!(fleet.run_json(&["retrospectives", "list"]).await, json!([]), "the window is not full");

    // One more run fills the window. Later events of a claimed run change nothing.
    let file = fleet.write_events("last.jsonl", &[build_attempt(RUNS, 1)]);
    fleet.run_json(&["emit", &file]).await;
    fleet.wait_until_counted("default", RUNS + 1).await;
    fleet.wait_until_idle().await;
    let before = fleet.export_canonical().await;
    let file = fleet.write_events("again.jsonl", &backwards);
    fleet.run_json(&["emit", &file]).await;
    wait_until_intake_drained(&fleet).await;
    assert_eq!(fleet.export_canonical().await, before);
    let checked = fleet.verify_store().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(RUNS + 1), &json!(1)), "{checked}");
    assert_eq!(fleet.run_json(&["dead-letters", "list"]).await, json!([]));
    assert_ne!(fleet.run_json(&["memories", "list"]).await, json!([]), "something was learned");
    fleet.stop_all().await;
}

/// Returns the event of an attempt: the first failed, the second succeeded.
fn build_attempt(run: u64, attempt: u64) -> Value {
    let id = format!("release-{run}");
    let mut event = RunBuilder::new("release", &id)
        .with_message("Deploy the service.")
        .with_corrected_call("deploy_service", "region")
        .build_event();
    event["id"] = json!(format!("attempt {attempt} of {id}"));
    event["data"]["attempt"] = json!(attempt);
    event["data"]["outcome"] = json!(if attempt == 1 { "failure" } else { "success" });
    event
}

fn with_message_id(event: &Value) -> RawMessage {
    let headers = [("Content-Type", "application/cloudevents+json"), ("Nats-Msg-Id", json_text(event, "id"))];
    RawMessage {
        subject: "retro.run.completed.default.release".to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        payload: event.to_string().into_bytes(),
    }
}
