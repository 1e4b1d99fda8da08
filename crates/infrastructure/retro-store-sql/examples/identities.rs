//! Measures the bytes that an event occupies permanently: counts runs, purges their inbox rows, and prints
//! the size of each table with its indexes.
//!
//! Usage: `cargo run -p retro-store-sql --example identities -- sqlite 100000`, or `postgres`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "the example is run by hand at a terminal")]

use std::path::{Path, PathBuf};

use retro_core::count::{Arrival, IntakeProgress, count_arrivals};
use retro_core::id::{EventKey, RunId, Tenant, Workflow, WorkflowKey, derive_uuid};
use retro_core::policy::Policy;
use retro_store::retention::RetentionStage;
use retro_store::{CounterStore, IncomingBody, IncomingRun, RetentionStore, WindowsToCheck};
use retro_store_sql::{PostgresStore, SqliteStore};
use retro_testkit::TestPostgres;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

/// Tables that grow with events.
const TABLES: [&str; 4] = ["inbox", "seen_events", "runs", "run_facts"];

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let database = arguments.next().unwrap_or_else(|| "sqlite".to_owned());
    let events: usize = arguments.next().map_or(100_000, |argument| argument.parse().unwrap());
    match database.as_str() {
        "sqlite" => measure_sqlite(events).await,
        "postgres" => measure_postgres(events).await,
        other => panic!("no database {other:?}: name sqlite or postgres"),
    }
}

async fn measure_sqlite(events: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("retro.db");
    let store = SqliteStore::open_and_migrate(&path).await.unwrap();
    count_runs(&store, events).await;
    store.disconnect().await;
    print_sqlite_sizes(&path, events, "counted").await;
    let store = SqliteStore::open(&path).await.unwrap();
    while store.purge_stage(RetentionStage::Events, 0, 1000).await.unwrap().has_more {}
    store.disconnect().await;
    print_sqlite_sizes(&path, events, "inbox purged").await;
}

async fn measure_postgres(events: usize) {
    let server = TestPostgres::start().await;
    let store = PostgresStore::open_and_migrate(&server.url()).await.unwrap();
    count_runs(&store, events).await;
    print_postgres_sizes(&server.url(), events, "counted").await;
    while store.purge_stage(RetentionStage::Events, 0, 1000).await.unwrap().has_more {}
    print_postgres_sizes(&server.url(), events, "inbox purged").await;
}

/// Counts runs in batches. The threshold is never reached and opens no retrospective, so only the rows of
/// counting are measured.
async fn count_runs(store: &impl CounterStore, events: usize) {
    let policy = Policy { threshold_runs: u32::MAX, ..Policy::default() };
    let as_of = "2026-11-20T10:00:00Z".parse().unwrap();
    let count = |facts, arrivals: &[Arrival]| {
        count_arrivals(facts, arrivals, IntakeProgress::NotAwaited, &policy, as_of)
    };
    let all: Vec<usize> = (0..events).collect();
    for batch in all.chunks(500) {
        let batch: Vec<_> = batch.iter().map(|number| incoming_run(*number)).collect();
        store.count_runs(&batch, WindowsToCheck::default(), &count).await.unwrap();
    }
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
        arrival: Arrival { event, key, content_hash, position: number as u64, run },
        body: IncomingBody::None,
        trace: None,
    }
}

async fn print_sqlite_sizes(path: &Path, events: usize, when: &str) {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let mut connection = options.connect().await.unwrap();
    sqlx::query("VACUUM").execute(&mut connection).await.unwrap();
    println!("{when}, bytes an event:");
    let file = std::fs::metadata(path).unwrap().len();
    println!("  {:>8.1}  the whole file", file as f64 / events as f64);
    for table in TABLES {
        let drop = AssertSqlSafe(format!("DELETE FROM {table}; VACUUM"));
        let mut copy =
            sqlx::sqlite::SqliteConnectOptions::new().filename(copy_database(path)).connect().await.unwrap();
        sqlx::raw_sql(drop).execute(&mut copy).await.unwrap();
        copy.close().await.unwrap();
        let without = std::fs::metadata(copy_database(path)).unwrap().len();
        println!("  {:>8.1}  {table} with its indexes", (file - without) as f64 / events as f64);
        std::fs::remove_file(copy_database(path)).unwrap();
    }
    connection.close().await.unwrap();
}

/// Copies the database file into its own folder unless the copy exists, and returns the path of the copy.
fn copy_database(path: &Path) -> PathBuf {
    let copy = path.with_extension("copy");
    if !copy.exists() {
        std::fs::copy(path, &copy).unwrap();
    }
    copy
}

async fn print_postgres_sizes(url: &str, events: usize, when: &str) {
    let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
    println!("{when}, bytes an event:");
    for table in TABLES {
        let vacuum = AssertSqlSafe(format!("VACUUM FULL {table}"));
        sqlx::query(vacuum).execute(&mut connection).await.unwrap();
        let size = "SELECT pg_total_relation_size($1::regclass)";
        let bytes: i64 = sqlx::query_scalar(size).bind(table).fetch_one(&mut connection).await.unwrap();
        println!("  {:>8.1}  {table} with its indexes", bytes as f64 / events as f64);
    }
    connection.close().await.unwrap();
}
