//! Runs the conformance suite of `retro-store` on Postgres, with two stores on one database.

use std::sync::Arc;

use retro_store::conformance::Database;
use retro_store_sql::PostgresStore;
use retro_testkit::{TEST_TIMEOUT, TestPostgres};

use crate::SMALL_TABLES;
use crate::statements::{executed_statements, reason_to_read_all, start_recording};

/// Opens two stores that share only the server, as two processes would. The planner avoids reading whole tables, so it
/// does so only where no index can be used.
async fn open() -> (Database, OpenServer) {
    start_recording();
    let server = TestPostgres::start().await;
    drop(PostgresStore::open_and_migrate(&server.url()).await.expect("a fresh database"));
    end_sessions(&server).await;
    server.execute_sql("SELECT pg_stat_reset()").await;
    let url = format!("{}?options[enable_seqscan]=off", server.url());
    let one = PostgresStore::open(&url).await.expect("the migrated database");
    let two = PostgresStore::open(&url).await.expect("the same database");
    (Database { one: Arc::new(one), two: Arc::new(two) }, OpenServer { server })
}

/// Ends the sessions of the stores. Only then has each published which tables it read.
async fn end_sessions(server: &TestPostgres) {
    const END: &str = "
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let ended = async {
        while !server.execute_sql(END).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, ended).await.expect("the sessions of the stores end");
}

/// Server of a case.
struct OpenServer {
    server: TestPostgres,
}

impl OpenServer {
    /// Ends the case. Panics if a statement of it read a whole table.
    async fn finish(self) {
        const READ: &str = "SELECT relname::text FROM pg_stat_user_tables WHERE seq_scan > 0 ORDER BY 1";
        end_sessions(&self.server).await;
        let read = self.server.execute_sql(READ).await;
        // The server does not say which statement it was.
        let executed = executed_statements();
        let has_reason =
            |table: &str| executed.iter().any(|sql| reason_to_read_all(sql).is_some() && sql.contains(table));
        let read = read.into_iter().flatten().flatten();
        let read: Vec<String> =
            read.filter(|table| !SMALL_TABLES.contains(&table.as_str()) && !has_reason(table)).collect();
        let of_table = |sql: &&String| read.iter().any(|table| sql.contains(table.as_str()));
        let candidates: Vec<&String> = executed.iter().filter(of_table).collect();
        assert!(read.is_empty(), "one of these used no index on {read:?}: {candidates:#?}");
    }
}

retro_store::conformance!(crate::postgres::conformance::open);
