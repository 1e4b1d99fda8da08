//! Applies every migration over sample rows of a live system, and then reads every row.

use retro_store::conformance::samples::{read_everything, sample_sql};
use retro_store_sql::PostgresStore;
use retro_testkit::TestPostgres;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Defines `unhex`, because the shared sample files write bytes in SQLite's notation.
const UNHEX: &str =
    "CREATE FUNCTION unhex(text) RETURNS bytea LANGUAGE sql AS $$ SELECT decode($1, 'hex') $$";

#[tokio::test]
async fn every_migration_applies_over_live_rows_and_every_row_can_be_read() {
    let server = TestPostgres::start().await;
    let mut connection = PgConnection::connect(&server.url()).await.expect("a fresh database");
    sqlx::raw_sql(UNHEX).execute(&mut connection).await.unwrap();
    let migrator = sqlx::migrate!("../../../migrations/postgres");
    for migration in migrator.iter() {
        migrator.run_to(migration.version, &mut connection).await.unwrap();
        if let Some(sample) = sample_sql(migration.version) {
            sqlx::raw_sql(AssertSqlSafe(sample)).execute(&mut connection).await.unwrap();
        }
    }
    check_every_table_has_rows(&mut connection).await;
    connection.close().await.unwrap();
    read_everything(&PostgresStore::open(&server.url()).await.unwrap()).await;
}

async fn check_every_table_has_rows(connection: &mut PgConnection) {
    const TABLES: &str = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";
    let tables: Vec<String> = sqlx::query_scalar(TABLES).fetch_all(&mut *connection).await.expect("listing");
    assert!(tables.len() > 15, "{tables:?}");
    for table in tables {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let rows: i64 = sqlx::query_scalar(count).fetch_one(&mut *connection).await.expect("counting");
        assert!(rows > 0, "{table} has no sample");
    }
}
