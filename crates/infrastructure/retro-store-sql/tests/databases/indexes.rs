//! Checks that both databases have the same indexes, so that the plans of one show what the other can do.

use std::collections::BTreeSet;

use retro_store_sql::{PostgresStore, SqliteStore};
use retro_testkit::TestPostgres;
use sqlx::{Connection as _, PgConnection, SqliteConnection};

/// Indexes that SQLite does without: of `attempts`, which has redelivered messages only, it reads all rows.
const ONLY_POSTGRES: [&str; 1] = ["attempts_by_age"];

#[tokio::test]
async fn both_databases_have_the_same_indexes() {
    const SQLITE: &str = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL";
    // Without those of primary keys and unique columns, which have no statement of their own.
    const POSTGRES: &str = "
        SELECT indexname::text FROM pg_indexes WHERE schemaname = 'public' AND indexname::text NOT IN (
            SELECT conname::text FROM pg_constraint)";
    let folder = tempfile::tempdir().expect("a folder for the file");
    let file = folder.path().join("retro.db");
    drop(SqliteStore::open_and_migrate(&file).await.expect("a fresh file"));
    let server = TestPostgres::start().await;
    drop(PostgresStore::open_and_migrate(&server.url()).await.expect("a fresh database"));
    let mut sqlite = SqliteConnection::connect(&file.display().to_string()).await.expect("the file");
    let mut postgres = PgConnection::connect(&server.url()).await.expect("the server");
    let of_sqlite: Vec<String> = sqlx::query_scalar(SQLITE).fetch_all(&mut sqlite).await.expect("the schema");
    let of_postgres: Vec<String> =
        sqlx::query_scalar(POSTGRES).fetch_all(&mut postgres).await.expect("the schema");
    let (of_sqlite, of_postgres): (BTreeSet<_>, BTreeSet<_>) =
        (of_sqlite.into_iter().collect(), of_postgres.into_iter().collect());
    assert!(of_sqlite.len() > 20, "{of_sqlite:?}");
    let only_postgres: Vec<&String> = of_postgres.difference(&of_sqlite).collect();
    assert_eq!(of_sqlite.difference(&of_postgres).count(), 0, "{of_sqlite:?}");
    assert_eq!(only_postgres, ONLY_POSTGRES);
}

#[tokio::test]
async fn the_planner_of_sqlite_knows_the_size_of_every_index() {
    // Without the indexes of primary keys of WITHOUT ROWID tables, whose statistics have the name of the table.
    const UNKNOWN: &str = "
        SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name NOT LIKE '\\_%' ESCAPE '\\'
            AND name NOT IN (SELECT idx FROM sqlite_stat1 WHERE idx IS NOT NULL)
        UNION SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'
            AND name NOT LIKE 'sqlite_%' AND name NOT IN (SELECT tbl FROM sqlite_stat1)";
    const GONE: &str = "
        SELECT idx FROM sqlite_stat1 WHERE idx IS NOT NULL AND idx NOT IN (SELECT name FROM sqlite_schema)";
    let folder = tempfile::tempdir().expect("a folder for the file");
    let file = folder.path().join("retro.db");
    drop(SqliteStore::open_and_migrate(&file).await.expect("a fresh file"));
    let mut sqlite = SqliteConnection::connect(&file.display().to_string()).await.expect("the file");
    for sql in [UNKNOWN, GONE] {
        let problems: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut sqlite).await.expect("the schema");
        assert!(
            problems.is_empty(),
            "sqlite_stat1 has to name every index, see 0009_statistics.sql: {problems:?}"
        );
    }
}
