//! Drops acknowledgements between the program and its broker.

use retro_checker::ProgressFloor;
use serde_json::{Value, json};

use super::{assert_each_sent_once, assert_sound_and_complete, encode_payloads, wait_until_intake_drained};
use crate::world::{
    DatabaseKind, DropKind, Fleet, LossyProxy, NatsConnection, Observer, build_correcting_runs, json_text,
};

const RUNS: u64 = 20;

#[tokio::test]
async fn lost_acknowledgements_count_nothing_twice_on_a_shared_file() {
    check_lost_acknowledgements(DatabaseKind::Sqlite).await;
}

#[tokio::test]
async fn lost_acknowledgements_count_nothing_twice_on_postgres() {
    check_lost_acknowledgements(DatabaseKind::Postgres).await;
}

/// Handled messages are redelivered more often than a message may fail, yet do not become dead letters.
#[expect(
    clippy::print_stdout,
    reason = "the number of lost acknowledgements is for readers of the test output"
)]
async fn check_lost_acknowledgements(kind: DatabaseKind) {
    let mut fleet = Fleet::start(kind, &[]).await;
    let line = LossyProxy::start(fleet.nats_url(), DropKind::Acks).await;
    let quick = [("RETRO_ACK_WAIT_S", "1"), ("NATS_URL", line.url())];
    fleet.migrate_with_env(&quick[..1]).await;
    for roles in ["counter", "sampler,investigator,writer,relay"] {
        let nth = fleet.serve_with_env(roles, &quick);
        fleet.wait_until_ready(nth).await;
    }
    let mut witness = Observer::start(&fleet, &fleet.path("history.jsonl")).await;
    line.start_dropping();
    witness.record_fault("cut", "acknowledgements");
    let runs = encode_payloads(&build_correcting_runs("release", "deploy_service", 0..RUNS));
    witness.create_emitter("an engine").emit_until_stored("release", &runs).await;
    fleet.wait_until_counted("default", RUNS).await;
    witness.capture_state().await;
    let redelivered = async || {
        let mut wire = NatsConnection::connect(fleet.nats_url()).await;
        let counter = wire.request_api("CONSUMER.INFO.RETRO_INTAKE.counter", &Value::Null).await;
        // The first delivery, five that may fail, and one more.
        let deliveries = counter["delivered"]["consumer_seq"].as_u64()?;
        // Deliveries are acknowledged a moment later or in groups.
        (deliveries >= 7 * RUNS && line.dropped_messages() >= 6 * RUNS).then_some(deliveries)
    };
    let deliveries = fleet.wait_for("everything was delivered seven times", redelivered).await;
    line.stop_dropping();
    wait_until_intake_drained(&fleet).await;
    println!("{} acknowledgements lost, {deliveries} deliveries of {RUNS} events", line.dropped_messages());
    assert_sound_and_complete(&fleet, RUNS).await;
    assert_each_sent_once(&fleet).await;
    let floor = ProgressFloor { counted: RUNS, closed: RUNS / 10, ..ProgressFloor::default() };
    witness.check_when_idle(&fleet, &floor.with_fault("cut", 1)).await.assert_sound();
    fleet.stop_all().await;
}

/// The relay, an engine over HTTP and `retro emit` get no confirmation for messages that the broker has
/// stored. They report this or send the messages again.
#[tokio::test]
async fn events_stored_without_confirmation_are_sent_again_and_counted_once() {
    let mut fleet = Fleet::start(DatabaseKind::Sqlite, &[("counter,sampler,investigator,writer", 1)]).await;
    let line = LossyProxy::start(fleet.nats_url(), DropKind::PubAcks).await;
    let process = fleet.serve_with_env("relay,gateway", &[("NATS_URL", line.url())]);
    fleet.wait_until_ready(process).await;
    line.start_dropping();
    let file = fleet.write_events("runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..RUNS));
    let mut emit = fleet.command(&["emit", &file, "-o", "json"]);
    let emit = tokio::spawn(emit.env("NATS_URL", line.url()).output());
    let batch = Value::from(build_correcting_runs("other", "roll_back", 0..5)).to_string();
    let post =
        async || fleet.post_events("default", "application/cloudevents-batch+json", &[], batch.clone()).await;
    let posted = post().await;
    assert_eq!((posted.status, json_text(&posted.body, "code")), (503, "outcome_unknown"), "{posted:?}");
    // Each missing confirmation times out, one after the other.
    let sent_again =
        async || (count_stored_messages(&fleet, "RETRO_INTAKE").await >= RUNS + 5 + 2).then_some(());
    fleet.wait_for("an event was sent again, twice", sent_again).await;
    let relayed = async || fleet.read_log().contains("the outbox could not be relayed").then_some(());
    fleet.wait_for("the relay has missed a confirmation", relayed).await;
    line.stop_dropping();

    let emitted = emit.await.expect("the task does not panic").expect("the command starts");
    assert!(emitted.status.success(), "{emitted:?}");
    assert_eq!(serde_json::from_slice::<Value>(&emitted.stdout).expect("JSON")["sent"], json!(RUNS));
    let posted = post().await;
    assert_eq!(posted.status, 202, "{posted:?}");
    wait_until_intake_drained(&fleet).await;
    println!(
        "{} answers lost, {} messages for {} events",
        line.dropped_messages(),
        count_stored_messages(&fleet, "RETRO_INTAKE").await,
        RUNS + 5
    );
    assert!(
        line.dropped_messages() > RUNS && count_stored_messages(&fleet, "RETRO_INTAKE").await >= 2 * RUNS
    );
    fleet.wait_until_counted("default", RUNS + 5).await;
    fleet.emit_and_wait("default", "rest.jsonl", &build_correcting_runs("other", "roll_back", 5..10)).await;
    assert_sound_and_complete(&fleet, RUNS + 10).await;
    assert_each_sent_once(&fleet).await;
    fleet.stop_all().await;
}

/// Returns the number of messages in a stream.
async fn count_stored_messages(fleet: &Fleet, stream: &str) -> u64 {
    let mut wire = NatsConnection::connect(fleet.nats_url()).await;
    let info = wire.request_api(&format!("STREAM.INFO.{stream}"), &Value::Null).await;
    info["state"]["messages"].as_u64().expect("a count")
}
