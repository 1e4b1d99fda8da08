//! Runs workers whose clocks are an hour ahead or behind. Leases use the database's clock, and nothing else
//! that matters uses a worker's clock.

use serde_json::Value;

use super::{assert_each_sent_once, assert_sound_and_complete, list_samples_and_attempts};
use crate::world::{DatabaseKind, Fleet, FreezableProxy, build_correcting_runs};

const ALL_ROLES: &str = "counter,sampler,investigator,writer,relay";
const WORKFLOWS: u64 = 6;
const RUNS: u64 = 10;

#[tokio::test]
async fn workers_with_clocks_an_hour_off_on_a_shared_file_leave_the_same_result() {
    compare_with_wrong_clocks(DatabaseKind::Sqlite).await;
}

#[tokio::test]
async fn workers_with_clocks_an_hour_off_on_postgres_leave_the_same_result() {
    compare_with_wrong_clocks(DatabaseKind::Postgres).await;
}

async fn compare_with_wrong_clocks(kind: DatabaseKind) {
    let mut exports = Vec::new();
    for clocks in [["0", "0", "0"], ["3600", "-3600", "0"]] {
        let mut fleet = Fleet::start(kind, &[]).await;
        for clock in clocks {
            let nth = fleet.serve_with_env(ALL_ROLES, &[("FAULT_CLOCK", clock)]);
            fleet.wait_until_ready(nth).await;
        }
        let workflow = |nth| build_correcting_runs(&format!("load-{nth}"), "deploy_service", 0..RUNS);
        let events: Vec<Value> = (0..WORKFLOWS).flat_map(workflow).collect();
        fleet.emit_and_wait("default", "load.jsonl", &events).await;
        assert_sound_and_complete(&fleet, WORKFLOWS * RUNS).await;
        assert_each_sent_once(&fleet).await;
        for (_, attempts) in list_samples_and_attempts(&fleet).await {
            assert!(
                attempts.iter().all(|attempts| *attempts == 1),
                "a held lease was taken over: {attempts:?}"
            );
        }
        exports.push(fleet.export_canonical().await);
        fleet.stop_all().await;
    }
    assert_eq!(exports[0].lines().zip(exports[1].lines()).find(|(right, wrong)| right != wrong), None);
    assert_eq!(exports[0], exports[1]);
}

/// Lease of the first worker, in seconds. It is renewed after two, while the request for the body is open.
const LEASE_S: i64 = 6;

/// The first worker's clock is an hour behind and the other worker's an hour ahead; by either clock, the
/// lease would be lost at once. Once the first worker is stopped, its lease expires as usual.
#[tokio::test]
async fn only_the_databases_clock_decides_when_a_lease_ends() {
    let mut fleet = Fleet::start(DatabaseKind::Postgres, &[("counter,sampler,writer,relay", 1)]).await;
    let line = FreezableProxy::start(fleet.nats_url()).await;
    let lease_s = LEASE_S.to_string();
    let behind = [("NATS_URL", line.url()), ("FAULT_CLOCK", "-3600"), ("RETRO_LEASE_S", &lease_s)];
    let holder = fleet.serve_with_env("investigator", &behind);
    fleet.wait_until_ready(holder).await;
    // Ready, then frozen until there is a lease to take over.
    let ahead = fleet.serve_with_env("investigator", &[("FAULT_CLOCK", "3600")]);
    fleet.wait_until_ready(ahead).await;
    fleet.freeze(ahead);
    fleet.wait_until_stopped(ahead).await;
    fleet.stall_investigation(&line).await;
    fleet.resume(ahead);
    let first = read_lease(&fleet).await;
    let is_renewed = async || {
        let now = read_lease(&fleet).await;
        assert_eq!(now.token, first.token, "the lease was taken over");
        assert!((1..=LEASE_S * 1000).contains(&now.left_ms), "the lease has its configured length: {now:?}");
        (now.until_ms > first.until_ms).then_some(())
    };
    fleet.wait_for("the lease is renewed", is_renewed).await;

    fleet.freeze(holder);
    fleet.wait_until_stopped(holder).await;
    // Moves the lease back, as if this much time had passed only at the database.
    let gone_by =
        format!("UPDATE investigations SET lease_ms = lease_ms - {LEASE_S} * 1000 WHERE number = 1");
    fleet.postgres().execute_sql(&gone_by).await;
    fleet.wait_until_idle().await;
    assert!(list_samples_and_attempts(&fleet).await[0].1[0] >= 2, "the investigation was taken over");
    let log_length = fleet.read_log().len();
    line.thaw();
    fleet.resume(holder);
    fleet.wait_for_log_after(log_length, "fenced").await;
    assert_sound_and_complete(&fleet, RUNS).await;
    assert_each_sent_once(&fleet).await;
    fleet.stop_all().await;
}

/// Lease of the first investigation, by the database's clock.
#[derive(Debug)]
struct Lease {
    token: i64,
    until_ms: i64,
    left_ms: i64,
}

async fn read_lease(fleet: &Fleet) -> Lease {
    let rows = fleet.postgres().execute_sql(
        "SELECT token, lease_ms, lease_ms - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
         FROM investigations WHERE number = 1",
    );
    let rows = rows.await;
    let number = |at: usize| rows[0][at].as_deref().expect("the lease is held").parse().expect("a number");
    Lease { token: number(0), until_ms: number(1), left_ms: number(2) }
}
