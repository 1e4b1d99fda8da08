//! Disks that are full: the broker's and the database's. Each is a small file system of the test's own, in memory.
//!
//! Mounting takes a right that root has. Who is not root runs the same test in name spaces of its own, where the kernel
//! allows that; where it does not, the test fails and says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{all_is_well, intake_is_drained};
use crate::world::{Fleet, Kind, Posted, Run, World, text};

const SINGLE: &str = "application/cloudevents+json";
/// Says that this is the run in name spaces.
const APART: &str = "RETRO_STORY_APART";
/// Runs that certainly fill what is left.
const RUNS_MAX: u64 = 400;

#[tokio::test]
async fn a_broker_whose_disk_is_full_loses_nothing_that_it_took_and_goes_on_when_there_is_room() {
    if ran_apart("a_broker_whose_disk_is_full_loses_nothing_that_it_took_and_goes_on_when_there_is_room") {
        return;
    }
    let mut world = World::empty();
    let disk = Disk::at(&world.data().join("nats"));
    world.up().await;
    disk.leaves(2 * MIB);
    // One after the other, so that it is known which of them it has.
    let (mut taken, refused) = fill(&world).await;
    assert_eq!((refused.status, text(&refused.body, "code")), (503, "outcome_unknown"), "{refused:?}");
    assert!(taken >= 10, "{taken} runs were taken before the disk was full");
    world.logged("nats-server cannot write").await;
    let told = world.until("it says that it is not ready", async || {
        let (status, told) = world.get("default", "/readyz").await;
        (status == 503).then_some(told)
    });
    let told = told.await;
    assert!(told.contains("disk is full") && told.contains(&*world.data().to_string_lossy()), "{told}");
    let file = world.write_events("one.jsonl", &[heavy(taken)]);
    let emitted = world.retro(&["emit", &file]).await;
    assert!(emitted.code == Some(1) && emitted.err.contains("disk"), "{emitted:?}");

    let frozen = world.broker().expect("it runs on");
    disk.has_room();
    let again = async || world.broker().filter(|broker| *broker != frozen);
    world.until("the broker is started again", again).await;
    let ready = async || (world.get("default", "/readyz").await.0 == 200).then_some(());
    world.until("it is ready again", ready).await;
    let emitted = world.ask(&["emit", &file]).await;
    assert_eq!(emitted["sent"], 1);
    taken += 1;
    while !taken.is_multiple_of(10) {
        assert_eq!(post(&world, &heavy(taken)).await.status, 202);
        taken += 1;
    }
    intake_is_drained(&world).await;
    println!("{taken} runs, every one of them counted once");
    all_is_well(&world, taken).await;
    world.stop().await;
}

