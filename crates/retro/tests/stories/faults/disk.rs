//! Fills the disks of the broker and of the database, each a small in-memory file system of the test.
//!
//! Mounting requires root. Without root, the test runs itself in namespaces of its own if the kernel allows
//! that, and otherwise fails with an explanation.

use std::process::Command;

use serde_json::Value;

use super::{assert_sound_and_complete, wait_until_intake_drained};
use crate::world::{
    DatabaseKind, EventsResponse, Fleet, RunBuilder, TestDisk, World, json_text, run_checked,
};

const SINGLE: &str = "application/cloudevents+json";
/// Marks the run inside its own namespaces.
const NAMESPACE_VARIABLE: &str = "RETRO_STORY_APART";
/// Number of runs that certainly fill the free space.
const RUNS_MAX: u64 = 400;

#[tokio::test]
async fn a_broker_with_a_full_disk_loses_no_accepted_run_and_continues_when_there_is_room() {
    if ran_in_namespaces("a_broker_with_a_full_disk_loses_no_accepted_run_and_continues_when_there_is_room") {
        return;
    }
    let mut world = World::empty();
    let disk = TestDisk::mount(&world.data_dir().join("nats"));
    world.up().await;
    disk.leave_free(2 * MIB);
    // One after the other, so the test knows which of them were accepted.
    let (mut accepted, refused) = fill_disk(&world).await;
    assert_eq!((refused.status, json_text(&refused.body, "code")), (503, "outcome_unknown"), "{refused:?}");
    assert!(accepted >= 10, "{accepted} runs were accepted before the disk was full");
    world.wait_for_log("nats-server cannot write").await;
    let readiness = world.wait_for("the program reports that it is not ready", async || {
        let (status, readiness) = world.get("default", "/readyz").await;
        (status == 503).then_some(readiness)
    });
    let readiness = readiness.await;
    assert!(
        readiness.contains("disk is full") && readiness.contains(&*world.data_dir().to_string_lossy()),
        "{readiness}"
    );
    let file = world.write_events("one.jsonl", &[build_incompressible_run(accepted)]);
    let emitted = world.run_retro(&["emit", &file]).await;
    assert!(emitted.code == Some(1) && emitted.err.contains("disk"), "{emitted:?}");

    let frozen = world.find_broker().expect("the broker still runs");
    disk.make_room();
    let again = async || world.find_broker().filter(|broker| *broker != frozen);
    world.wait_for("the broker is started again", again).await;
    let ready = async || (world.get("default", "/readyz").await.0 == 200).then_some(());
    world.wait_for("the program is ready again", ready).await;
    let emitted = world.run_json(&["emit", &file]).await;
    assert_eq!(emitted["sent"], 1);
    accepted += 1;
    while !accepted.is_multiple_of(10) {
        // An emitter sends an event again whose outcome is unknown; the event is counted once.
        let event = build_incompressible_run(accepted);
        let accepts = async || (post_event(&world, &event).await.status == 202).then_some(());
        world.wait_for("the event is accepted", accepts).await;
        accepted += 1;
    }
    wait_until_intake_drained(&world).await;
    println!("{accepted} runs, every one of them counted once");
    assert_sound_and_complete(&world, accepted).await;
    world.stop().await;
}

