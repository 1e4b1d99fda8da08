//! Kills the program in each of its phases and restarts it on the same folder, repeatedly, while runs arrive
//! and before it has caught up.
//!
//! To hit a phase, the test polls the database every millisecond while 200 runs of 20 workflows arrive at
//! full speed, and kills the program as soon as the phase is visible. The data that the killed program left
//! shows if the phase was hit. A kill that came too late is repeated with another batch.

use std::process::Stdio;
use std::time::Duration;

use retro_checker::{StateSource, WorkCounts};
use serde_json::{Value, json};
use tokio::process::Child;

use crate::world::{RunBuilder, World, json_items};

const WORKFLOWS: u64 = 20;
const RUNS: u64 = 10;
/// Number of kills per phase.
const KILLS: usize = 2;
/// Maximum number of batches until every phase was hit often enough.
const BATCHES_MAX: u64 = 40;
/// Polling interval. Phases last a few milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Short timeouts, so that the claims of the killed program expire soon and the broker soon delivers again what it had not
/// acknowledged.
const SHORT_TIMEOUTS: [(&str, &str); 2] = [("RETRO_LEASE_S", "2"), ("RETRO_ACK_WAIT_S", "2")];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Some of the sent runs are counted, and more are on their way.
    Counting,
    /// The program has the lease of an investigation.
    Investigating,
    /// Mutations are stored, but their retrospective is not closed.
    Settling,
    /// Some of a batch's retrospectives are written, and others are still settling.
    Writing,
}

#[tokio::test]
async fn killed_twice_in_every_phase_it_counts_every_run_once_and_leaves_nothing_open() {
    let mut world = World::empty();
    world.up_with_env(&SHORT_TIMEOUTS).await;
    let (mut emitters, mut hits) = (Vec::new(), Vec::new());
    for phase in [Phase::Counting, Phase::Investigating, Phase::Settling, Phase::Writing].repeat(KILLS) {
        let hits_before = hits.len();
        while hits.len() == hits_before {
            let batch = emitters.len() as u64 + 1;
            assert!(batch <= BATCHES_MAX, "{phase:?} was not hit; so far: {hits:#?}");
            if phase != Phase::Counting {
                wait_until_drained(&world).await;
            }
            emitters.push(spawn_emit(&world, batch));
            hits.extend(kill_in_phase(&mut world, phase, batch).await);
        }
    }
    println!("{}", hits.join("\n"));

    let batches = emitters.len() as u64;
    for emitter in emitters {
        let emitted = emitter.wait_with_output().await.unwrap();
        assert!(emitted.status.success(), "{emitted:?}\n{}", world.log_tail());
    }
    world.wait_until_counted("default", batches * WORKFLOWS * RUNS).await;
    world.wait_until_idle().await;
    let checked = world.verify_store().await;
    assert_eq!(checked["runs"], batches * WORKFLOWS * RUNS);
    assert_eq!(
        checked["retrospectives"],
        batches * WORKFLOWS,
        "one per workflow: none released or opened again"
    );
    assert_eq!(checked["reports"], batches * WORKFLOWS);
    assert_eq!(world.run_json(&["dead-letters", "list"]).await, json!([]));
    let rows = world.run_json(&["retrospectives", "list", "--limit", "1000"]).await;
    let closed = |row: &&Value| row["retrospective"]["state"] == "closed";
    assert_eq!(json_items(&rows).iter().filter(closed).count() as u64, batches * WORKFLOWS);
    world.stop().await;
}

/// Waits until no retrospective is investigating or settling, so any phase seen later was started by the
/// running program and not left by an earlier kill. Events may still be on their way.
async fn wait_until_drained(world: &World) {
    let source = open_source(world).await;
    let look = async || {
        let now = count_work(&source).await;
        (now.investigating + now.settling == 0).then_some(())
    };
    world.wait_for("nothing is investigated or settling", look).await;
}

/// Kills the program as soon as the phase is visible and restarts it. Returns a description if the phase was
/// hit.
async fn kill_in_phase(world: &mut World, phase: Phase, batch: u64) -> Option<String> {
    let source = open_source(world).await;
    let before = count_work(&source).await;
    let sent = batch * WORKFLOWS * RUNS;
    let look = async || {
        let now = count_work(&source).await;
        let over = now.counted == sent && now.investigating + now.settling == 0;
        (phase.is_visible(before, now, sent) || over).then_some(())
    };
    world.wait_for_with_interval(POLL_INTERVAL, "the phase, or the end of all work", look).await;
    world.kill().await;
    let remaining = count_work(&source).await;
    // Investigations that cannot be claimed now were leased by the killed program.
    let claimable = world.open_store().await.count_claimable().await.expect("the store can be read");
    let leased = remaining.investigating - claimable;
    world.up_with_env(&SHORT_TIMEOUTS).await;
    let hit = phase.is_visible(before, remaining, sent) && (phase != Phase::Investigating || leased > 0);
    hit.then(|| {
        format!("{phase:?}: batch {batch} ({sent} sent) left {remaining:?}, {leased} investigations leased")
    })
}

impl Phase {
    fn is_visible(self, before: WorkCounts, now: WorkCounts, sent: u64) -> bool {
        match self {
            Self::Counting => now.counted > before.counted && now.counted < sent,
            Self::Investigating => now.investigating > 0,
            Self::Settling => now.settling > 0,
            Self::Writing => now.changes > before.changes && now.settling > 0,
        }
    }
}

async fn open_source(world: &World) -> StateSource {
    StateSource::open(&world.database_address(), None).await.expect("the database exists")
}

async fn count_work(source: &StateSource) -> WorkCounts {
    source.count_work().await.expect("the database can be read")
}

fn spawn_emit(world: &World, batch: u64) -> Child {
    let file = world.write_events(&format!("batch-{batch}.jsonl"), &build_events(batch));
    let mut emit = world.command(&["emit", &file]);
    emit.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the command starts")
}

fn build_events(batch: u64) -> Vec<Value> {
    let workflows = (0..WORKFLOWS).map(|nth| format!("batch-{batch}-{nth}"));
    workflows.flat_map(|workflow| (0..RUNS).map(move |number| build_long_run(&workflow, number))).collect()
}

/// Returns a run so long that investigating it takes longer than polling the database.
fn build_long_run(workflow: &str, number: u64) -> Value {
    let mut run =
        RunBuilder::new(workflow, &format!("{workflow}-{number}")).with_message("Deploy the service.");
    for nth in 0..12 {
        let error =
            format!("Error: host {nth} of {number} refused the connection after {} ms", nth * 7 + number);
        run = run.with_call(&format!("probe_{nth}"), &json!({"host": nth}), &error).with_call(
            &format!("probe_{nth}"),
            &json!({"host": nth, "timeout_s": 30}),
            "reachable",
        );
    }
    run.with_corrected_call("deploy_service", "region").build_event()
}