#[tokio::test]
async fn a_database_whose_disk_is_full_loses_nothing_and_goes_on_by_itself_when_there_is_room() {
    if ran_apart("a_database_whose_disk_is_full_loses_nothing_and_goes_on_by_itself_when_there_is_room") {
        return;
    }
    let mut fleet = Fleet::nowhere(Kind::Sqlite).await;
    let disk = Disk::at(&fleet.data());
    fleet.start_broker().await;
    fleet.migrate().await;
    for roles in ["counter", "sampler,investigator,writer", "relay,gateway"] {
        // What could not be written is soon tried again.
        let nth = fleet.serve_with(roles, &[("RETRO_LEASE_S", "2")]);
        fleet.ready(nth).await;
    }
    disk.leaves(256 * 1024);
    // The broker has a disk of its own, and takes everything.
    let events: Vec<Value> = (0..100).map(heavy).collect();
    let file = fleet.write_events("runs.jsonl", &events);
    assert_eq!(fleet.ask(&["emit", &file]).await["sent"], 100);
    fleet.logged("the disk of the database's file has no room").await;
    assert_eq!(post(&fleet, &heavy(100)).await.status, 202);

    disk.has_room();
    for number in 101..110 {
        assert_eq!(post(&fleet, &heavy(number)).await.status, 202);
    }
    intake_is_drained(&fleet).await;
    all_is_well(&fleet, 110).await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_start_on_a_full_disk_answers_agents_and_becomes_a_start_when_there_is_room() {
    if ran_apart("a_start_on_a_full_disk_answers_agents_and_becomes_a_start_when_there_is_room") {
        return;
    }
    let mut world = World::empty();
    let disk = Disk::at(&world.data());
    // An empty one has no size to be left with.
    std::fs::write(world.data().join("somebody's"), vec![1; 64 * 1024]).expect("it can be written");
    disk.leaves(0);
    let http = world.up_waiting();
    let told = world.until("it says that it is not ready", async || {
        let (status, told) = world.get_at(&http, "/readyz").await?;
        (status == 503).then_some(told)
    });
    let told = told.await;
    assert!(told.contains("no room") && told.contains(&*world.data().to_string_lossy()), "{told}");
    assert_eq!(world.get_at(&http, "/livez").await, Some((200, "ok".to_owned())));
    let asked = serde_json::json!({"workflow": "deploy", "step": "main"}).to_string();
    let (status, answer) = world.post_at(&http, "/v1/context", &asked).await;
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!((status, &answer["memories"]), (200, &serde_json::json!([])));
    assert!(text(&answer, "reason").starts_with("no memories: "), "{answer}");
    let (status, refused) = world.post_at(&http, "/v1/events", &heavy(0).to_string()).await;
    assert!(status == 503 && refused.contains("no room"), "{status} {refused}");

    disk.has_room();
    world.up_waited(http).await;
    for number in 0..10 {
        assert_eq!(post(&world, &heavy(number)).await.status, 202);
    }
    intake_is_drained(&world).await;
    all_is_well(&world, 10).await;
    world.stop().await;
}

/// Sends runs until one is refused; returns how many were taken, and how that one was refused.
async fn fill(world: &World) -> (u64, Posted) {
    for number in 0..RUNS_MAX {
        let posted = post(world, &heavy(number)).await;
        if posted.status != 202 {
            return (number, posted);
        }
    }
    panic!("{RUNS_MAX} runs do not fill the disk");
}

async fn post(world: &World, event: &Value) -> Posted {
    world.post_events("default", SINGLE, &[], event.to_string()).await
}

/// A run of twenty kilobytes that hardly compress; ten to a workflow.
fn heavy(number: u64) -> Value {
    let mut state = number;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{state:016x} ")
    });
    let said = format!("Deploy the service. {}", noise.take(1200).collect::<String>());
    let run = Run::new(&format!("full-{}", number / 10), &format!("full-{number}")).told(&said);
    run.mends("deploy_service", "region").event()
}

const MIB: u64 = 1024 * 1024;

/// A file system in memory, whose size can be changed. Gone with the test.
struct Disk(PathBuf);

impl Disk {
    fn at(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        // The broker sets the size of its streams aside, and is refused on less.
        run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=8g", "tmpfs"]).arg(folder));
        Self(folder.to_owned())
    }

    /// As large as what it holds, and so many bytes.
    fn leaves(&self, bytes: u64) {
        let asked = Command::new("du").args(["-s", "-B1"]).arg(&self.0).output().expect("du can be run");
        let used = String::from_utf8(asked.stdout).expect("text");
        let used: u64 = used.split_whitespace().next().and_then(|used| used.parse().ok()).expect("a size");
        self.resize(&(used + bytes).to_string());
    }

    fn has_room(&self) {
        self.resize("8g");
    }

    fn resize(&self, size: &str) {
        run(Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(&self.0));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(command: &mut Command) {
    let ran = command.output().expect("mount can be run");
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Whether the test was run in name spaces of its own, since it may not mount here.
fn ran_apart(test: &str) -> bool {
    if std::env::var_os(APART).is_some() || nix::unistd::Uid::effective().is_root() {
        return false;
    }
    let this = std::env::current_exe().expect("a test is a program");
    let mut apart = Command::new("unshare");
    apart.args(["--user", "--map-root-user", "--mount"]).arg(this).env(APART, "1");
    run(apart.args(["--exact", &format!("faults::disk::{test}"), "--nocapture"]));
    true
}
