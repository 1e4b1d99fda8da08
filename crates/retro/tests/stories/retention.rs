//! Purges details while the program runs; no run is counted again.

use retro_store::retention::RetentionStage;
use serde_json::{Value, json};

use crate::world::{World, build_correcting_runs, json_items};

#[tokio::test]
async fn a_run_that_is_emitted_again_after_everything_was_purged_is_not_counted_again() {
    let mut world = World::start().await;
    let runs = build_correcting_runs("release", "deploy_service", 0..12);
    world.emit_and_wait("default", "runs.jsonl", &runs).await;
    let (learnt, reports) = (world.export_canonical().await, world.verify_store().await["reports"].clone());
    purge_everything(&world).await;
    let remaining = world.run_json(&["runs"]).await;
    let remaining: Vec<_> = json_items(&remaining).iter().map(|run| run["ordinal"].as_u64()).collect();
    assert_eq!(remaining, [Some(12), Some(11)], "only runs in the open window keep their details");
    assert_eq!(world.verify_store().await["reports"], reports);
    assert_eq!(world.export_canonical().await, learnt, "learned memories stay");
    let doctor = world.run_retro(&["doctor"]).await.out;
    assert!(doctor.contains("10 bodies") && doctor.contains("12 events"), "{doctor}");

    // The same events, the same runs with new event ids, a higher attempt of a purged run, and finally a new
    // run, which is handled after all of these.
    let file = world.write_events("again.jsonl", &runs);
    world.run_json(&["emit", &file]).await;
    world.run_json(&["emit", &file, "--new-event-ids"]).await;
    let mut higher = runs[0].clone();
    (higher["id"], higher["data"]["attempt"]) = (json!("a higher attempt"), json!(7));
    let mut changed = runs[1].clone();
    changed["data"]["outcome"] = json!("failure");
    let last = build_correcting_runs("release", "deploy_service", 12..13).remove(0);
    let file = world.write_events("last.jsonl", [&higher, &changed, &last]);
    world.run_json(&["emit", &file]).await;
    world.wait_until_counted("default", 13).await;
    world.wait_until_idle().await;
    // The dead letter is stored after the rest of its batch is counted.
    let dead_letters = async || {
        let letters = world.run_json(&["dead-letters", "list"]).await;
        (!json_items(&letters).is_empty()).then_some(letters)
    };
    let letters = world.wait_for("the dead letter is stored", dead_letters).await;
    let codes: Vec<&Value> = json_items(&letters).iter().map(|dead_letter| &dead_letter["code"]).collect();
    assert_eq!(codes, ["identity_conflict"], "other content under a purged id is still detected");
    assert_eq!(json_items(&world.run_json(&["retrospectives", "list"]).await).len(), 1);
    assert_eq!(world.export_canonical().await, learnt, "replaying every event ever seen changes nothing");
    world.verify_store().await;
    world.stop().await;
}

/// Purges everything regardless of its age, using the relay's retention stages.
async fn purge_everything(world: &World) {
    let store = world.open_store().await;
    for &stage in RetentionStage::ALL {
        world
            .wait_for("a retention stage is complete", async || {
                // Retries if the file is busy.
                let purged = store.purge_stage(stage, 0, 1000).await.ok()?;
                (!purged.has_more).then_some(())
            })
            .await;
    }
}
