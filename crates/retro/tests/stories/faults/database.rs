//! A Postgres that ends its connections, is started again, and answers a COMMIT to nobody.

use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use retro_core::id::Tenant;
use retro_store::Store;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{all_is_well, each_said_once, intake_is_drained};
use crate::world::{Fleet, Kind, mending};

const WORKFLOWS: u64 = 10;
const RUNS: u64 = 10;
/// Every role, the counter twice.
const ROLES: [(&str, usize); 3] = [("counter", 2), ("sampler,investigator", 1), ("writer,relay", 1)];
/// Steps last some milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// A claim whose answer is lost is soon somebody else's.
const QUICK: (&str, &str) = ("RETRO_LEASE_S", "2");

fn events() -> Vec<Value> {
    (0..WORKFLOWS).flat_map(|nth| mending(&format!("load-{nth}"), "deploy_service", 0..RUNS)).collect()
}

/// A fleet with every role, ready.
async fn fleet() -> Fleet {
    let mut fleet = Fleet::start(Kind::Postgres, &[]).await;
    for (roles, processes) in ROLES {
        for _ in 0..processes {
            let nth = fleet.serve_with(roles, &[QUICK]);
            fleet.ready(nth).await;
        }
    }
    fleet
}

/// Begins to emit a share of the events, so that there is something to do until it is done.
fn emit(fleet: &Fleet, share: usize, of: usize) -> JoinHandle<std::io::Result<Output>> {
    let events = events();
    let part = share * events.len() / of..(share + 1) * events.len() / of;
    let file = fleet.write_events(&format!("{share}.jsonl"), &events[part]);
    tokio::spawn(fleet.command(&["emit", &file]).output())
}

/// Every share was taken by the broker in the end.
async fn emitted(emitters: Vec<JoinHandle<std::io::Result<Output>>>) {
    for emitter in emitters {
        let emitted = emitter.await.expect("it is waited for").expect("it starts");
        assert!(emitted.status.success(), "{emitted:?}");
    }
}

/// How much was done so far: runs counted, retrospectives opened, results and changes written.
async fn progress(store: &dyn Store) -> Option<u64> {
    let tenant = Tenant::default_tenant();
    let counted: u64 = store.list_workflows(&tenant).await.ok()?.iter().map(|row| row.state.counted).sum();
    let rows = store.list_retrospectives(&tenant, None, 1000).await.ok()?;
    let learned = rows.iter().map(|row| u64::from(row.investigated + row.changes) + 1).sum::<u64>();
    Some(counted + learned)
}

#[tokio::test]
async fn with_every_backend_terminated_again_and_again_each_run_is_counted_and_learned_from_once() {
    const TERMINATIONS: usize = 10;
    let fleet = fleet().await;
    let store = fleet.store().await;
    let (mut done, mut ended, mut emitters) = (0, 0, Vec::new());
    for nth in 0..TERMINATIONS {
        emitters.push(emit(&fleet, nth, TERMINATIONS));
        // A look of our own may be among those that are ended.
        let on = async || progress(&*store).await.filter(|now| *now > done);
        done = fleet.until_looked_every(LOOK_EVERY, "something was done since", on).await;
        let rows = fleet.postgres().execute_sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'retro'",
        );
        ended += rows.await[0][0].as_deref().expect("a count").parse::<u64>().expect("a number");
    }
    println!("{ended} connections ended in {TERMINATIONS} rounds, the last after {done} steps");
    assert!(ended >= TERMINATIONS as u64);
    emitted(emitters).await;
    intake_is_drained(&fleet).await;
    all_is_well(&fleet, WORKFLOWS * RUNS).await;
    each_said_once(&fleet).await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_postgres_that_crashes_under_load_loses_no_run_and_counts_none_twice() {
    const CRASHES: usize = 3;
    let mut fleet = fleet().await;
    let store = fleet.store().await;
    let (mut done, mut emitters) = (0, Vec::new());
    for nth in 0..CRASHES {
        emitters.push(emit(&fleet, nth, CRASHES));
        let on = async || progress(&*store).await.filter(|now| *now > done);
        done = fleet.until_looked_every(LOOK_EVERY, "something was done since", on).await;
        fleet.stop_database();
        for nth in 0..fleet.processes() {
            fleet.misses(nth, "the database").await;
        }
        fleet.start_database().await;
    }
    emitted(emitters).await;
    intake_is_drained(&fleet).await;
    println!("{CRASHES} crashes, the last after {done} steps");
    all_is_well(&fleet, WORKFLOWS * RUNS).await;
    each_said_once(&fleet).await;
    fleet.stop_all().await;
}

/// The server has committed, and the connection breaks before it says so: whoever asked cannot know.
#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_an_unknown_outcome_and_done_once() {
    /// A claim whose answer is lost costs its lease and one of three attempts: rare enough that three in a row are none.
    const EVERY: u64 = 10;
    let mut fleet = Fleet::start(Kind::Postgres, &[]).await;
    let line = Mute::to(fleet.database_url(), EVERY).await;
    for roles in ["counter", "sampler,investigator", "writer,relay"] {
        let nth = fleet.serve_with(roles, &[("DATABASE_URL", &line.url), QUICK]);
        fleet.ready(nth).await;
    }
    let file = fleet.write_events("load.jsonl", &events());
    fleet.ask(&["emit", &file]).await;
    fleet.counted("default", WORKFLOWS * RUNS).await;
    fleet.still().await;
    let (commits, muted) = (line.commits.load(Ordering::SeqCst), line.muted.load(Ordering::SeqCst));
    println!("{muted} of {commits} commits were not answered");
    assert!(muted >= 10, "{muted} of {commits}");
    intake_is_drained(&fleet).await;
    all_is_well(&fleet, WORKFLOWS * RUNS).await;
    each_said_once(&fleet).await;
    fleet.stop_all().await;
}

/// A line to Postgres that breaks between a COMMIT and its answer, every so many times.
struct Mute {
    url: String,
    commits: Arc<AtomicU64>,
    muted: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Mute {
    async fn to(url: &str, every: u64) -> Self {
        let (_, after) = url.split_once('@').expect("a user");
        let target = after.split('/').next().expect("a host").to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let near = listener.local_addr().expect("a bound port");
        let url = url.replace(&target, &near.to_string());
        let (commits, muted) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let counts = (commits.clone(), muted.clone());
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(&target).await else { continue };
                tokio::spawn(pass(near, far, every, counts.clone()));
            }
        });
        Self { url, commits, muted, task }
    }
}

impl Drop for Mute {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A simple query of nothing but the word.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

async fn pass(mut near: TcpStream, mut far: TcpStream, every: u64, counts: (Arc<AtomicU64>, Arc<AtomicU64>)) {
    let (mut asked, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut muted = false;
    loop {
        tokio::select! {
            read = near.read(&mut asked) => {
                let Ok(read @ 1..) = read else { return };
                if asked[..read].windows(COMMIT.len()).any(|part| part == COMMIT) {
                    let commit = counts.0.fetch_add(1, Ordering::SeqCst) + 1;
                    muted = commit.is_multiple_of(every);
                }
                if far.write_all(&asked[..read]).await.is_err() { return }
            }
            read = far.read(&mut answered) => {
                let Ok(read @ 1..) = read else { return };
                if muted {
                    // It has answered, so it has committed. Both ends are closed, and nobody is told.
                    counts.1.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                if near.write_all(&answered[..read]).await.is_err() { return }
            }
        }
    }
}