#[tokio::test]
async fn a_database_with_a_full_disk_loses_nothing_and_continues_when_there_is_room() {
    if ran_in_namespaces("a_database_with_a_full_disk_loses_nothing_and_continues_when_there_is_room") {
        return;
    }
    let mut fleet = Fleet::unstarted(DatabaseKind::Sqlite).await;
    let disk = TestDisk::mount(&fleet.data_dir());
    fleet.start_broker().await;
    fleet.migrate().await;
    for roles in ["counter", "sampler,investigator,writer", "relay,gateway"] {
        // A short lease, so work that could not be written is soon retried.
        let nth = fleet.serve_with_env(roles, &[("RETRO_LEASE_S", "2")]);
        fleet.wait_until_ready(nth).await;
    }
    disk.leave_free(256 * 1024);
    // The broker is on another disk and accepts everything.
    let events: Vec<Value> = (0..100).map(build_incompressible_run).collect();
    let file = fleet.write_events("runs.jsonl", &events);
    assert_eq!(fleet.run_json(&["emit", &file]).await["sent"], 100);
    fleet.wait_for_log("the disk of the database's file has no room").await;
    assert_eq!(post_event(&fleet, &build_incompressible_run(100)).await.status, 202);

    disk.make_room();
    for number in 101..110 {
        assert_eq!(post_event(&fleet, &build_incompressible_run(number)).await.status, 202);
    }
    wait_until_intake_drained(&fleet).await;
    assert_sound_and_complete(&fleet, 110).await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_start_on_a_full_disk_answers_agents_and_completes_when_there_is_room() {
    if ran_in_namespaces("a_start_on_a_full_disk_answers_agents_and_completes_when_there_is_room") {
        return;
    }
    let mut world = World::empty();
    let disk = TestDisk::mount(&world.data_dir());
    // An empty file system could not be shrunk to its content.
    std::fs::write(world.data_dir().join("somebody's"), vec![1; 64 * 1024]).expect("a writable file");
    disk.leave_free(0);
    let http = world.up_without_waiting();
    let readiness = world.wait_for("the program reports that it is not ready", async || {
        let (status, readiness) = world.get_from(&http, "/readyz").await?;
        (status == 503).then_some(readiness)
    });
    let readiness = readiness.await;
    assert!(
        readiness.contains("no room") && readiness.contains(&*world.data_dir().to_string_lossy()),
        "{readiness}"
    );
    assert_eq!(world.get_from(&http, "/livez").await, Some((200, "ok".to_owned())));
    let question = serde_json::json!({"workflow": "deploy", "step": "main"}).to_string();
    let (status, answer) = world.post_to(&http, "/v1/context", &question).await;
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!((status, &answer["memories"]), (200, &serde_json::json!([])));
    assert!(json_text(&answer, "reason").starts_with("no memories: "), "{answer}");
    let (status, refused) =
        world.post_to(&http, "/v1/events", &build_incompressible_run(0).to_string()).await;
    assert!(status == 503 && refused.contains("no room"), "{status} {refused}");

    disk.make_room();
    world.wait_until_up(http).await;
    for number in 0..10 {
        assert_eq!(post_event(&world, &build_incompressible_run(number)).await.status, 202);
    }
    wait_until_intake_drained(&world).await;
    assert_sound_and_complete(&world, 10).await;
    world.stop().await;
}

/// Sends runs until one is rejected. Returns the number of accepted runs and the rejection.
async fn fill_disk(world: &World) -> (u64, EventsResponse) {
    for number in 0..RUNS_MAX {
        let posted = post_event(world, &build_incompressible_run(number)).await;
        if posted.status != 202 {
            return (number, posted);
        }
    }
    panic!("{RUNS_MAX} runs do not fill the disk");
}

async fn post_event(world: &World, event: &Value) -> EventsResponse {
    world.post_events("default", SINGLE, &[], event.to_string()).await
}

/// Returns a run of twenty kilobytes that hardly compress. Each workflow has ten.
fn build_incompressible_run(number: u64) -> Value {
    let mut state = number;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{state:016x} ")
    });
    let message = format!("Deploy the service. {}", noise.take(1200).collect::<String>());
    let run =
        RunBuilder::new(&format!("full-{}", number / 10), &format!("full-{number}")).with_message(&message);
    run.with_corrected_call("deploy_service", "region").build_event()
}

const MIB: u64 = 1024 * 1024;

/// Returns `true` if the test was run in its own namespaces because it may not mount here.
fn ran_in_namespaces(test: &str) -> bool {
    if std::env::var_os(NAMESPACE_VARIABLE).is_some() || nix::unistd::Uid::effective().is_root() {
        return false;
    }
    let this = std::env::current_exe().expect("the test binary");
    let mut apart = Command::new("unshare");
    apart.args(["--user", "--map-root-user", "--mount"]).arg(this).env(NAMESPACE_VARIABLE, "1");
    run_checked(apart.args(["--exact", &format!("faults::disk::{test}"), "--nocapture"]));
    true
}
