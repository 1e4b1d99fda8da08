//! Publishers that send the same runs at once, each in another order.

use serde_json::{Value, json};

use super::intake_is_drained;
use crate::world::{Fleet, Kind, Run, Sent, Wire, items, text};

/// Runs before the one that makes the window full.
const RUNS: u64 = 30;

#[tokio::test]
async fn publishers_in_any_order_with_and_without_message_ids_leave_each_run_once_on_a_shared_file() {
    any_order(Kind::Sqlite).await;
}

#[tokio::test]
async fn publishers_in_any_order_with_and_without_message_ids_leave_each_run_once_on_postgres() {
    any_order(Kind::Postgres).await;
}

/// Every run has two attempts, an event each. Four publishers send all of them at once to two counters: forwards,
/// backwards (so that the second attempt comes first), from the middle on, and under message ids, each twice.
async fn any_order(kind: Kind) {
    let mut fleet = Fleet::start(kind, &[]).await;
    fleet.write_policy("[policy]\nthreshold_runs = 31\n");
    for roles in ["counter", "counter", "sampler,investigator,writer,relay"] {
        let nth = fleet.serve(roles);
        fleet.ready(nth).await;
    }
    let forwards: Vec<Value> = (0..RUNS).flat_map(|run| [attempt(run, 1), attempt(run, 2)]).collect();
    let backwards: Vec<Value> = forwards.iter().rev().cloned().collect();
    let mut from_the_middle = forwards.clone();
    from_the_middle.rotate_left(forwards.len() / 2);
    let files = [("forwards", &forwards), ("backwards", &backwards), ("middle", &from_the_middle)];
    let mut publishers = Vec::new();
    for (name, events) in files {
        let file = fleet.write_events(&format!("{name}.jsonl"), events);
        publishers.push(tokio::spawn(fleet.command(&["emit", &file]).output()));
    }
    let mut wire = Wire::to(fleet.nats_url()).await;
    for event in backwards.iter().flat_map(|event| [event, event]) {
        let stored = wire.publish(&under_an_id(event)).await;
        assert!(stored["seq"].is_u64(), "{stored}");
    }
    for publisher in publishers {
        let sent = publisher.await.expect("it is waited for").expect("it starts");
        assert!(sent.status.success(), "{sent:?}\n{}", fleet.log());
    }
    intake_is_drained(&fleet).await;
    fleet.counted("default", RUNS).await;
    let runs = fleet.ask(&["runs", "--limit", "1000"]).await;
    for run in items(&runs) {
        assert_eq!(
            (&run["facts"]["attempt"], text(&run["facts"], "outcome")),
            (&json!(2), "success"),
            "{run}"
        );
    }
    let mut ordinals: Vec<_> =
        items(&runs).iter().map(|run| run["ordinal"].as_u64().expect("counted")).collect();
    ordinals.sort_unstable();
    assert_eq!(ordinals, (1..=RUNS).collect::<Vec<_>>());
    assert_eq!(fleet.ask(&["retrospectives", "list"]).await, json!([]), "the window is not full");

    // One run more, and it is. What comes after that about a claimed run changes nothing.
    let file = fleet.write_events("last.jsonl", &[attempt(RUNS, 1)]);
    fleet.ask(&["emit", &file]).await;
    fleet.counted("default", RUNS + 1).await;
    fleet.still().await;
    let before = fleet.export().await;
    let file = fleet.write_events("again.jsonl", &backwards);
    fleet.ask(&["emit", &file]).await;
    intake_is_drained(&fleet).await;
    assert_eq!(fleet.export().await, before);
    let checked = fleet.sound().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(RUNS + 1), &json!(1)), "{checked}");
    assert_eq!(fleet.ask(&["dead-letters", "list"]).await, json!([]));
    assert_ne!(fleet.ask(&["memories", "list"]).await, json!([]), "something was learned");
    fleet.stop_all().await;
}

/// The first attempt of a run failed, the second did not.
fn attempt(run: u64, attempt: u64) -> Value {
    let id = format!("release-{run}");
    let mut event =
        Run::new("release", &id).told("Deploy the service.").mends("deploy_service", "region").event();
    event["id"] = json!(format!("attempt {attempt} of {id}"));
    event["data"]["attempt"] = json!(attempt);
    event["data"]["outcome"] = json!(if attempt == 1 { "failure" } else { "success" });
    event
}

fn under_an_id(event: &Value) -> Sent {
    let headers = [("Content-Type", "application/cloudevents+json"), ("Nats-Msg-Id", text(event, "id"))];
    Sent {
        subject: "retro.run.completed.default.release".to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        payload: event.to_string().into_bytes(),
    }
}
