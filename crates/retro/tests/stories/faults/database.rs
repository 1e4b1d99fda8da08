//! Runs on a Postgres that terminates connections, restarts, or loses its responses to COMMIT.

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

use super::{
    assert_each_sent_once, assert_sound_after_faults, assert_sound_and_complete, wait_until_intake_drained,
};
use crate::world::{DatabaseKind, Fleet, build_correcting_runs};

const WORKFLOWS: u64 = 10;
const RUNS: u64 = 10;
/// All roles, with two counters.
const ROLES: [(&str, usize); 3] = [("counter", 2), ("sampler,investigator", 1), ("writer,relay", 1)];
/// Polling interval. Steps last a few milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// A short lease, so a claim whose response was lost is soon taken over.
const SHORT_LEASE: (&str, &str) = ("RETRO_LEASE_S", "2");

fn build_events() -> Vec<Value> {
    (0..WORKFLOWS)
        .flat_map(|nth| build_correcting_runs(&format!("load-{nth}"), "deploy_service", 0..RUNS))
        .collect()
}

/// Starts a fleet with all roles and waits until it is ready.
async fn start_fleet() -> Fleet {
    let mut fleet = Fleet::start(DatabaseKind::Postgres, &[]).await;
    for (roles, processes) in ROLES {
        for _ in 0..processes {
            let nth = fleet.serve_with_env(roles, &[SHORT_LEASE]);
            fleet.wait_until_ready(nth).await;
        }
    }
    fleet
}

/// Starts to emit a share of the events, to have work while the fault lasts.
fn emit_share(fleet: &Fleet, share: usize, of: usize) -> JoinHandle<std::io::Result<Output>> {
    let events = build_events();
    let part = share * events.len() / of..(share + 1) * events.len() / of;
    let file = fleet.write_events(&format!("{share}.jsonl"), &events[part]);
    tokio::spawn(fleet.command(&["emit", &file]).output())
}

/// Waits until every emitter has succeeded.
async fn wait_for_emitters(emitters: Vec<JoinHandle<std::io::Result<Output>>>) {
    for emitter in emitters {
        let emitted = emitter.await.expect("the task does not panic").expect("the command starts");
        assert!(emitted.status.success(), "{emitted:?}");
    }
}

/// Returns a measure of the work done so far: counted runs, opened retrospectives, written results and
/// changes.
async fn measure_progress(store: &dyn Store) -> Option<u64> {
    let tenant = Tenant::default_tenant();
    let counted: u64 = store.list_workflows(&tenant).await.ok()?.iter().map(|row| row.state.counted).sum();
    let rows = store.list_retrospectives(&tenant, None, 1000).await.ok()?;
    let learned = rows.iter().map(|row| u64::from(row.investigated + row.changes) + 1).sum::<u64>();
    Some(counted + learned)
}

#[tokio::test]
async fn runs_are_counted_once_while_every_backend_is_terminated_repeatedly() {
    const TERMINATIONS: usize = 10;
    let fleet = start_fleet().await;
    let store = fleet.open_store().await;
    let (mut done, mut ended, mut emitters) = (0, 0, Vec::new());
    for nth in 0..TERMINATIONS {
        emitters.push(emit_share(&fleet, nth, TERMINATIONS));
        // The test's own connection may be among the terminated ones.
        let on = async || measure_progress(&*store).await.filter(|now| *now > done);
        done = fleet.wait_for_with_interval(POLL_INTERVAL, "there is progress", on).await;
        let rows = fleet.postgres().execute_sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'retro'",
        );
        ended += rows.await[0][0].as_deref().expect("a count").parse::<u64>().expect("a number");
    }
    println!("{ended} connections ended in {TERMINATIONS} rounds, the last after {done} steps");
    assert!(ended >= TERMINATIONS as u64);
    wait_for_emitters(emitters).await;
    wait_until_intake_drained(&fleet).await;
    assert_sound_and_complete(&fleet, WORKFLOWS * RUNS).await;
    assert_each_sent_once(&fleet).await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_postgres_that_crashes_under_load_loses_no_run_and_counts_none_twice() {
    const CRASHES: usize = 3;
    let mut fleet = start_fleet().await;
    let store = fleet.open_store().await;
    let (mut done, mut emitters) = (0, Vec::new());
    for nth in 0..CRASHES {
        emitters.push(emit_share(&fleet, nth, CRASHES));
        let on = async || measure_progress(&*store).await.filter(|now| *now > done);
        done = fleet.wait_for_with_interval(POLL_INTERVAL, "there is progress", on).await;
        fleet.stop_database();
        for nth in 0..fleet.process_count() {
            fleet.wait_until_not_ready(nth, "the database").await;
        }
        fleet.start_database().await;
    }
    wait_for_emitters(emitters).await;
    wait_until_intake_drained(&fleet).await;
    println!("{CRASHES} crashes, the last after {done} steps");
    assert_sound_and_complete(&fleet, WORKFLOWS * RUNS).await;
    assert_each_sent_once(&fleet).await;
    fleet.stop_all().await;
}

