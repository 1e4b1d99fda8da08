//! Answers that get lost on the line between the program and its broker.

use retro_checker::ProgressFloor;
use serde_json::{Value, json};

use super::{all_is_well, each_said_once, intake_is_drained, payloads};
use crate::world::{Cut, Fleet, Kind, Loses, Wire, Witness, mending, text};

const RUNS: u64 = 20;

#[tokio::test]
async fn acknowledgements_lost_on_the_way_count_nothing_twice_on_a_shared_file() {
    acks(Kind::Sqlite).await;
}

#[tokio::test]
async fn acknowledgements_lost_on_the_way_count_nothing_twice_on_postgres() {
    acks(Kind::Postgres).await;
}

/// What was handled is delivered again and again, more often than a message may fail, and is no dead letter for it.
#[expect(clippy::print_stdout, reason = "how often the line failed is for whoever reads the suite")]
async fn acks(kind: Kind) {
    let mut fleet = Fleet::start(kind, &[]).await;
    let line = Cut::to(fleet.nats_url(), Loses::Acks).await;
    let quick = [("RETRO_ACK_WAIT_S", "1"), ("NATS_URL", line.url())];
    fleet.migrate_with(&quick[..1]).await;
    for roles in ["counter", "sampler,investigator,writer,relay"] {
        let nth = fleet.serve_with(roles, &quick);
        fleet.ready(nth).await;
    }
    let mut witness = Witness::of(&fleet, &fleet.path("history.jsonl")).await;
    line.cut();
    witness.fault("cut", "acknowledgements");
    let runs = payloads(&mending("release", "deploy_service", 0..RUNS));
    witness.emitter("an engine").emit("release", &runs).await;
    fleet.counted("default", RUNS).await;
    witness.moment().await;
    let redelivered = async || {
        let mut wire = Wire::to(fleet.nats_url()).await;
        let counter = wire.ask("CONSUMER.INFO.RETRO_INTAKE.counter", &Value::Null).await;
        // The first delivery, five that may fail, and one more.
        let deliveries = counter["delivered"]["consumer_seq"].as_u64()?;
        // What was delivered is answered for some time later, or together.
        (deliveries >= 7 * RUNS && line.lost() >= 6 * RUNS).then_some(deliveries)
    };
    let deliveries = fleet.until("everything was delivered seven times", redelivered).await;
    line.mend();
    intake_is_drained(&fleet).await;
    println!("{} acknowledgements lost, {deliveries} deliveries of {RUNS} events", line.lost());
    all_is_well(&fleet, RUNS).await;
    each_said_once(&fleet).await;
    let floor = ProgressFloor { counted: RUNS, closed: RUNS / 10, ..ProgressFloor::default() };
    witness.judge(&fleet, &floor.with_fault("cut", 1)).await.assert_sound();
    fleet.stop_all().await;
}

/// The relay, an engine over HTTP and `retro emit` do not hear that the broker has what they sent. They say so, or send
/// it again.
#[tokio::test]
async fn what_the_broker_has_and_nobody_heard_of_is_sent_again_and_counted_once() {
    let mut fleet = Fleet::start(Kind::Sqlite, &[("counter,sampler,investigator,writer", 1)]).await;
    let line = Cut::to(fleet.nats_url(), Loses::PubAcks).await;
    let deaf = fleet.serve_with("relay,gateway", &[("NATS_URL", line.url())]);
    fleet.ready(deaf).await;
    line.cut();
    let file = fleet.write_events("runs.jsonl", &mending("release", "deploy_service", 0..RUNS));
    let mut emit = fleet.command(&["emit", &file, "-o", "json"]);
    let emit = tokio::spawn(emit.env("NATS_URL", line.url()).output());
    let batch = Value::from(mending("other", "roll_back", 0..5)).to_string();
    let post =
        async || fleet.post_events("default", "application/cloudevents-batch+json", &[], batch.clone()).await;
    let posted = post().await;
    assert_eq!((posted.status, text(&posted.body, "code")), (503, "outcome_unknown"), "{posted:?}");
    // An answer that does not come is waited for, one after another.
    let sent_again = async || (stored(&fleet, "RETRO_INTAKE").await >= RUNS + 5 + 2).then_some(());
    fleet.until("an event was sent again, twice", sent_again).await;
    let relayed = async || fleet.whole_log().contains("the outbox could not be relayed").then_some(());
    fleet.until("the relay has missed its answer", relayed).await;
    line.mend();

    let emitted = emit.await.expect("it is waited for").expect("it starts");
    assert!(emitted.status.success(), "{emitted:?}");
    assert_eq!(serde_json::from_slice::<Value>(&emitted.stdout).expect("JSON")["sent"], json!(RUNS));
    let posted = post().await;
    assert_eq!(posted.status, 202, "{posted:?}");
    intake_is_drained(&fleet).await;
    println!(
        "{} answers lost, {} messages for {} events",
        line.lost(),
        stored(&fleet, "RETRO_INTAKE").await,
        RUNS + 5
    );
    assert!(line.lost() > RUNS && stored(&fleet, "RETRO_INTAKE").await >= 2 * RUNS);
    fleet.counted("default", RUNS + 5).await;
    fleet.emit("default", "rest.jsonl", &mending("other", "roll_back", 5..10)).await;
    all_is_well(&fleet, RUNS + 10).await;
    each_said_once(&fleet).await;
    fleet.stop_all().await;
}

/// Messages that a stream holds.
async fn stored(fleet: &Fleet, stream: &str) -> u64 {
    let mut wire = Wire::to(fleet.nats_url()).await;
    let info = wire.ask(&format!("STREAM.INFO.{stream}"), &Value::Null).await;
    info["state"]["messages"].as_u64().expect("a count")
}
