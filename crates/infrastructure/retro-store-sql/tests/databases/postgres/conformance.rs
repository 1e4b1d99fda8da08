//! Runs the conformance suite of `retro-store` on Postgres, with two stores on one database.

use std::sync::Arc;

use retro_store::conformance::Database;
use retro_store_sql::PostgresStore;
use retro_testkit::TestPostgres;

/// Opens two stores that share only the server, as two processes would.
async fn open() -> (Database, OpenServer) {
    let server = TestPostgres::start().await;
    let one = PostgresStore::open_and_migrate(&server.url()).await.expect("a fresh database");
    let two = PostgresStore::open(&server.url()).await.expect("the same database");
    (Database { one: Arc::new(one), two: Arc::new(two) }, OpenServer { _server: server })
}

/// Server of a case.
struct OpenServer {
    _server: TestPostgres,
}

impl OpenServer {
    /// Ends the case. Its plans are checked on SQLite: the statements stand once, and the indexes are the same.
    async fn finish(self) {}
}

retro_store::conformance!(crate::postgres::conformance::open);