/// The server commits and the connection breaks before its response, so the client does not know the outcome.
#[tokio::test]
async fn a_commit_whose_answer_is_lost_takes_effect_once() {
    /// A claim whose response is lost costs its lease and one of three attempts. One commit in ten is rare
    /// enough that every window still has investigations that succeed.
    const MUTE_EVERY: u64 = 10;
    let mut fleet = Fleet::start(DatabaseKind::Postgres, &[]).await;
    let line = MutingProxy::start(fleet.database_url(), MUTE_EVERY).await;
    for roles in ["counter", "sampler,investigator", "writer,relay"] {
        let nth = fleet.serve_with_env(roles, &[("DATABASE_URL", &line.url), SHORT_LEASE]);
        fleet.wait_until_ready(nth).await;
    }
    let file = fleet.write_events("load.jsonl", &build_events());
    fleet.run_json(&["emit", &file]).await;
    fleet.wait_until_counted("default", WORKFLOWS * RUNS).await;
    fleet.wait_until_idle().await;
    let (commits, muted) = (line.commits.load(Ordering::SeqCst), line.muted.load(Ordering::SeqCst));
    println!("{muted} of {commits} commits were not answered");
    assert!(muted >= 10, "{muted} of {commits}");
    wait_until_intake_drained(&fleet).await;
    assert_sound_after_faults(&fleet, WORKFLOWS * RUNS, muted).await;
    assert_each_sent_once(&fleet).await;
    fleet.stop_all().await;
}

/// A proxy to Postgres that breaks the connection between every n-th COMMIT and its response.
struct MutingProxy {
    url: String,
    commits: Arc<AtomicU64>,
    muted: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl MutingProxy {
    async fn start(url: &str, every: u64) -> Self {
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
                tokio::spawn(forward_until_muted(near, far, every, counts.clone()));
            }
        });
        Self { url, commits, muted, task }
    }
}

impl Drop for MutingProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// `COMMIT` as a simple query of the Postgres protocol.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

async fn forward_until_muted(
    mut near: TcpStream,
    mut far: TcpStream,
    every: u64,
    counts: (Arc<AtomicU64>, Arc<AtomicU64>),
) {
    let (mut request_bytes, mut answer_bytes) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut muted = false;
    loop {
        tokio::select! {
            read = near.read(&mut request_bytes) => {
                let Ok(read @ 1..) = read else { return };
                if request_bytes[..read].windows(COMMIT.len()).any(|part| part == COMMIT) {
                    let commit = counts.0.fetch_add(1, Ordering::SeqCst) + 1;
                    muted = commit.is_multiple_of(every);
                }
                if far.write_all(&request_bytes[..read]).await.is_err() { return }
            }
            read = far.read(&mut answer_bytes) => {
                let Ok(read @ 1..) = read else { return };
                if muted {
                    // The server has responded, so it has committed. Close both connections without
                    // forwarding the response.
                    counts.1.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                if near.write_all(&answer_bytes[..read]).await.is_err() { return }
            }
        }
    }
}
