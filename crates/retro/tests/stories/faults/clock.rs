//! Workers whose clock is an hour off, ahead and behind. Leases go by the database's clock, and nothing else that matters
//! by a worker's.

use serde_json::Value;

use super::{all_is_well, drawn, each_said_once};
use crate::world::{Fleet, Kind, Line, mending};

const EVERYTHING: &str = "counter,sampler,investigator,writer,relay";
const WORKFLOWS: u64 = 6;
const RUNS: u64 = 10;

#[tokio::test]
async fn workers_an_hour_ahead_and_behind_on_a_shared_file_leave_what_right_ones_leave() {
    an_hour_off(Kind::Sqlite).await;
}

#[tokio::test]
async fn workers_an_hour_ahead_and_behind_on_postgres_leave_what_right_ones_leave() {
    an_hour_off(Kind::Postgres).await;
}

async fn an_hour_off(kind: Kind) {
    let mut exports = Vec::new();
    for clocks in [["0", "0", "0"], ["3600", "-3600", "0"]] {
        let mut fleet = Fleet::start(kind, &[]).await;
        for clock in clocks {
            let nth = fleet.serve_with(EVERYTHING, &[("FAULT_CLOCK", clock)]);
            fleet.ready(nth).await;
        }
        let workflow = |nth| mending(&format!("load-{nth}"), "deploy_service", 0..RUNS);
        let events: Vec<Value> = (0..WORKFLOWS).flat_map(workflow).collect();
        fleet.emit("default", "load.jsonl", &events).await;
        all_is_well(&fleet, WORKFLOWS * RUNS).await;
        each_said_once(&fleet).await;
        for (_, attempts) in drawn(&fleet).await {
            assert!(
                attempts.iter().all(|attempts| *attempts == 1),
                "a lease was taken that was held: {attempts:?}"
            );
        }
        exports.push(fleet.export().await);
        fleet.stop_all().await;
    }
    assert_eq!(exports[0].lines().zip(exports[1].lines()).find(|(right, wrong)| right != wrong), None);
    assert_eq!(exports[0], exports[1]);
}

/// The holder's lease, seconds: it is renewed after two, while its question for the body is open.
const LEASE_S: i64 = 6;

/// The holder is an hour behind and the other an hour ahead, which would each be enough to lose the lease at once.
/// When the holder is stopped its lease runs out as it would for anybody.
#[tokio::test]
async fn a_lease_is_kept_and_lost_by_the_databases_clock_alone() {
    let mut fleet = Fleet::start(Kind::Postgres, &[("counter,sampler,writer,relay", 1)]).await;
    let line = Line::to(fleet.nats_url()).await;
    let lease_s = LEASE_S.to_string();
    let behind = [("NATS_URL", line.url()), ("FAULT_CLOCK", "-3600"), ("RETRO_LEASE_S", &lease_s)];
    let holder = fleet.serve_with("investigator", &behind);
    fleet.ready(holder).await;
    // It is ready, and stands still until there is a lease to take.
    let ahead = fleet.serve_with("investigator", &[("FAULT_CLOCK", "3600")]);
    fleet.ready(ahead).await;
    fleet.freeze(ahead);
    fleet.stopped(ahead).await;
    fleet.hold_up(&line).await;
    fleet.wake(ahead);
    let first = lease(&fleet).await;
    let kept = async || {
        let now = lease(&fleet).await;
        assert_eq!(now.token, first.token, "somebody took it");
        assert!((1..=LEASE_S * 1000).contains(&now.left_ms), "it is what it was asked for: {now:?}");
        (now.until_ms > first.until_ms).then_some(())
    };
    fleet.until("it is renewed", kept).await;

    fleet.freeze(holder);
    fleet.stopped(holder).await;
    // As if so much time had gone by at the database, and nowhere else.
    let gone_by =
        format!("UPDATE investigations SET lease_ms = lease_ms - {LEASE_S} * 1000 WHERE number = 1");
    fleet.postgres().execute_sql(&gone_by).await;
    fleet.still().await;
    assert!(drawn(&fleet).await[0].1[0] >= 2, "it was taken over");
    let told = fleet.whole_log().len();
    line.thaw();
    fleet.wake(holder);
    fleet.logged_after(told, "fenced").await;
    all_is_well(&fleet, RUNS).await;
    each_said_once(&fleet).await;
    fleet.stop_all().await;
}

/// The first investigation's claim, by the database's clock.
#[derive(Debug)]
struct Lease {
    token: i64,
    until_ms: i64,
    left_ms: i64,
}

async fn lease(fleet: &Fleet) -> Lease {
    let rows = fleet.postgres().execute_sql(
        "SELECT token, lease_ms, lease_ms - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
         FROM investigations WHERE number = 1",
    );
    let rows = rows.await;
    let number = |at: usize| rows[0][at].as_deref().expect("it is held").parse().expect("a number");
    Lease { token: number(0), until_ms: number(1), left_ms: number(2) }
}
