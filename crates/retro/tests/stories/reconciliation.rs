//! The broker loses messages, or has acknowledgements for messages that nobody handled: consumers are
//! deleted, streams are purged, the broker's disk is replaced, a client acknowledges by hand. Nothing is lost
//! that the database or an emitter still has, nothing takes effect twice, and losses are reported.

use serde_json::{Value, json};

use crate::world::{
    BRIDGE_ENV, DatabaseKind, Fleet, NatsConnection, Webhook, build_correcting_runs, json_items, json_text,
    load_payload,
};

const INTAKE_STREAM: &str = "RETRO_INTAKE";
const WORK_STREAM: &str = "RETRO_WORK";
const OTHER_ROLES: &str = "sampler,investigator,writer,relay";
/// Frequent reconciliation.
const FREQUENT_RECONCILE: [(&str, &str); 1] = [("RETRO_RECONCILE_INTERVAL_MS", "200")];
/// Reconciliation so rare that it runs only at the start during a test.
const RARE_RECONCILE: [(&str, &str); 1] = [("RETRO_RECONCILE_INTERVAL_MS", "3600000")];

#[tokio::test]
async fn messages_acknowledged_without_handling_are_still_counted_once() {
    for kind in [DatabaseKind::Sqlite, DatabaseKind::Postgres] {
        let mut fleet = Fleet::start(kind, &[]).await;
        emit_events(&fleet, "runs.jsonl", &build_correcting_runs("ci", "deploy", 0..5)).await;
        fleet.publish_event("default", "ci", &json!({"not": "an event"})).await;
        let mut wire = NatsConnection::connect(fleet.nats_url()).await;
        for answer in ["+ACK", "+TERM by hand", "+ACK", "+ACK", "+ACK", "+ACK"] {
            wire.answer_next_message(INTAKE_STREAM, "counter", answer).await;
        }
        let counter = fleet.serve_with_env("counter,relay", &FREQUENT_RECONCILE);
        fleet.wait_until_counted("default", 5).await;
        let dead_letters = fleet.wait_for("the dead letter", async || {
            let dead_letters = fleet.run_json(&["dead-letters", "list"]).await;
            (!json_items(&dead_letters).is_empty()).then_some(dead_letters)
        });
        assert_eq!(json_items(&dead_letters.await).len(), 1);
        fleet.wait_for_log("message 2 done, but it was never handled").await;
        // A new process finds nothing left to reconcile.
        let again = fleet.restart(counter).await;
        emit_events(&fleet, "more.jsonl", &build_correcting_runs("ci", "deploy", 5..9)).await;
        fleet.wait_until_counted("default", 9).await;
        assert_eq!(fleet.verify_store().await["runs"], 9);
        assert_eq!(json_items(&fleet.run_json(&["dead-letters", "list"]).await).len(), 1);
        fleet.stop(again).await;
        fleet.stop_all().await;
    }
}

#[tokio::test]
async fn a_message_that_the_broker_terminates_triggers_reconciliation() {
    check_abandoned_message("+TERM by hand", &Value::Null).await;
}

/// The consumer is edited to deliver each message only once.
#[tokio::test]
async fn a_message_that_reaches_max_deliver_triggers_reconciliation() {
    check_abandoned_message("-NAK", &json!({"max_deliver": 1})).await;
}

/// While a counter is frozen, another client fetches the second message of the stream from a consumer that
/// was edited before, and answers it. The broker gives up on the message, but it is still counted.
async fn check_abandoned_message(answer: &str, edited: &Value) {
    let mut fleet = Fleet::start(DatabaseKind::Sqlite, &[]).await;
    let counter = fleet.serve_with_env("counter,relay", &RARE_RECONCILE);
    fleet.wait_until_ready(counter).await;
    emit_events(&fleet, "first.jsonl", &build_correcting_runs("ci", "deploy", 0..1)).await;
    fleet.wait_until_counted("default", 1).await;
    // While the counter is frozen, its pull requests at the broker expire and another client gets the
    // message.
    fleet.freeze(counter);
    let mut wire = NatsConnection::connect(fleet.nats_url()).await;
    let idle = format!("CONSUMER.INFO.{INTAKE_STREAM}.counter");
    let found = fleet
        .wait_for("the counter's requests have expired", async || {
            let found = wire.request_api(&idle, &Value::Null).await;
            (found["num_waiting"] == json!(0)).then_some(found)
        })
        .await;
    let mut config = found["config"].clone();
    for (key, value) in edited.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    let edit = json!({"stream_name": INTAKE_STREAM, "config": config});
    let made = wire.request_api(&format!("CONSUMER.DURABLE.CREATE.{INTAKE_STREAM}.counter"), &edit).await;
    assert_eq!(made["error"], Value::Null, "{made}");
    emit_events(&fleet, "second.jsonl", &build_correcting_runs("ci", "deploy", 1..2)).await;
    wire.answer_next_message(INTAKE_STREAM, "counter", answer).await;
    fleet.resume(counter);
    fleet.wait_until_counted("default", 2).await;
    fleet.wait_for_log("the broker gave up on message 2").await;
    assert_eq!(fleet.run_json(&["dead-letters", "list"]).await, json!([]));
    fleet.stop_all().await;
}

