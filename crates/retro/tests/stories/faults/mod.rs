//! Injects one fault per test. Each test ends in the state that an undisturbed run leaves, and fails if the
//! fault did not happen.

mod broker;
mod clock;
mod database;
mod disk;
mod frozen;
mod golden;
mod lost_acks;
mod publishers;
mod stopped_relay;

use std::collections::BTreeSet;

use retro_checker::ProgressFloor;
use retro_core::id::Tenant;
use serde_json::{Value, json};

use crate::world::{NatsConnection, Observer, World, json_items, json_text};

/// Asserts that nothing was lost and nothing happened twice: this many runs of the default tenant are
/// counted, each once, every window of ten has its report, memory is the fold of its log, there is no dead
/// letter and nothing is left to do. The checker, which shares no code with the program, finds all invariants
/// intact in the database and the broker.
async fn assert_sound_and_complete(world: &World, runs: u64) -> Value {
    assert_sound_after_faults(world, runs, 0).await
}

/// Like [`assert_sound_and_complete`], but tells the checker of faults that the test has injected. Each one may
/// cost an investigation another claim.
async fn assert_sound_after_faults(world: &World, runs: u64, faults: u64) -> Value {
    world.wait_until_counted("default", runs).await;
    world.wait_until_idle().await;
    let checked = world.verify_store().await;
    assert!(runs >= 10, "a test in which nothing is learned proves nothing");
    assert_eq!(
        (checked["runs"].as_u64(), checked["reports"].as_u64()),
        (Some(runs), Some(runs / 10)),
        "{checked}"
    );
    let known = world.run_json(&["runs", "--limit", "100000"]).await;
    let distinct: BTreeSet<_> =
        json_items(&known).iter().map(|run| json_text(&run["facts"], "run_id")).collect();
    assert_eq!((json_items(&known).len() as u64, distinct.len() as u64), (runs, runs));
    assert_eq!(world.run_json(&["dead-letters", "list"]).await, json!([]), "{}", world.log_tail());
    let memories = world.run_json(&["memories", "list"]).await;
    assert!(!json_items(&memories).is_empty(), "something was learned");
    let health = world.open_store().await.load_health().await.expect("the store can be read");
    assert_eq!(health.outbox_unsent, 0);
    let floor = ProgressFloor { counted: runs, closed: runs / 10, ..ProgressFloor::default() };
    let mut witness = Observer::start(world, &world.path(&format!("history-of-{runs}.jsonl"))).await;
    (0..faults).for_each(|_| witness.record_fault("lost_answer", "one of the test's own"));
    witness.check_when_idle(world, &floor).await.assert_sound();
    checked
}

/// Waits until the counter has acknowledged every published event.
async fn wait_until_intake_drained(world: &World) {
    let mut wire = NatsConnection::connect(world.nats_url()).await;
    let mut drained = async || {
        // The pending count is updated a moment after a message is stored, so compare the acknowledged
        // position as well.
        let intake = wire.request_api("STREAM.INFO.RETRO_INTAKE", &Value::Null).await;
        let counter = wire.request_api("CONSUMER.INFO.RETRO_INTAKE.counter", &Value::Null).await;
        let left = ["num_pending", "num_ack_pending"].map(|count| counter[count].as_u64());
        let floor = counter["ack_floor"]["stream_seq"].as_u64()?;
        (left == [Some(0); 2] && floor >= intake["state"]["last_seq"].as_u64()?).then_some(())
    };
    world.wait_for("every event is acknowledged", &mut drained).await;
}

/// Asserts that the broker has none of the program's own messages twice, and returns their number.
async fn assert_each_sent_once(world: &World) -> usize {
    let mut wire = NatsConnection::connect(world.nats_url()).await;
    let mut count = 0;
    for stream in ["RETRO_WORK", "RETRO_ANNOUNCEMENTS"] {
        let messages = wire.list_messages(stream).await;
        let ids: BTreeSet<_> =
            messages.iter().filter_map(|message| message.find_header("Nats-Msg-Id")).collect();
        assert_eq!(ids.len(), messages.len(), "{stream} holds a message twice");
        count += messages.len();
    }
    count
}

/// Returns each retrospective of the default tenant as its sample and the attempts at each investigation.
async fn list_samples_and_attempts(world: &World) -> Vec<(Value, Vec<u64>)> {
    let store = world.open_store().await;
    let tenant = Tenant::default_tenant();
    let rows = store.list_retrospectives(&tenant, None, 1000).await.expect("the store can be read");
    let mut drawn = Vec::new();
    for row in rows {
        let id = row.retrospective.id;
        let detail = store
            .find_retrospective(&tenant, id)
            .await
            .expect("the store can be read")
            .expect("the retrospective was listed");
        let report = store.find_report(&tenant, id).await.expect("the store can be read");
        let report =
            report.map(|report| serde_json::to_value(report).expect("plain data")).unwrap_or_default();
        let attempts = report["investigations"].as_array().into_iter().flatten();
        let attempts = attempts.filter_map(|one| one["timing"]["attempts"].as_u64()).collect();
        drawn.push((serde_json::to_value(detail.sample).expect("plain data"), attempts));
    }
    drawn
}

/// Encodes events as bytes.
fn encode_payloads(events: &[Value]) -> Vec<Vec<u8>> {
    events.iter().map(|event| event.to_string().into_bytes()).collect()
}
