//! Details are purged beside a running program, and nothing is counted again.

use retro_store::retention::RetentionStage;
use serde_json::{Value, json};

use crate::world::{World, items, mending};

#[tokio::test]
async fn a_run_that_is_emitted_again_after_everything_was_purged_is_not_counted_again() {
    let mut world = World::start().await;
    let runs = mending("release", "deploy_service", 0..12);
    world.emit("default", "runs.jsonl", &runs).await;
    let (learnt, reports) = (world.export().await, world.sound().await["reports"].clone());
    purge_everything(&world).await;
    let left = world.ask(&["runs"]).await;
    let left: Vec<_> = items(&left).iter().map(|run| run["ordinal"].as_u64()).collect();
    assert_eq!(left, [Some(12), Some(11)], "only those that wait in the window are kept in detail");
    assert_eq!(world.sound().await["reports"], reports);
    assert_eq!(world.export().await, learnt, "what was learnt stays");
    let doctor = world.retro(&["doctor"]).await.out;
    assert!(doctor.contains("10 bodies") && doctor.contains("12 events"), "{doctor}");

    // The same events; the same runs under other events; a higher attempt of a purged run; and at last a new run, which
    // comes after all of them.
    let file = world.write_events("again.jsonl", &runs);
    world.ask(&["emit", &file]).await;
    world.ask(&["emit", &file, "--new-event-ids"]).await;
    let mut higher = runs[0].clone();
    (higher["id"], higher["data"]["attempt"]) = (json!("a higher attempt"), json!(7));
    let mut changed = runs[1].clone();
    changed["data"]["outcome"] = json!("failure");
    let last = mending("release", "deploy_service", 12..13).remove(0);
    let file = world.write_events("last.jsonl", [&higher, &changed, &last]);
    world.ask(&["emit", &file]).await;
    world.counted("default", 13).await;
    world.still().await;
    // Buried after its neighbours were counted.
    let buried = async || {
        let letters = world.ask(&["dead-letters", "list"]).await;
        (!items(&letters).is_empty()).then_some(letters)
    };
    let letters = world.until("its dead letter is there", buried).await;
    let codes: Vec<&Value> = items(&letters).iter().map(|letter| &letter["code"]).collect();
    assert_eq!(codes, ["identity_conflict"], "other content under a purged id is still told");
    assert_eq!(items(&world.ask(&["retrospectives", "list"]).await).len(), 1);
    assert_eq!(world.export().await, learnt, "replaying every event ever seen changes nothing");
    world.sound().await;
    world.stop().await;
}

/// As the relay does in the end, at once: whatever its age.
async fn purge_everything(world: &World) {
    let store = world.store().await;
    for stage in RetentionStage::ALL {
        world
            .until("a stage is gone through", async || {
                // A busy file is asked again.
                let purged = store.purge_stage(stage, 0, 1000).await.ok()?;
                (!purged.has_more).then_some(())
            })
            .await;
    }
}
