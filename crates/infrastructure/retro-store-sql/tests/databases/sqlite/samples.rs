//! Applies every migration over sample rows of a live system, and then reads every row.

use std::path::Path;

use retro_store::conformance::samples::{read_everything, sample_sql};
use retro_store_sql::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection};

#[tokio::test]
async fn every_migration_applies_over_live_rows_and_every_row_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let path = folder.path().join("retro.db");
    let mut connection = create_database(&path).await;
    let migrator = sqlx::migrate!("../../../migrations/sqlite");
    for migration in migrator.iter() {
        migrator.run_to(migration.version, &mut connection).await.unwrap();
        if let Some(sample) = sample_sql(migration.version) {
            sqlx::raw_sql(AssertSqlSafe(sample)).execute(&mut connection).await.unwrap();
        }
    }
    check_database(&mut connection).await;
    connection.close().await.unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    read_everything(&store).await;
}

/// Creates the database file as [`retro_store_sql::sqlite::migrate`] does.
async fn create_database(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    options.journal_mode(SqliteJournalMode::Wal).connect().await.expect("a fresh file")
}

/// Asserts that there are no dangling references, broken pages or tables without sample rows.
async fn check_database(connection: &mut SqliteConnection) {
    let dangling =
        sqlx::query("PRAGMA foreign_key_check").fetch_all(&mut *connection).await.expect("checking");
    assert_eq!(dangling.len(), 0);
    let whole: String =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut *connection).await.expect("checking");
    assert_eq!(whole, "ok");
    const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let tables: Vec<String> = sqlx::query_scalar(TABLES).fetch_all(&mut *connection).await.expect("listing");
    for table in tables {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let rows: i64 = sqlx::query_scalar(count).fetch_one(&mut *connection).await.expect("counting");
        assert!(rows > 0, "{table} has no sample");
    }
}
