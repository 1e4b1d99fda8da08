//! The program is killed in each of its phases and started again on the same folder, again and again while runs come
//! in and before it has caught up.
//!
//! A phase is hit by looking at the database every millisecond while 200 runs of 20 workflows come in unpaced, and
//! killing at the first sight of it. Whether it was hit is judged from what the killed program left behind. A kill
//! that came too late is made good by another batch.

use std::process::Stdio;
use std::time::Duration;

use retro_core::id::Tenant;
use retro_core::retrospective::RetrospectiveState;
use retro_store::Store;
use serde_json::{Value, json};
use tokio::process::Child;

use crate::world::{Run, World, items};

const WORKFLOWS: u64 = 20;
const RUNS: u64 = 10;
/// Kills in each phase.
const KILLS: usize = 2;
/// Batches of runs in which every phase has to be hit as often as wanted.
const BATCHES_MAX: u64 = 40;
/// Phases last some milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// What the dead had in hand is soon somebody else's.
const QUICK: [(&str, &str); 1] = [("RETRO_LEASE_S", "2")];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Some of the runs that were sent are counted, and more are on their way.
    Counting,
    /// An investigation is leased to the program.
    Investigating,
    /// Mutations are stored and their retrospective is not closed.
    Settling,
    /// Some of a batch's retrospectives are written, and the writer goes on to the next.
    Writing,
}

/// What the database says of the default tenant.
#[derive(Debug, Clone, Copy, Default)]
struct Sight {
    counted: u64,
    investigating: usize,
    settling: usize,
    changes: u64,
}

#[tokio::test]
async fn killed_twice_in_every_phase_it_counts_every_run_once_and_leaves_nothing_open() {
    let mut world = World::empty();
    world.up_with(&QUICK).await;
    let (mut emitters, mut hits) = (Vec::new(), Vec::new());
    for phase in [Phase::Counting, Phase::Investigating, Phase::Settling, Phase::Writing].repeat(KILLS) {
        let hits_before = hits.len();
        while hits.len() == hits_before {
            let batch = emitters.len() as u64 + 1;
            assert!(batch <= BATCHES_MAX, "{phase:?} was not hit; so far: {hits:#?}");
            if phase != Phase::Counting {
                drained(&world).await;
            }
            emitters.push(emit(&world, batch));
            hits.extend(kill_in(&mut world, phase, batch).await);
        }
    }
    println!("{}", hits.join("\n"));

    let batches = emitters.len() as u64;
    for emitter in emitters {
        let emitted = emitter.wait_with_output().await.unwrap();
        assert!(emitted.status.success(), "{emitted:?}\n{}", world.log());
    }
    world.counted("default", batches * WORKFLOWS * RUNS).await;
    world.still().await;
    let checked = world.sound().await;
    assert_eq!(checked["runs"], batches * WORKFLOWS * RUNS);
    assert_eq!(
        checked["retrospectives"],
        batches * WORKFLOWS,
        "one a workflow: none released or opened again"
    );
    assert_eq!(checked["reports"], batches * WORKFLOWS);
    assert_eq!(world.ask(&["dead-letters", "list"]).await, json!([]));
    let rows = world.ask(&["retrospectives", "list", "--limit", "1000"]).await;
    let closed = |row: &&Value| row["retrospective"]["state"] == "closed";
    assert_eq!(items(&rows).iter().filter(closed).count() as u64, batches * WORKFLOWS);
    world.stop().await;
}

/// Waits until nothing is looked into or settles, so that whatever is seen next is the running program's own doing, and
/// not what an earlier kill left. Events may still be on their way.
async fn drained(world: &World) {
    let store = world.store().await;
    let look = async || {
        let sight = Sight::of(&*store).await;
        (sight.investigating + sight.settling == 0).then_some(())
    };
    world.until("nothing is looked into or settles", look).await;
}

/// Kills at the first sight of the phase and starts again; says what was hit, if it was.
async fn kill_in(world: &mut World, phase: Phase, batch: u64) -> Option<String> {
    let store = world.store().await;
    let before = Sight::of(&*store).await;
    let sent = batch * WORKFLOWS * RUNS;
    let look = async || {
        let sight = Sight::of(&*store).await;
        let over = sight.counted == sent && sight.investigating + sight.settling == 0;
        (phase.shows(before, sight, sent) || over).then_some(())
    };
    world.until_looked_every(LOOK_EVERY, "the phase, or the end of everything", look).await;
    world.kill().await;
    let left = Sight::of(&*store).await;
    // Those that nobody may claim now were held by the killed program.
    let claimable = store.count_claimable().await.expect("it can be read");
    let leased = left.investigating as u64 - claimable;
    world.up_with(&QUICK).await;
    let hit = phase.shows(before, left, sent) && (phase != Phase::Investigating || leased > 0);
    hit.then(|| {
        format!("{phase:?}: batch {batch} ({sent} sent) left {left:?}, {leased} investigations leased")
    })
}

impl Phase {
    fn shows(self, before: Sight, now: Sight, sent: u64) -> bool {
        match self {
            Self::Counting => now.counted > before.counted && now.counted < sent,
            Self::Investigating => now.investigating > 0,
            Self::Settling => now.settling > 0,
            Self::Writing => now.changes > before.changes && now.settling > 0,
        }
    }
}

impl Sight {
    async fn of(store: &dyn Store) -> Self {
        let tenant = Tenant::default_tenant();
        let workflows = store.list_workflows(&tenant).await.expect("it can be read");
        let rows = store.list_retrospectives(&tenant, None, 1000).await.expect("it can be read");
        let count = |state| rows.iter().filter(|row| row.retrospective.state == state).count();
        Self {
            counted: workflows.iter().map(|row| row.state.counted).sum(),
            investigating: count(RetrospectiveState::Investigating),
            settling: count(RetrospectiveState::Settling),
            changes: rows.iter().map(|row| u64::from(row.changes)).sum(),
        }
    }
}

fn emit(world: &World, batch: u64) -> Child {
    let file = world.write_events(&format!("batch-{batch}.jsonl"), &events(batch));
    let mut emit = world.command(&["emit", &file]);
    emit.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn events(batch: u64) -> Vec<Value> {
    let workflows = (0..WORKFLOWS).map(|nth| format!("batch-{batch}-{nth}"));
    workflows.flat_map(|workflow| (0..RUNS).map(move |number| long_run(&workflow, number))).collect()
}

/// Long enough that looking into it takes longer than looking at the database.
fn long_run(workflow: &str, number: u64) -> Value {
    let mut run = Run::new(workflow, &format!("{workflow}-{number}")).told("Deploy the service.");
    for nth in 0..12 {
        let error =
            format!("Error: host {nth} of {number} refused the connection after {} ms", nth * 7 + number);
        run = run.call(&format!("probe_{nth}"), &json!({"host": nth}), &error).call(
            &format!("probe_{nth}"),
            &json!({"host": nth, "timeout_s": 30}),
            "reachable",
        );
    }
    run.mends("deploy_service", "region").event()
}
