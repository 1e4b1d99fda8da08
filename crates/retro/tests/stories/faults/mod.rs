//! One fault a story: each ends in the state that an undisturbed run leaves, and none passes where nothing happened.

mod broker;
mod clock;
mod database;
mod disk;
mod frozen;
mod golden;
mod lines;
mod publishers;
mod stopped;

use std::collections::BTreeSet;

use retro_checker::ProgressFloor;
use retro_core::id::Tenant;
use serde_json::{Value, json};

use crate::world::{Wire, Witness, World, items, text};

/// Nothing was lost and nothing happened twice: so many runs of the default tenant are counted, each once, every window
/// of ten has its report, memory is the fold of its log, nothing is dead, nothing is left to do; and the checker, which
/// shares nothing with the program, finds in database and broker no invariant that does not hold.
async fn all_is_well(world: &World, runs: u64) -> Value {
    world.counted("default", runs).await;
    world.still().await;
    let checked = world.sound().await;
    assert!(runs >= 10, "a story in which nothing is learned shows nothing");
    assert_eq!(
        (checked["runs"].as_u64(), checked["reports"].as_u64()),
        (Some(runs), Some(runs / 10)),
        "{checked}"
    );
    let known = world.ask(&["runs", "--limit", "100000"]).await;
    let distinct: BTreeSet<_> = items(&known).iter().map(|run| text(&run["facts"], "run_id")).collect();
    assert_eq!((items(&known).len() as u64, distinct.len() as u64), (runs, runs));
    assert_eq!(world.ask(&["dead-letters", "list"]).await, json!([]), "{}", world.log());
    let memories = world.ask(&["memories", "list"]).await;
    assert!(!items(&memories).is_empty(), "something was learned");
    let health = world.store().await.load_health().await.expect("it can be read");
    assert_eq!(health.outbox_unsent, 0);
    let floor = ProgressFloor { counted: runs, closed: runs / 10, ..ProgressFloor::default() };
    let mut witness = Witness::of(world, &world.path(&format!("history-of-{runs}.jsonl"))).await;
    witness.judge(world, &floor).await.assert_sound();
    checked
}

/// Waits until the counter has answered for everything that engines have published.
async fn intake_is_drained(world: &World) {
    let mut wire = Wire::to(world.nats_url()).await;
    let mut drained = async || {
        // What is pending is counted a moment after a message was stored, so its place is asked for.
        let intake = wire.ask("STREAM.INFO.RETRO_INTAKE", &Value::Null).await;
        let counter = wire.ask("CONSUMER.INFO.RETRO_INTAKE.counter", &Value::Null).await;
        let left = ["num_pending", "num_ack_pending"].map(|count| counter[count].as_u64());
        let floor = counter["ack_floor"]["stream_seq"].as_u64()?;
        (left == [Some(0); 2] && floor >= intake["state"]["last_seq"].as_u64()?).then_some(())
    };
    world.until("every event is answered for", &mut drained).await;
}

/// What the broker holds of our own messages: as many as there are different ones. Returns how many.
async fn each_said_once(world: &World) -> usize {
    let mut wire = Wire::to(world.nats_url()).await;
    let mut count = 0;
    for stream in ["RETRO_WORK", "RETRO_ANNOUNCEMENTS"] {
        let messages = wire.all(stream).await;
        let ids: BTreeSet<_> = messages.iter().filter_map(|message| message.header("Nats-Msg-Id")).collect();
        assert_eq!(ids.len(), messages.len(), "{stream} holds a message twice");
        count += messages.len();
    }
    count
}

/// The retrospectives of the default tenant with what was drawn for each and how often each investigation was begun.
async fn drawn(world: &World) -> Vec<(Value, Vec<u64>)> {
    let store = world.store().await;
    let tenant = Tenant::default_tenant();
    let rows = store.list_retrospectives(&tenant, None, 1000).await.expect("it can be read");
    let mut drawn = Vec::new();
    for row in rows {
        let id = row.retrospective.id;
        let detail =
            store.find_retrospective(&tenant, id).await.expect("it can be read").expect("it was listed");
        let report = store.find_report(&tenant, id).await.expect("it can be read");
        let report =
            report.map(|report| serde_json::to_value(report).expect("plain data")).unwrap_or_default();
        let attempts = report["investigations"].as_array().into_iter().flatten();
        let attempts = attempts.filter_map(|one| one["timing"]["attempts"].as_u64()).collect();
        drawn.push((serde_json::to_value(detail.sample).expect("plain data"), attempts));
    }
    drawn
}

/// Events as they go over the wire.
fn payloads(events: &[Value]) -> Vec<Vec<u8>> {
    events.iter().map(|event| event.to_string().into_bytes()).collect()
}
