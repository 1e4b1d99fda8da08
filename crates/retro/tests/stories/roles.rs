//! Runs the roles in separate processes, started in any order and stopped at any time.

use retro_store::Store;
use serde_json::json;

use crate::world::{DatabaseKind, Fleet, FreezableProxy, build_correcting_runs, json_items};

const ROLES: [&str; 7] = ["counter", "sampler", "investigator", "writer", "reviewer", "relay", "gateway"];

#[tokio::test]
async fn roles_on_a_shared_file_wait_for_broker_and_database_and_start_by_themselves() {
    start_before_broker_and_database(DatabaseKind::Sqlite, "does not exist; run `retro migrate`").await;
}

#[tokio::test]
async fn roles_on_postgres_wait_for_broker_and_database_and_start_by_themselves() {
    start_before_broker_and_database(DatabaseKind::Postgres, "the database is not available").await;
}

/// Starts every process first, then the broker and the database, and migrates last.
async fn start_before_broker_and_database(kind: DatabaseKind, database_is_away: &str) {
    let mut fleet = Fleet::unstarted(kind).await;
    for roles in ROLES {
        fleet.serve_with_env(roles, &[("RETRO_CONTEXT_TIMEOUT_MS", "200")]);
    }
    let everyone = 0..ROLES.len();
    for nth in everyone.clone() {
        fleet.wait_until_not_ready(nth, "the broker is away").await;
        fleet.wait_until_not_ready(nth, database_is_away).await;
        assert_eq!(fleet.fetch_health(nth, "/livez").await, Some((200, "ok".to_owned())));
    }
    // Law 12: an agent still gets a response, without memories but with the reason.
    let question = json!({"workflow": "release", "step": "deploy", "run_id": "eager"});
    let context = fleet.fetch_context("default", &question).await;
    assert_eq!((&context["memories"], context["reason"].is_string()), (&json!([]), true), "{context}");

    fleet.start_broker().await;
    for nth in everyone.clone() {
        fleet.wait_until_not_ready(nth, "`retro migrate` creates it").await;
    }
    fleet.start_database().await;
    if kind == DatabaseKind::Postgres {
        for nth in everyone.clone() {
            fleet.wait_until_not_ready(nth, "the database lacks 0001_baseline").await;
        }
    }
    fleet.migrate().await;
    for nth in everyone {
        fleet.wait_until_ready(nth).await;
    }
    fleet
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..20))
        .await;
    let checked = fleet.verify_store().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(20), &json!(2)));
    assert_eq!(fleet.run_json(&["dead-letters", "list"]).await, json!([]));
    // A busy machine may exceed the timeout of the first requests.
    let has_memories =
        async || (fleet.fetch_context("default", &question).await["memories"] != json!([])).then_some(());
    fleet.wait_for("an agent gets the learned memory", has_memories).await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn one_process_with_all_roles_uses_the_given_postgres() {
    let mut fleet = Fleet::unstarted(DatabaseKind::Postgres).await;
    fleet.start_broker().await;
    fleet.start_database().await;
    fleet.up().await;
    fleet
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..10))
        .await;
    let checked = fleet.verify_store().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(10), &json!(1)));
    assert!(!fleet.data_dir().join("retro.db").exists(), "no SQLite file is created");
    fleet.stop_up().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_lost_database_is_reported_and_waiting_events_are_counted_when_it_is_back() {
    let mut fleet =
        Fleet::start(DatabaseKind::Postgres, &[("counter,relay", 2), ("sampler,investigator,writer", 1)])
            .await;
    fleet
        .emit_and_wait("default", "before.jsonl", &build_correcting_runs("before", "deploy_service", 0..10))
        .await;
    fleet.stop_database();
    for nth in 0..3 {
        fleet.wait_until_not_ready(nth, "the database").await;
    }
    let file =
        fleet.write_events("meanwhile.jsonl", &build_correcting_runs("meanwhile", "deploy_service", 0..10));
    fleet.run_json(&["emit", &file]).await;
    fleet.start_database().await;
    for nth in 0..3 {
        fleet.wait_until_ready(nth).await;
    }
    fleet.wait_until_counted("default", 20).await;
    fleet.wait_until_idle().await;
    let checked = fleet.verify_store().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(20), &json!(2)));
    assert_eq!(fleet.run_json(&["dead-letters", "list"]).await, json!([]));
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_claimed_investigation_is_released_at_shutdown_and_can_be_claimed_at_once() {
    let (mut fleet, held) = start_stalled_fleet("1").await;
    fleet.terminate(held.investigator);
    let store = fleet.open_store().await;
    fleet
        .wait_for("the investigation is free", async || (count_claimable(&*store).await == 1).then_some(()))
        .await;
    assert_eq!(fleet.wait_for_exit(held.investigator).await, Some(0), "{}", fleet.log_tail());
    let another = fleet.serve("investigator");
    fleet.wait_until_ready(another).await;
    fleet.wait_until_idle().await;

    let rows = fleet.run_json(&["retrospectives", "list"]).await;
    let report = fleet.run_json(&["reports", "show", rows[0]["retrospective"]["id"].as_str().unwrap()]).await;
    let attempts: Vec<_> =
        json_items(&report["investigations"]).iter().map(|one| one["timing"]["attempts"].clone()).collect();
    assert_eq!(attempts, vec![json!(1); attempts.len()], "the attempt was not spent: {report}");
    fleet.verify_store().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_second_signal_ends_a_process_at_once() {
    let (mut fleet, held) = start_stalled_fleet("600").await;
    fleet.terminate(held.investigator);
    fleet.wait_until_not_ready(held.investigator, "the process is stopping").await;
    fleet.interrupt(held.investigator);
    assert_eq!(fleet.wait_for_exit(held.investigator).await, Some(130), "{}", fleet.log_tail());
    let store = fleet.open_store().await;
    assert_eq!(count_claimable(&*store).await, 0, "its lease remains, as after a kill");
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_process_stopped_while_its_database_hangs_returns_its_messages_to_the_broker() {
    let mut fleet = Fleet::start(DatabaseKind::Postgres, &[("sampler,investigator,writer,relay", 1)]).await;
    let line = FreezableProxy::start(fleet.database_url()).await;
    // A long grace period: the process may wait for its database until a call times out, however late a busy
    // machine notices.
    let counter =
        fleet.serve_with_env("counter", &[("DATABASE_URL", line.url()), ("RETRO_SHUTDOWN_GRACE_S", "60")]);
    fleet.wait_until_ready(counter).await;
    line.freeze();
    let file = fleet.write_events("runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..10));
    fleet.run_json(&["emit", &file]).await;
    fleet.wait_until_not_ready(counter, "the database").await;
    fleet.terminate(counter);
    assert_eq!(fleet.wait_for_exit(counter).await, Some(0), "{}", fleet.log_tail());
    let another = fleet.serve("counter");
    fleet.wait_until_ready(another).await;
    fleet.wait_until_counted("default", 10).await;
    fleet.wait_until_idle().await;
    fleet.verify_store().await;
    assert_eq!(fleet.run_json(&["dead-letters", "list"]).await, json!([]));
    fleet.stop_all().await;
}

/// A process whose investigation cannot continue.
struct StalledInvestigation {
    investigator: usize,
    // Its frozen proxy to the broker, so the body does not arrive.
    _line: FreezableProxy,
}

/// Starts a fleet with one investigator that waits for a body. Its lease outlasts the test, and its shutdown
/// grace period is this many seconds.
async fn start_stalled_fleet(shutdown_grace_s: &str) -> (Fleet, StalledInvestigation) {
    let mut fleet = Fleet::start(DatabaseKind::Sqlite, &[("counter,sampler,writer,relay", 1)]).await;
    let line = FreezableProxy::start(fleet.nats_url()).await;
    let environment =
        [("NATS_URL", line.url()), ("RETRO_LEASE_S", "600"), ("RETRO_SHUTDOWN_GRACE_S", shutdown_grace_s)];
    let investigator = fleet.serve_with_env("investigator", &environment);
    fleet.wait_until_ready(investigator).await;
    fleet.stall_investigation(&line).await;
    (fleet, StalledInvestigation { investigator, _line: line })
}

async fn count_claimable(store: &dyn Store) -> u64 {
    store.count_claimable().await.expect("the store can be read")
}
