//! Kills the broker while retrospectives are open; `broker_kills.rs` kills it while runs arrive.

use std::time::Duration;

use serde_json::Value;

use retro_core::id::Tenant;
use retro_core::retrospective::RetrospectiveState;

use super::{assert_each_sent_once, assert_sound_and_complete, list_samples_and_attempts};
use crate::world::{World, build_correcting_runs};

/// Workflows per batch, with one window each, so that the result does not depend on timing.
const WORKFLOWS: u64 = 6;
const RUNS: u64 = 10;
const KILLS: u64 = 3;
/// Maximum number of batches until all kills come in time.
const BATCHES_MAX: u64 = 40;
/// Polling interval. Learning from a batch takes a few hundred milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_broker_killed_while_runs_are_learned_from_does_not_change_what_is_learned() {
    let mut world = World::start().await;
    let (mut kills, mut batches) = (0, 0);
    while kills < KILLS {
        assert!(batches < BATCHES_MAX, "{kills} kills came in time");
        emit_batch(&world, batches).await;
        batches += 1;
        kills += u64::from(kill_while_learning(&world, batches).await);
        world.wait_until_counted("default", batches * WORKFLOWS * RUNS).await;
        world.wait_until_idle().await;
    }
    println!("{kills} kills within {batches} batches");
    assert_sound_and_complete(&world, batches * WORKFLOWS * RUNS).await;
    assert_each_sent_once(&world).await;
    for (_, attempts) in list_samples_and_attempts(&world).await {
        assert!(
            attempts.iter().all(|attempts| *attempts == 1),
            "an investigation needs no broker: {attempts:?}"
        );
    }
    let export = world.export_canonical().await;
    world.stop().await;

    let mut calm = World::start().await;
    for batch in 0..batches {
        emit_batch(&calm, batch).await;
        calm.wait_until_counted("default", (batch + 1) * WORKFLOWS * RUNS).await;
        calm.wait_until_idle().await;
    }
    let undisturbed = calm.export_canonical().await;
    assert_eq!(undisturbed.lines().zip(export.lines()).find(|(calm, killed)| calm != killed), None);
    assert_eq!(export, undisturbed);
    calm.stop().await;
}

/// Kills the broker while retrospectives are open and waits for its restart. Returns `true` if the kill came
/// in time.
async fn kill_while_learning(world: &World, batches: u64) -> bool {
    let store = world.open_store().await;
    let look = async || {
        let rows = store.list_retrospectives(&Tenant::default_tenant(), None, 1000).await.ok()?;
        let in_state = |state| rows.iter().filter(|row| row.retrospective.state == state).count();
        let under_way = in_state(RetrospectiveState::Investigating) + in_state(RetrospectiveState::Settling);
        let over = in_state(RetrospectiveState::Closed) as u64 == batches * WORKFLOWS;
        (under_way > 0 || over).then_some(under_way)
    };
    let under_way =
        world.wait_for_with_interval(POLL_INTERVAL, "a retrospective is open, or all are closed", look).await;
    let broker = world.find_broker().expect("the broker is back");
    broker.kill();
    world
        .wait_for("another broker is running", async || {
            world.find_broker().filter(|another| *another != broker)
        })
        .await;
    under_way > 0
}

async fn emit_batch(world: &World, batch: u64) {
    let workflow = |nth| build_correcting_runs(&format!("load-{batch}-{nth}"), "deploy_service", 0..RUNS);
    let events: Vec<Value> = (0..WORKFLOWS).flat_map(workflow).collect();
    let file = world.write_events("load.jsonl", &events);
    assert_eq!(world.run_json(&["emit", &file]).await["sent"], WORKFLOWS * RUNS);
}
