//! The broker loses what it had, or believes done what nobody did: consumers are deleted, streams purged, its disk is replaced,
//! somebody acknowledges by hand. Nothing is lost that anybody still has, nothing happens twice, and what is lost is told.

use serde_json::{Value, json};

use crate::world::{BRIDGED, Fleet, Kind, Webhook, Wire, items, mending, real, text};

const INTAKE: &str = "RETRO_INTAKE";
const WORK: &str = "RETRO_WORK";
const OTHERS: &str = "sampler,investigator,writer,relay";
/// Looks come quickly.
const QUICK: [(&str, &str); 1] = [("RETRO_RECONCILE_INTERVAL_MS", "200")];
/// They come so rarely that none comes during a test, but the first one.
const RARE: [(&str, &str); 1] = [("RETRO_RECONCILE_INTERVAL_MS", "3600000")];

#[tokio::test]
async fn what_somebody_acknowledged_without_handling_it_is_counted_all_the_same_once() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let mut fleet = Fleet::start(kind, &[]).await;
        emit(&fleet, "runs.jsonl", &mending("ci", "deploy", 0..5)).await;
        fleet.publish("default", "ci", &json!({"not": "an event"})).await;
        let mut wire = Wire::to(fleet.nats_url()).await;
        for answer in ["+ACK", "+TERM by hand", "+ACK", "+ACK", "+ACK", "+ACK"] {
            wire.take(INTAKE, "counter", answer).await;
        }
        let counter = fleet.serve_with("counter,relay", &QUICK);
        fleet.counted("default", 5).await;
        let letters = fleet.until("its dead letter", async || {
            let letters = fleet.ask(&["dead-letters", "list"]).await;
            (!items(&letters).is_empty()).then_some(letters)
        });
        assert_eq!(items(&letters.await).len(), 1);
        fleet.logged("message 2 done, but it was never handled").await;
        // Another process finds everything accounted for.
        let again = fleet.restart(counter).await;
        emit(&fleet, "more.jsonl", &mending("ci", "deploy", 5..9)).await;
        fleet.counted("default", 9).await;
        assert_eq!(fleet.sound().await["runs"], 9);
        assert_eq!(items(&fleet.ask(&["dead-letters", "list"]).await).len(), 1);
        fleet.stop(again).await;
        fleet.stop_all().await;
    }
}

#[tokio::test]
async fn a_message_that_the_broker_gives_up_on_wakes_the_look_for_it() {
    gives_up("+TERM by hand", &Value::Null).await;
}

/// Somebody has edited our consumer: it gives each message out once.
#[tokio::test]
async fn a_message_that_the_broker_has_given_out_too_often_wakes_the_look_for_it() {
    gives_up("-NAK", &json!({"max_deliver": 1})).await;
}

/// While a counter stands still, somebody else takes the second message of the stream and answers for it, from a consumer
/// that is `edited` before; the broker gives up on it, and it is counted all the same.
async fn gives_up(answer: &str, edited: &Value) {
    let mut fleet = Fleet::start(Kind::Sqlite, &[]).await;
    let counter = fleet.serve_with("counter,relay", &RARE);
    fleet.ready(counter).await;
    emit(&fleet, "first.jsonl", &mending("ci", "deploy", 0..1)).await;
    fleet.counted("default", 1).await;
    // While it stands still its requests at the broker end, and somebody else gets the message.
    fleet.freeze(counter);
    let mut wire = Wire::to(fleet.nats_url()).await;
    let idle = format!("CONSUMER.INFO.{INTAKE}.counter");
    let found = fleet
        .until("its requests have ended", async || {
            let found = wire.ask(&idle, &Value::Null).await;
            (found["num_waiting"] == json!(0)).then_some(found)
        })
        .await;
    let mut config = found["config"].clone();
    for (key, value) in edited.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let edit = json!({"stream_name": INTAKE, "config": config});
    let made = wire.ask(&format!("CONSUMER.DURABLE.CREATE.{INTAKE}.counter"), &edit).await;
    assert_eq!(made["error"], Value::Null, "{made}");
    emit(&fleet, "second.jsonl", &mending("ci", "deploy", 1..2)).await;
    wire.take(INTAKE, "counter", answer).await;
    fleet.wake(counter);
    fleet.counted("default", 2).await;
    fleet.logged("the broker gave up on message 2").await;
    assert_eq!(fleet.ask(&["dead-letters", "list"]).await, json!([]));
    fleet.stop_all().await;
}