#[tokio::test]
async fn consumers_deleted_under_one_process_are_recreated_without_loss_or_duplicates() {
    let mut fleet = Fleet::start(DatabaseKind::Sqlite, &[]).await;
    fleet.up().await;
    emit_events(&fleet, "before.jsonl", &build_correcting_runs("ci", "deploy", 0..10)).await;
    fleet.wait_until_counted("default", 10).await;
    fleet.wait_until_idle().await;
    let mut wire = NatsConnection::connect(fleet.nats_url()).await;
    delete_consumers(&mut wire).await;
    emit_events(&fleet, "after.jsonl", &build_correcting_runs("ci", "deploy", 10..20)).await;
    fleet.wait_until_counted("default", 20).await;
    fleet.wait_until_idle().await;
    assert_everything_once(&fleet, 20, 2).await;
    fleet.wait_for_log("created the consumer counter").await;
    fleet.stop_up().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn consumers_deleted_under_a_fleet_are_reported_without_loss_or_duplicates() {
    let fleet = Fleet::start(DatabaseKind::Postgres, &[("counter", 1), (OTHER_ROLES, 1)]).await;
    emit_events(&fleet, "before.jsonl", &build_correcting_runs("ci", "deploy", 0..10)).await;
    fleet.wait_until_counted("default", 10).await;
    fleet.wait_until_idle().await;
    let mut wire = NatsConnection::connect(fleet.nats_url()).await;
    delete_consumers(&mut wire).await;
    fleet
        .wait_until_not_ready(
            0,
            "the broker has no consumer counter of stream RETRO_INTAKE; `retro migrate` creates it",
        )
        .await;
    fleet.wait_until_not_ready(1, "the broker has no consumer writer of stream RETRO_WORK").await;
    emit_events(&fleet, "after.jsonl", &build_correcting_runs("ci", "deploy", 10..20)).await;
    fleet.migrate().await;
    fleet.wait_until_ready(0).await;
    fleet.wait_until_counted("default", 20).await;
    fleet.wait_until_idle().await;
    assert_everything_once(&fleet, 20, 2).await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn streams_deleted_under_one_process_are_recreated_and_work_goes_on() {
    let mut fleet = Fleet::start(DatabaseKind::Sqlite, &[]).await;
    fleet.up_with_env(&FREQUENT_RECONCILE).await;
    emit_events(&fleet, "before.jsonl", &build_correcting_runs("ci", "deploy", 0..10)).await;
    fleet.wait_until_counted("default", 10).await;
    fleet.wait_until_idle().await;
    let mut wire = NatsConnection::connect(fleet.nats_url()).await;
    for stream in [INTAKE_STREAM, WORK_STREAM] {
        delete_stream(&mut wire, stream).await;
    }
    fleet.wait_for_log("the stream RETRO_INTAKE was replaced").await;
    emit_events(&fleet, "after.jsonl", &build_correcting_runs("ci", "deploy", 10..20)).await;
    fleet.wait_until_counted("default", 20).await;
    fleet.wait_until_idle().await;
    assert_everything_once(&fleet, 20, 2).await;
    fleet.stop_up().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_stream_deleted_under_a_fleet_is_reported_and_its_messages_are_sent_again() {
    let mut fleet = Fleet::start(DatabaseKind::Postgres, &[]).await;
    let counter = fleet.serve_with_env("counter,relay", &FREQUENT_RECONCILE);
    fleet.wait_until_ready(counter).await;
    // A window fills up while no sampler runs, so its wake-up stays at the broker.
    emit_events(&fleet, "runs.jsonl", &build_correcting_runs("ci", "deploy", 0..10)).await;
    fleet.wait_until_counted("default", 10).await;
    wait_for_unsent_count(&fleet, 0).await;
    delete_stream(&mut NatsConnection::connect(fleet.nats_url()).await, WORK_STREAM).await;
    fleet
        .wait_until_not_ready(counter, "the broker has no stream RETRO_WORK; `retro migrate` creates it")
        .await;
    fleet.migrate().await;
    fleet.wait_until_ready(counter).await;
    fleet.wait_for_log("1 internal messages are sent again").await;
    // The sweep is off, so only the lost wake-up that is sent again can start the work.
    let others =
        fleet.serve_with_env("sampler,investigator,writer", &[("RETRO_SWEEP_INTERVAL_MS", "600000")]);
    fleet.wait_until_ready(others).await;
    fleet.wait_until_idle().await;
    assert_everything_once(&fleet, 10, 1).await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_wiped_broker_is_refilled_and_uncounted_events_are_reported_by_name() {
    let mut fleet = Fleet::start(DatabaseKind::Sqlite, &[]).await;
    let relay = fleet.serve_with_env("relay", &FREQUENT_RECONCILE);
    let counter = fleet.serve_with_env("counter", &FREQUENT_RECONCILE);
    fleet.wait_until_ready(relay).await;
    fleet.wait_until_ready(counter).await;
    // A window fills up while no sampler runs, so its wake-up stays at the broker.
    emit_events(&fleet, "counted.jsonl", &build_correcting_runs("ci", "deploy", 0..10)).await;
    fleet.wait_until_counted("default", 10).await;
    wait_for_unsent_count(&fleet, 0).await;
    fleet.stop(counter).await;
    // The broker confirms these events while no counter runs.
    emit_events(&fleet, "waiting.jsonl", &build_correcting_runs("lost", "deploy", 0..3)).await;
    // In one stream check or in several.
    fleet.wait_for_log("to 13; they are recorded by name").await;
    fleet.wipe_broker().await;
    fleet.start_broker().await;
    fleet.migrate().await;
    fleet.wait_for_log("the stream RETRO_INTAKE was replaced").await;
    fleet.wait_for_log("1 internal messages are sent again").await;
    let doctor_output = fleet.run_retro(&["doctor", "-o", "json"]).await;
    assert_eq!(doctor_output.code, Some(4), "{doctor_output:?}");
    let lost_detail = read_lost_detail(&doctor_output.parse_json());
    for (nth, position) in [(0, 11), (1, 12), (2, 13)] {
        let name = format!(
            "event \"event of lost-{nth}\" of \"/tests/composed\" of the tenant default, position {position}"
        );
        assert!(lost_detail.contains(&name), "{lost_detail}");
    }
    fleet.wait_for_log("lost with the broker: event \"event of lost-1\"").await;

    // The sweep is off, so only the lost wake-up that is sent again can start the work.
    let others =
        fleet.serve_with_env("sampler,investigator,writer", &[("RETRO_SWEEP_INTERVAL_MS", "600000")]);
    let counter = fleet.serve_with_env("counter", &FREQUENT_RECONCILE);
    fleet.wait_until_ready(others).await;
    fleet.wait_until_ready(counter).await;
    fleet.wait_until_idle().await;
    // Once the events are emitted again, they are no longer lost.
    emit_events(
        &fleet,
        "again.jsonl",
        &[build_correcting_runs("lost", "deploy", 0..3), build_correcting_runs("ci", "deploy", 0..10)]
            .concat(),
    )
    .await;
    fleet.wait_until_counted("default", 13).await;
    assert_everything_once(&fleet, 13, 1).await;
    fleet
        .wait_for("nothing is lost", async || {
            let doctor_output = fleet.run_retro(&["doctor", "-o", "json"]).await;
            (doctor_output.code == Some(0)
                && !read_lost_detail(&doctor_output.parse_json()).contains("event of lost"))
            .then_some(())
        })
        .await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn events_purged_before_being_counted_are_reported_by_name() {
    let mut fleet = Fleet::start(DatabaseKind::Postgres, &[]).await;
    let relay = fleet.serve_with_env("relay", &FREQUENT_RECONCILE);
    fleet.wait_until_ready(relay).await;
    emit_events(&fleet, "purged.jsonl", &build_correcting_runs("ci", "deploy", 0..2)).await;
    fleet.wait_for_log("to 2; they are recorded by name").await;
    let mut wire = NatsConnection::connect(fleet.nats_url()).await;
    let purged = wire.request_api(&format!("STREAM.PURGE.{INTAKE_STREAM}"), &Value::Null).await;
    assert_eq!(purged["purged"], 2, "{purged}");
    fleet.wait_for_log("lost with the broker: event \"event of ci-1\"").await;
    let counter = fleet.serve_with_env("counter", &FREQUENT_RECONCILE);
    fleet.wait_until_ready(counter).await;
    emit_events(&fleet, "again.jsonl", &build_correcting_runs("ci", "deploy", 0..2)).await;
    fleet.wait_until_counted("default", 2).await;
    assert_everything_once(&fleet, 2, 0).await;
    let doctor_output = fleet.run_retro(&["doctor", "-o", "json"]).await;
    assert!(!read_lost_detail(&doctor_output.parse_json()).contains("event of ci"), "{doctor_output:?}");
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_loss_closed_with_a_reason_stays_listed_and_is_no_longer_reported() {
    let mut fleet = Fleet::start(DatabaseKind::Sqlite, &[]).await;
    let relay = fleet.serve_with_env("relay", &FREQUENT_RECONCILE);
    fleet.wait_until_ready(relay).await;
    emit_events(&fleet, "purged.jsonl", &build_correcting_runs("ci", "deploy", 0..2)).await;
    fleet.wait_for_log("to 2; they are recorded by name").await;
    let mut wire = NatsConnection::connect(fleet.nats_url()).await;
    let purged = wire.request_api(&format!("STREAM.PURGE.{INTAKE_STREAM}"), &Value::Null).await;
    assert_eq!(purged["purged"], 2, "{purged}");
    fleet.wait_for_log("lost with the broker: event \"event of ci-1\"").await;
    let listed = fleet.run_json(&["losses", "list"]).await;
    let ids: Vec<_> = json_items(&listed).iter().map(|loss| json_text(loss, "id")).collect();
    assert_eq!(ids, ["RETRO_INTAKE/1/1", "RETRO_INTAKE/1/2"]);
    let close = ["losses", "close", ids[0], "--by", "ana", "--reason"];
    let refused = fleet.run_retro(&[&close[..], &[" "]].concat()).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_eq!(fleet.run_json(&[&close[..], &["it was a rehearsal"]].concat()).await, json!([ids[0]]));
    let again = fleet.run_retro(&[&close[..], &["once more"]].concat()).await;
    assert_eq!(again.code, Some(3), "{again:?}");
    let doctor_output = fleet.run_retro(&["doctor", "-o", "json"]).await;
    let lost_detail = read_lost_detail(&doctor_output.parse_json());
    assert!(
        doctor_output.code == Some(4)
            && lost_detail.contains("event of ci-1")
            && !lost_detail.contains("event of ci-0"),
        "{lost_detail}"
    );
    let all = ["losses", "close", "--all", "--by", "ben", "--reason", "nobody misses it"];
    assert_eq!(fleet.run_json(&all).await, json!([ids[1]]));
    let doctor_output = fleet.run_retro(&["doctor", "-o", "json"]).await;
    assert_eq!(doctor_output.code, Some(0), "{doctor_output:?}");
    let lost_detail = "nothing that is known by name; 2 closed, see `retro losses list --all`";
    assert_eq!(read_lost_detail(&doctor_output.parse_json()), lost_detail);
    assert_eq!(fleet.run_json(&["losses", "list"]).await, json!([]));
    let listed_all = fleet.run_json(&["losses", "list", "--all"]).await;
    let closed: Vec<_> = json_items(&listed_all)
        .iter()
        .map(|loss| (&loss["closed"]["by"], &loss["closed"]["reason"]))
        .collect();
    assert_eq!(
        closed,
        [(&json!("ana"), &json!("it was a rehearsal")), (&json!("ben"), &json!("nobody misses it"))]
    );
    fleet.stop_all().await;
}

/// GitHub got 202 for these webhooks and does not resend them by itself.
#[tokio::test]
async fn webhooks_lost_before_all_consumers_handled_them_are_reported_by_name() {
    let mut fleet = Fleet::start(DatabaseKind::Sqlite, &[("reviewer", 1)]).await;
    let relay = fleet.serve_with_env("relay", &FREQUENT_RECONCILE);
    let bridge = fleet.serve_with_env("bridge", &BRIDGE_ENV[1..]);
    fleet.wait_until_ready(relay).await;
    fleet.wait_until_ready(bridge).await;
    let mut push = load_payload("push", "push");
    push["commits"][0]["message"] = json!("Fix it\n\nRetro-Run: run-17\n");
    let webhooks = [
        Webhook::from_fixture("issue_comment", "a comment", "on-pull-request"),
        Webhook::from_fixture("pull_request", "a pull request", "opened"),
        Webhook::new("push", "a push", &push),
    ];
    deliver_until_accepted(&fleet, &webhooks).await;
    let mut wire = NatsConnection::connect(fleet.nats_url()).await;
    fleet
        .wait_for("the reviewer has handled them", async || {
            let reviewer = wire.request_api("CONSUMER.INFO.RETRO_GITHUB.reviewer", &Value::Null).await;
            (reviewer["ack_floor"]["stream_seq"] == json!(3)).then_some(())
        })
        .await;
    // No tracker runs, so the pull request event is not handled.
    fleet.wait_for_log(" to 3; they are recorded by name").await;
    fleet.wipe_broker().await;
    fleet.start_broker().await;
    fleet.migrate().await;
    fleet.wait_for_log("the stream RETRO_GITHUB was replaced").await;
    let doctor_output = fleet.run_retro(&["doctor", "-o", "json"]).await;
    assert_eq!(doctor_output.code, Some(4), "{doctor_output:?}");
    let lost_detail = read_lost_detail(&doctor_output.parse_json());
    for (delivery, position) in [("a pull request", 2), ("a push", 3)] {
        let name = format!(
            "event {delivery:?} of \"https://github.com/acme/shop\" of the tenant acme, position {position} of RETRO_GITHUB"
        );
        assert!(lost_detail.contains(&name), "{lost_detail}");
    }
    assert!(!lost_detail.contains("a comment"), "its consumer handled it: {lost_detail}");
    fleet.wait_for_log("lost with the broker: event \"a push\"").await;

    let tracker = fleet.serve("tracker");
    fleet.wait_until_ready(tracker).await;
    deliver_until_accepted(&fleet, &webhooks).await;
    fleet
        .wait_for("nothing is lost", async || {
            let doctor_output = fleet.run_retro(&["doctor", "-o", "json"]).await;
            (doctor_output.code == Some(0)
                && !read_lost_detail(&doctor_output.parse_json()).contains("event"))
            .then_some(())
        })
        .await;
    fleet.stop_all().await;
}

/// Posts each webhook until it is accepted.
async fn deliver_until_accepted(fleet: &Fleet, webhooks: &[Webhook]) {
    for webhook in webhooks {
        let taken = async || (fleet.post_webhook(webhook).await.0 == 202).then_some(());
        fleet.wait_for("a webhook is accepted", taken).await;
    }
}

/// Returns the detail of the check `losses` in `retro doctor`.
fn read_lost_detail(doctor: &Value) -> String {
    let check =
        json_items(doctor).iter().find(|check| check["check"] == "losses").expect("the check is listed");
    json_text(check, "detail").to_owned()
}

async fn emit_events(fleet: &Fleet, name: &str, events: &[Value]) {
    let file = fleet.write_events(name, events);
    assert_eq!(fleet.run_json(&["emit", &file]).await["sent"], events.len());
}

async fn wait_for_unsent_count(fleet: &Fleet, messages: u64) {
    let store = fleet.open_store().await;
    fleet
        .wait_for("the relay has sent everything", async || {
            (store.load_health().await.ok()?.outbox_unsent == messages).then_some(())
        })
        .await;
}

async fn delete_stream(wire: &mut NatsConnection, stream: &str) {
    let deleted = wire.request_api(&format!("STREAM.DELETE.{stream}"), &Value::Null).await;
    assert_eq!(deleted["success"], true, "{deleted}");
}

async fn delete_consumers(wire: &mut NatsConnection) {
    for (stream, consumer) in [
        (INTAKE_STREAM, "counter"),
        (WORK_STREAM, "sampler"),
        (WORK_STREAM, "investigator"),
        (WORK_STREAM, "writer"),
    ] {
        let deleted = wire.request_api(&format!("CONSUMER.DELETE.{stream}.{consumer}"), &Value::Null).await;
        assert_eq!(deleted["success"], true, "{deleted}");
    }
}

/// Asserts the numbers of runs and reports, and that there is no dead letter.
async fn assert_everything_once(fleet: &Fleet, runs: u64, reports: u64) {
    let checked = fleet.verify_store().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(runs), &json!(reports)));
    assert_eq!(fleet.run_json(&["dead-letters", "list"]).await, json!([]));
}
