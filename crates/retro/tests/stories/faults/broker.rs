//! A broker that is killed while runs are learned from; `broker.rs` kills it while they come in.

use std::time::Duration;

use serde_json::Value;

use retro_core::id::Tenant;
use retro_core::retrospective::RetrospectiveState;

use super::{all_is_well, drawn, each_said_once};
use crate::world::{World, mending};

/// Workflows of a batch, with one window each: nothing depends on who was quicker.
const WORKFLOWS: u64 = 6;
const RUNS: u64 = 10;
const KILLS: u64 = 3;
/// Batches in which as many kills have to come in time.
const BATCHES_MAX: u64 = 40;
/// Learning from a batch takes some hundred milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_broker_killed_while_runs_are_learned_from_changes_nothing_of_what_is_learned() {
    let mut world = World::start().await;
    let (mut kills, mut batches) = (0, 0);
    while kills < KILLS {
        assert!(batches < BATCHES_MAX, "{kills} kills came in time");
        emit(&world, batches).await;
        batches += 1;
        kills += u64::from(kill_while_learning(&world, batches).await);
        world.counted("default", batches * WORKFLOWS * RUNS).await;
        world.still().await;
    }
    println!("{kills} kills within {batches} batches");
    all_is_well(&world, batches * WORKFLOWS * RUNS).await;
    each_said_once(&world).await;
    for (_, attempts) in drawn(&world).await {
        assert!(
            attempts.iter().all(|attempts| *attempts == 1),
            "an investigation needs no broker: {attempts:?}"
        );
    }
    let export = world.export().await;
    world.stop().await;

    let mut calm = World::start().await;
    for batch in 0..batches {
        emit(&calm, batch).await;
        calm.counted("default", (batch + 1) * WORKFLOWS * RUNS).await;
        calm.still().await;
    }
    let undisturbed = calm.export().await;
    assert_eq!(undisturbed.lines().zip(export.lines()).find(|(calm, killed)| calm != killed), None);
    assert_eq!(export, undisturbed);
    calm.stop().await;
}

/// Kills the broker while retrospectives are under way, and waits for its successor. Returns whether it was in time.
async fn kill_while_learning(world: &World, batches: u64) -> bool {
    let store = world.store().await;
    let look = async || {
        let rows = store.list_retrospectives(&Tenant::default_tenant(), None, 1000).await.ok()?;
        let in_state = |state| rows.iter().filter(|row| row.retrospective.state == state).count();
        let under_way = in_state(RetrospectiveState::Investigating) + in_state(RetrospectiveState::Settling);
        let over = in_state(RetrospectiveState::Closed) as u64 == batches * WORKFLOWS;
        (under_way > 0 || over).then_some(under_way)
    };
    let under_way =
        world.until_looked_every(LOOK_EVERY, "a retrospective is under way, or all are over", look).await;
    let broker = world.broker().expect("it came back before");
    broker.kill();
    world
        .until("another broker is there", async || world.broker().filter(|another| *another != broker))
        .await;
    under_way > 0
}

async fn emit(world: &World, batch: u64) {
    let workflow = |nth| mending(&format!("load-{batch}-{nth}"), "deploy_service", 0..RUNS);
    let events: Vec<Value> = (0..WORKFLOWS).flat_map(workflow).collect();
    let file = world.write_events("load.jsonl", &events);
    assert_eq!(world.ask(&["emit", &file]).await["sent"], WORKFLOWS * RUNS);
}
