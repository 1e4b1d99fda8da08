//! Roles in processes of their own: started in any order, stopped at any moment.

use retro_store::Store;
use serde_json::json;

use crate::world::{Fleet, Kind, Line, items, mending};

const ROLES: [&str; 7] = ["counter", "sampler", "investigator", "writer", "reviewer", "relay", "gateway"];

#[tokio::test]
async fn roles_on_a_shared_file_wait_for_broker_and_database_say_so_and_begin_by_themselves() {
    any_order(Kind::Sqlite, "does not exist; run `retro migrate`").await;
}

#[tokio::test]
async fn roles_on_postgres_wait_for_broker_and_database_say_so_and_begin_by_themselves() {
    any_order(Kind::Postgres, "the database is not available").await;
}

/// Every process first, then the broker, then the database, then what both hold.
async fn any_order(kind: Kind, database_is_away: &str) {
    let mut fleet = Fleet::nowhere(kind).await;
    for roles in ROLES {
        fleet.serve_with(roles, &[("RETRO_CONTEXT_TIMEOUT_MS", "200")]);
    }
    let everyone = 0..ROLES.len();
    for nth in everyone.clone() {
        fleet.misses(nth, "the broker is away").await;
        fleet.misses(nth, database_is_away).await;
        assert_eq!(fleet.health(nth, "/livez").await, Some((200, "ok".to_owned())));
    }
    // Law 12: an agent is answered all the same, with nothing and why.
    let question = json!({"workflow": "release", "step": "deploy", "run_id": "eager"});
    let context = fleet.context("default", &question).await;
    assert_eq!((&context["memories"], context["reason"].is_string()), (&json!([]), true), "{context}");

    fleet.start_broker().await;
    for nth in everyone.clone() {
        fleet.misses(nth, "`retro migrate` creates it").await;
    }
    fleet.start_database().await;
    if kind == Kind::Postgres {
        for nth in everyone.clone() {
            fleet.misses(nth, "the database lacks 0001_one_road").await;
        }
    }
    fleet.migrate().await;
    for nth in everyone {
        fleet.ready(nth).await;
    }
    fleet.emit("default", "runs.jsonl", &mending("release", "deploy_service", 0..20)).await;
    let checked = fleet.sound().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(20), &json!(2)));
    assert_eq!(fleet.ask(&["dead-letters", "list"]).await, json!([]));
    // In time, on a busy machine not always at once.
    let handed = async || (fleet.context("default", &question).await["memories"] != json!([])).then_some(());
    fleet.until("an agent is handed what was learned", handed).await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn everything_in_one_process_uses_the_postgres_that_it_is_given() {
    let mut fleet = Fleet::nowhere(Kind::Postgres).await;
    fleet.start_broker().await;
    fleet.start_database().await;
    fleet.up().await;
    fleet.emit("default", "runs.jsonl", &mending("release", "deploy_service", 0..10)).await;
    let checked = fleet.sound().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(10), &json!(1)));
    assert!(!fleet.data().join("retro.db").exists(), "no file beside it");
    fleet.stop_up().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_database_that_goes_away_is_told_and_what_came_meanwhile_is_counted_when_it_is_back() {
    let mut fleet =
        Fleet::start(Kind::Postgres, &[("counter,relay", 2), ("sampler,investigator,writer", 1)]).await;
    fleet.emit("default", "before.jsonl", &mending("before", "deploy_service", 0..10)).await;
    fleet.stop_database();
    for nth in 0..3 {
        fleet.misses(nth, "the database").await;
    }
    let file = fleet.write_events("meanwhile.jsonl", &mending("meanwhile", "deploy_service", 0..10));
    fleet.ask(&["emit", &file]).await;
    fleet.start_database().await;
    for nth in 0..3 {
        fleet.ready(nth).await;
    }
    fleet.counted("default", 20).await;
    fleet.still().await;
    let checked = fleet.sound().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(20), &json!(2)));
    assert_eq!(fleet.ask(&["dead-letters", "list"]).await, json!([]));
    fleet.stop_all().await;
}

#[tokio::test]
async fn an_investigation_in_hand_at_the_stop_is_released_and_another_process_has_it_at_once() {
    let (mut fleet, held) = held_up("1").await;
    fleet.terminate(held.investigator);
    let store = fleet.store().await;
    fleet.until("the investigation is free", async || (claimable(&*store).await == 1).then_some(())).await;
    assert_eq!(fleet.ended(held.investigator).await, Some(0), "{}", fleet.log());
    let another = fleet.serve("investigator");
    fleet.ready(another).await;
    fleet.still().await;

    let rows = fleet.ask(&["retrospectives", "list"]).await;
    let report = fleet.ask(&["reports", "show", rows[0]["retrospective"]["id"].as_str().unwrap()]).await;
    let attempts: Vec<_> =
        items(&report["investigations"]).iter().map(|one| one["timing"]["attempts"].clone()).collect();
    assert_eq!(attempts, vec![json!(1); attempts.len()], "the attempt was given back: {report}");
    fleet.sound().await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_second_signal_ends_a_process_at_once() {
    let (mut fleet, held) = held_up("600").await;
    fleet.terminate(held.investigator);
    fleet.misses(held.investigator, "the process is stopping").await;
    fleet.interrupt(held.investigator);
    assert_eq!(fleet.ended(held.investigator).await, Some(130), "{}", fleet.log());
    let store = fleet.store().await;
    assert_eq!(claimable(&*store).await, 0, "its lease stands, as after a kill");
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_process_stopped_while_its_database_says_nothing_puts_its_messages_off_and_another_counts_them() {
    let mut fleet = Fleet::start(Kind::Postgres, &[("sampler,investigator,writer,relay", 1)]).await;
    let line = Line::to(fleet.database_url()).await;
    // It may wait for its database until a call gives up on a connection, however late a busy machine says so.
    let counter =
        fleet.serve_with("counter", &[("DATABASE_URL", line.url()), ("RETRO_SHUTDOWN_GRACE_S", "60")]);
    fleet.ready(counter).await;
    line.freeze();
    let file = fleet.write_events("runs.jsonl", &mending("release", "deploy_service", 0..10));
    fleet.ask(&["emit", &file]).await;
    fleet.misses(counter, "the database").await;
    fleet.terminate(counter);
    assert_eq!(fleet.ended(counter).await, Some(0), "{}", fleet.log());
    let another = fleet.serve("counter");
    fleet.ready(another).await;
    fleet.counted("default", 10).await;
    fleet.still().await;
    fleet.sound().await;
    assert_eq!(fleet.ask(&["dead-letters", "list"]).await, json!([]));
    fleet.stop_all().await;
}

/// A process whose investigation cannot go on.
struct Held {
    investigator: usize,
    // Its line to the broker, frozen, so that the body does not come.
    _line: Line,
}

/// A fleet with one investigator, which waits for a body; its lease outlives the test, and it may finish within so many
/// seconds.
async fn held_up(shutdown_grace_s: &str) -> (Fleet, Held) {
    let mut fleet = Fleet::start(Kind::Sqlite, &[("counter,sampler,writer,relay", 1)]).await;
    let line = Line::to(fleet.nats_url()).await;
    let environment =
        [("NATS_URL", line.url()), ("RETRO_LEASE_S", "600"), ("RETRO_SHUTDOWN_GRACE_S", shutdown_grace_s)];
    let investigator = fleet.serve_with("investigator", &environment);
    fleet.ready(investigator).await;
    fleet.hold_up(&line).await;
    (fleet, Held { investigator, _line: line })
}

async fn claimable(store: &dyn Store) -> u64 {
    store.count_claimable().await.expect("it can be read")
}
