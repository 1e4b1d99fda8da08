//! The broker dies under load.

use retro_core::id::Tenant;
use retro_store::Store;
use serde_json::Value;

use crate::world::{World, items, mending};

const KILLS: u64 = 3;
const WORKFLOWS: u64 = 40;

#[tokio::test]
async fn a_broker_killed_under_load_comes_back_by_itself_and_every_run_is_counted_once() {
    let mut world = World::start().await;
    let (pid, url) = (world.pid(), world.nats_url().to_owned());
    let workflow = |nth| mending(&format!("load-{nth}"), "deploy_service", 0..10);
    let events: Vec<Value> = (0..WORKFLOWS).flat_map(workflow).collect();
    let file = world.write_events("load.jsonl", &events);
    let total = events.len() as u64;
    let mut emit = world.command(&["emit", &file]);
    let emitter = emit.output();
    let store = world.store().await;
    let killer = async {
        for kill in 0..KILLS {
            let some = total * kill / (KILLS + 1);
            world
                .until("some runs are counted", async || (counted(&*store).await > some).then_some(()))
                .await;
            let broker = world.broker().expect("it is back before it is killed again");
            broker.kill();
            let back = async || world.broker().filter(|another| *another != broker);
            world.until("another broker is there", back).await;
        }
    };
    let (emitted, ()) = tokio::join!(emitter, killer);
    let emitted = emitted.unwrap();
    assert!(emitted.status.success(), "{emitted:?}\n{}", world.log());
    world.counted("default", total).await;
    world.still().await;

    let runs = world.ask(&["runs", "--limit", "1000"]).await;
    assert_eq!(items(&runs).len() as u64, total);
    let checked = world.sound().await;
    assert_eq!((checked["runs"].as_u64(), checked["reports"].as_u64()), (Some(total), Some(WORKFLOWS)));
    assert_eq!(items(&world.ask(&["dead-letters", "list"]).await).len(), 0);
    assert_eq!((world.pid(), world.nats_url()), (pid, url.as_str()), "only the broker was started again");
    world.stop().await;
}

async fn counted(store: &dyn Store) -> u64 {
    let rows = store.list_workflows(&Tenant::default_tenant()).await.expect("it can be read");
    rows.iter().map(|row| row.state.counted).sum()
}