#[tokio::test]
async fn consumers_that_are_deleted_under_one_process_are_made_again_and_nothing_is_lost_or_done_twice() {
    let mut fleet = Fleet::start(Kind::Sqlite, &[]).await;
    fleet.up().await;
    emit(&fleet, "before.jsonl", &mending("ci", "deploy", 0..10)).await;
    fleet.counted("default", 10).await;
    fleet.still().await;
    let mut wire = Wire::to(fleet.nats_url()).await;
    delete_consumers(&mut wire).await;
    emit(&fleet, "after.jsonl", &mending("ci", "deploy", 10..20)).await;
    fleet.counted("default", 20).await;
    fleet.still().await;
    everything_once(&fleet, 20, 2).await;
    fleet.logged("created the consumer counter").await;
    fleet.stop_up().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn consumers_that_are_deleted_under_a_fleet_are_told_and_nothing_is_lost_or_done_twice() {
    let fleet = Fleet::start(Kind::Postgres, &[("counter", 1), (OTHERS, 1)]).await;
    emit(&fleet, "before.jsonl", &mending("ci", "deploy", 0..10)).await;
    fleet.counted("default", 10).await;
    fleet.still().await;
    let mut wire = Wire::to(fleet.nats_url()).await;
    delete_consumers(&mut wire).await;
    fleet
        .misses(0, "the broker has no consumer counter of stream RETRO_INTAKE; `retro migrate` creates it")
        .await;
    fleet.misses(1, "the broker has no consumer writer of stream RETRO_WORK").await;
    emit(&fleet, "after.jsonl", &mending("ci", "deploy", 10..20)).await;
    fleet.migrate().await;
    fleet.ready(0).await;
    fleet.counted("default", 20).await;
    fleet.still().await;
    everything_once(&fleet, 20, 2).await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn streams_that_are_deleted_under_one_process_are_made_again_and_work_goes_on() {
    let mut fleet = Fleet::start(Kind::Sqlite, &[]).await;
    fleet.up_with(&QUICK).await;
    emit(&fleet, "before.jsonl", &mending("ci", "deploy", 0..10)).await;
    fleet.counted("default", 10).await;
    fleet.still().await;
    let mut wire = Wire::to(fleet.nats_url()).await;
    for stream in [INTAKE, WORK] {
        delete_stream(&mut wire, stream).await;
    }
    fleet.logged("the stream RETRO_INTAKE was replaced").await;
    emit(&fleet, "after.jsonl", &mending("ci", "deploy", 10..20)).await;
    fleet.counted("default", 20).await;
    fleet.still().await;
    everything_once(&fleet, 20, 2).await;
    fleet.stop_up().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_stream_that_is_deleted_under_a_fleet_is_told_and_what_it_held_is_sent_once_more() {
    let mut fleet = Fleet::start(Kind::Postgres, &[]).await;
    let counter = fleet.serve_with("counter,relay", &QUICK);
    fleet.ready(counter).await;
    // A window that fills up while no sampler runs: its wake-up lies at the broker.
    emit(&fleet, "runs.jsonl", &mending("ci", "deploy", 0..10)).await;
    fleet.counted("default", 10).await;
    unsent(&fleet, 0).await;
    delete_stream(&mut Wire::to(fleet.nats_url()).await, WORK).await;
    fleet.misses(counter, "the broker has no stream RETRO_WORK; `retro migrate` creates it").await;
    fleet.migrate().await;
    fleet.ready(counter).await;
    fleet.logged("1 internal messages are sent again").await;
    // Without a sweep: the wake-up that went with the stream is said again.
    let others = fleet.serve_with("sampler,investigator,writer", &[("RETRO_SWEEP_MS", "600000")]);
    fleet.ready(others).await;
    fleet.still().await;
    everything_once(&fleet, 10, 1).await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_broker_whose_data_is_wiped_is_fed_again_and_what_nobody_counted_is_told_by_name() {
    let mut fleet = Fleet::start(Kind::Sqlite, &[]).await;
    let relay = fleet.serve_with("relay", &QUICK);
    let counter = fleet.serve_with("counter", &QUICK);
    fleet.ready(relay).await;
    fleet.ready(counter).await;
    // A window that fills up while no sampler runs: its wake-up lies at the broker.
    emit(&fleet, "counted.jsonl", &mending("ci", "deploy", 0..10)).await;
    fleet.counted("default", 10).await;
    unsent(&fleet, 0).await;
    fleet.stop(counter).await;
    // Acknowledged, and nobody there who counts.
    emit(&fleet, "waiting.jsonl", &mending("lost", "deploy", 0..3)).await;
    // In one look or in several.
    fleet.logged("to 13; they are recorded by name").await;
    fleet.wipe_broker().await;
    fleet.start_broker().await;
    fleet.migrate().await;
    fleet.logged("the stream RETRO_INTAKE was replaced").await;
    fleet.logged("1 internal messages are sent again").await;
    let looked = fleet.retro(&["doctor", "-o", "json"]).await;
    assert_eq!(looked.code, Some(4), "{looked:?}");
    let told = lost(&looked.json());
    for (nth, position) in [(0, 11), (1, 12), (2, 13)] {
        let name = format!(
            "event \"event of lost-{nth}\" of \"/tests/composed\" of the tenant default, position {position}"
        );
        assert!(told.contains(&name), "{told}");
    }
    fleet.logged("lost with the broker: event \"event of lost-1\"").await;

    // Without a sweep: the wake-up that went with the broker is said again.
    let others = fleet.serve_with("sampler,investigator,writer", &[("RETRO_SWEEP_MS", "600000")]);
    let counter = fleet.serve_with("counter", &QUICK);
    fleet.ready(others).await;
    fleet.ready(counter).await;
    fleet.still().await;
    // Whoever emitted emits again, and it is not lost any more.
    emit(&fleet, "again.jsonl", &[mending("lost", "deploy", 0..3), mending("ci", "deploy", 0..10)].concat())
        .await;
    fleet.counted("default", 13).await;
    everything_once(&fleet, 13, 1).await;
    fleet
        .until("nothing is lost", async || {
            let looked = fleet.retro(&["doctor", "-o", "json"]).await;
            (looked.code == Some(0) && !lost(&looked.json()).contains("event of lost")).then_some(())
        })
        .await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn what_is_purged_from_a_stream_before_anybody_counted_it_is_told_by_name() {
    let mut fleet = Fleet::start(Kind::Postgres, &[]).await;
    let relay = fleet.serve_with("relay", &QUICK);
    fleet.ready(relay).await;
    emit(&fleet, "purged.jsonl", &mending("ci", "deploy", 0..2)).await;
    fleet.logged("to 2; they are recorded by name").await;
    let mut wire = Wire::to(fleet.nats_url()).await;
    let purged = wire.ask(&format!("STREAM.PURGE.{INTAKE}"), &Value::Null).await;
    assert_eq!(purged["purged"], 2, "{purged}");
    fleet.logged("lost with the broker: event \"event of ci-1\"").await;
    let counter = fleet.serve_with("counter", &QUICK);
    fleet.ready(counter).await;
    emit(&fleet, "again.jsonl", &mending("ci", "deploy", 0..2)).await;
    fleet.counted("default", 2).await;
    everything_once(&fleet, 2, 0).await;
    let looked = fleet.retro(&["doctor", "-o", "json"]).await;
    assert!(!lost(&looked.json()).contains("event of ci"), "{looked:?}");
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_loss_that_somebody_closes_with_a_reason_is_kept_and_not_told_as_lost_any_more() {
    let mut fleet = Fleet::start(Kind::Sqlite, &[]).await;
    let relay = fleet.serve_with("relay", &QUICK);
    fleet.ready(relay).await;
    emit(&fleet, "purged.jsonl", &mending("ci", "deploy", 0..2)).await;
    fleet.logged("to 2; they are recorded by name").await;
    let mut wire = Wire::to(fleet.nats_url()).await;
    let purged = wire.ask(&format!("STREAM.PURGE.{INTAKE}"), &Value::Null).await;
    assert_eq!(purged["purged"], 2, "{purged}");
    fleet.logged("lost with the broker: event \"event of ci-1\"").await;
    let listed = fleet.ask(&["losses", "list"]).await;
    let ids: Vec<_> = items(&listed).iter().map(|loss| text(loss, "id")).collect();
    assert_eq!(ids, ["RETRO_INTAKE/1/1", "RETRO_INTAKE/1/2"]);
    let close = ["losses", "close", ids[0], "--by", "ana", "--reason"];
    let refused = fleet.retro(&[&close[..], &[" "]].concat()).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_eq!(fleet.ask(&[&close[..], &["it was a rehearsal"]].concat()).await, json!([ids[0]]));
    let again = fleet.retro(&[&close[..], &["once more"]].concat()).await;
    assert_eq!(again.code, Some(3), "{again:?}");
    let looked = fleet.retro(&["doctor", "-o", "json"]).await;
    let told = lost(&looked.json());
    assert!(
        looked.code == Some(4) && told.contains("event of ci-1") && !told.contains("event of ci-0"),
        "{told}"
    );
    let all = ["losses", "close", "--all", "--by", "ben", "--reason", "nobody misses it"];
    assert_eq!(fleet.ask(&all).await, json!([ids[1]]));
    let looked = fleet.retro(&["doctor", "-o", "json"]).await;
    assert_eq!(looked.code, Some(0), "{looked:?}");
    let told = "nothing that is known by name; 2 closed, see `retro losses list --all`";
    assert_eq!(lost(&looked.json()), told);
    assert_eq!(fleet.ask(&["losses", "list"]).await, json!([]));
    let kept = fleet.ask(&["losses", "list", "--all"]).await;
    let closed: Vec<_> =
        items(&kept).iter().map(|loss| (&loss["closed"]["by"], &loss["closed"]["reason"])).collect();
    assert_eq!(
        closed,
        [(&json!("ana"), &json!("it was a rehearsal")), (&json!("ben"), &json!("nobody misses it"))]
    );
    fleet.stop_all().await;
}

/// GitHub was told that they are taken, and sends none by itself again.
#[tokio::test]
async fn webhooks_that_went_with_the_broker_before_everybody_had_handled_them_are_told_by_name() {
    let mut fleet = Fleet::start(Kind::Sqlite, &[("reviewer", 1)]).await;
    let relay = fleet.serve_with("relay", &QUICK);
    let bridge = fleet.serve_with("bridge", &BRIDGED[1..]);
    fleet.ready(relay).await;
    fleet.ready(bridge).await;
    let mut push = real("push", "push");
    push["commits"][0]["message"] = json!("Fix it\n\nRetro-Run: run-17\n");
    let webhooks = [
        Webhook::real("issue_comment", "a comment", "on-pull-request"),
        Webhook::real("pull_request", "a pull request", "opened"),
        Webhook::new("push", "a push", &push),
    ];
    taken(&fleet, &webhooks).await;
    let mut wire = Wire::to(fleet.nats_url()).await;
    fleet
        .until("the reviewer has handled them", async || {
            let reviewer = wire.ask("CONSUMER.INFO.RETRO_GITHUB.reviewer", &Value::Null).await;
            (reviewer["ack_floor"]["stream_seq"] == json!(3)).then_some(())
        })
        .await;
    // Nobody follows the pull request.
    fleet.logged(" to 3; they are recorded by name").await;
    fleet.wipe_broker().await;
    fleet.start_broker().await;
    fleet.migrate().await;
    fleet.logged("the stream RETRO_GITHUB was replaced").await;
    let looked = fleet.retro(&["doctor", "-o", "json"]).await;
    assert_eq!(looked.code, Some(4), "{looked:?}");
    let told = lost(&looked.json());
    for (delivery, position) in [("a pull request", 2), ("a push", 3)] {
        let name = format!(
            "event {delivery:?} of \"https://github.com/acme/shop\" of the tenant acme, position {position} of RETRO_GITHUB"
        );
        assert!(told.contains(&name), "{told}");
    }
    assert!(!told.contains("a comment"), "it was handled by whoever has to: {told}");
    fleet.logged("lost with the broker: event \"a push\"").await;

    let tracker = fleet.serve("tracker");
    fleet.ready(tracker).await;
    taken(&fleet, &webhooks).await;
    fleet
        .until("nothing is lost", async || {
            let looked = fleet.retro(&["doctor", "-o", "json"]).await;
            (looked.code == Some(0) && !lost(&looked.json()).contains("event")).then_some(())
        })
        .await;
    fleet.stop_all().await;
}

/// Delivers webhooks until each is taken.
async fn taken(fleet: &Fleet, webhooks: &[Webhook]) {
    for webhook in webhooks {
        let taken = async || (fleet.webhook(webhook).await.0 == 202).then_some(());
        fleet.until("a webhook is taken", taken).await;
    }
}

/// What `retro doctor` says was lost.
fn lost(doctor: &Value) -> String {
    let check = items(doctor).iter().find(|check| check["what"] == "lost").expect("it looks");
    text(check, "detail").to_owned()
}

async fn emit(fleet: &Fleet, name: &str, events: &[Value]) {
    let file = fleet.write_events(name, events);
    assert_eq!(fleet.ask(&["emit", &file]).await["sent"], events.len());
}

async fn unsent(fleet: &Fleet, messages: u64) {
    let store = fleet.store().await;
    fleet
        .until("the relay has sent everything", async || {
            (store.load_health().await.ok()?.outbox_unsent == messages).then_some(())
        })
        .await;
}

async fn delete_stream(wire: &mut Wire, stream: &str) {
    let deleted = wire.ask(&format!("STREAM.DELETE.{stream}"), &Value::Null).await;
    assert_eq!(deleted["success"], true, "{deleted}");
}

async fn delete_consumers(wire: &mut Wire) {
    for (stream, consumer) in
        [(INTAKE, "counter"), (WORK, "sampler"), (WORK, "investigator"), (WORK, "writer")]
    {
        let deleted = wire.ask(&format!("CONSUMER.DELETE.{stream}.{consumer}"), &Value::Null).await;
        assert_eq!(deleted["success"], true, "{deleted}");
    }
}

/// So many runs and reports, and no dead letter.
async fn everything_once(fleet: &Fleet, runs: u64, reports: u64) {
    let checked = fleet.sound().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(runs), &json!(reports)));
    assert_eq!(fleet.ask(&["dead-letters", "list"]).await, json!([]));
}
