//! Measures the bytes that an event occupies permanently: counts runs, purges their inbox rows, and prints
//! the size of each table with its indexes.
//!
//! Usage: `cargo run -p retro-store-postgres --example identities_postgres -- 100000`
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "the example is run by hand at a terminal")]

use retro_core::count::{Arrival, count_arrivals};
use retro_core::id::{EventKey, RunId, Tenant, Workflow, WorkflowKey, derive_uuid};
use retro_core::policy::Policy;
use retro_store::retention::RetentionStage;
use retro_store::{CounterStore, IncomingBody, IncomingRun, RetentionStore};
use retro_store_postgres::PostgresStore;
use retro_testkit::TestPostgres;
use sqlx::{Connection, PgConnection};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let events: usize = std::env::args().nth(1).map_or(100_000, |argument| argument.parse().unwrap());
    let server = TestPostgres::start().await;
    let store = PostgresStore::open_and_migrate(&server.url()).await.unwrap();
    // A threshold that is never reached opens no retrospective, so only the rows of counting are measured.
    let policy = Policy { threshold_runs: u32::MAX, ..Policy::default() };
    let as_of = "2026-11-20T10:00:00Z".parse().unwrap();
    let count = |facts, arrivals: &[Arrival]| count_arrivals(facts, arrivals, &policy, as_of);
    let all: Vec<usize> = (0..events).collect();
    for batch in all.chunks(500) {
        let batch: Vec<_> = batch.iter().map(|number| incoming_run(*number)).collect();
        store.count_runs(&batch, &[], &count).await.unwrap();
    }
    print_sizes(&server.url(), events, "counted").await;
    while store.purge_stage(RetentionStage::Events, 0, 1000).await.unwrap().has_more {}
    print_sizes(&server.url(), events, "inbox purged").await;
}

/// Builds a run with random-looking ids, because ids in sorted order would make the indexes smaller than in
/// practice.
fn incoming_run(number: usize) -> IncomingRun {
    let key =
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("airline-support").unwrap() };
    let id = derive_uuid("example", &[&number.to_string()]).to_string();
    let source = "https://engine.example/desk".to_owned();
    let event = EventKey { tenant: key.tenant.clone(), source, id: id.clone() };
    let run_id = RunId::new(id).unwrap();
    let run = serde_json::from_value(serde_json::json!({"run_id": run_id, "outcome": "success"})).unwrap();
    let content_hash = retro_core::canonical::sha256_hex(number.to_string().as_bytes());
    IncomingRun {
        arrival: Arrival { event, key, content_hash, run },
        body: IncomingBody::None,
        trace: None,
        position: number as u64,
    }
}

async fn print_sizes(url: &str, events: usize, when: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    println!("{when}, bytes an event:");
    for table in ["inbox", "seen_events", "runs", "run_facts"] {
        let vacuum = sqlx::AssertSqlSafe(format!("VACUUM FULL {table}"));
        sqlx::query(vacuum).execute(&mut connection).await.unwrap();
        let size = "SELECT pg_total_relation_size($1::regclass)";
        let bytes: i64 = sqlx::query_scalar(size).bind(table).fetch_one(&mut connection).await.unwrap();
        println!("  {:>8.1}  {table} with its indexes", bytes as f64 / events as f64);
    }
    connection.close().await.unwrap();
}
