//! Kills the broker under load.

use retro_core::id::Tenant;
use retro_store::Store;
use serde_json::Value;

use crate::world::{World, build_correcting_runs, json_items};

const KILLS: u64 = 3;
const WORKFLOWS: u64 = 40;

#[tokio::test]
async fn a_broker_killed_under_load_comes_back_by_itself_and_every_run_is_counted_once() {
    let mut world = World::start().await;
    let (pid, url) = (world.pid(), world.nats_url().to_owned());
    let workflow = |nth| build_correcting_runs(&format!("load-{nth}"), "deploy_service", 0..10);
    let events: Vec<Value> = (0..WORKFLOWS).flat_map(workflow).collect();
    let file = world.write_events("load.jsonl", &events);
    let total = events.len() as u64;
    let mut emit = world.command(&["emit", &file]);
    let emitter = emit.output();
    let store = world.open_store().await;
    let killer = async {
        for kill in 0..KILLS {
            let some = total * kill / (KILLS + 1);
            world
                .wait_for("some runs are counted", async || (count_runs(&*store).await > some).then_some(()))
                .await;
            let broker = world.find_broker().expect("the broker is back before the next kill");
            broker.kill();
            let back = async || world.find_broker().filter(|another| *another != broker);
            world.wait_for("another broker is running", back).await;
        }
    };
    let (emitted, ()) = tokio::join!(emitter, killer);
    let emitted = emitted.unwrap();
    assert!(emitted.status.success(), "{emitted:?}\n{}", world.log_tail());
    world.wait_until_counted("default", total).await;
    world.wait_until_idle().await;

    let runs = world.run_json(&["runs", "--limit", "1000"]).await;
    assert_eq!(json_items(&runs).len() as u64, total);
    let checked = world.verify_store().await;
    assert_eq!((checked["runs"].as_u64(), checked["reports"].as_u64()), (Some(total), Some(WORKFLOWS)));
    assert_eq!(json_items(&world.run_json(&["dead-letters", "list"]).await).len(), 0);
    assert_eq!((world.pid(), world.nats_url()), (pid, url.as_str()), "only the broker was started again");
    world.stop().await;
}

async fn count_runs(store: &dyn Store) -> u64 {
    let rows = store.list_workflows(&Tenant::default_tenant()).await.expect("the store can be read");
    rows.iter().map(|row| row.state.counted).sum()
}
