//! Converts sqlx errors of SQLite to [`StoreError`].

use retro_store::{Result, StoreError};
use sqlx::error::DatabaseError;

/// Converts the error of a sqlx result to a [`StoreError`].
pub(crate) trait OnTable<T> {
    /// Converts the error and names `table` in its message.
    fn on_table(self, table: &'static str) -> Result<T>;
}

impl<T> OnTable<T> for std::result::Result<T, sqlx::Error> {
    fn on_table(self, table: &'static str) -> Result<T> {
        self.map_err(|error| match crate::translate_error(table, &error, is_transient) {
            StoreError::Unavailable(problem) if is_full(&error) => StoreError::Unavailable(format!(
                "{problem}: the disk of the database's file has no room; free some, and everything goes on by itself"
            )),
            problem => problem,
        })
    }
}

fn is_full(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|answer| primary_code(answer) == Some(FULL))
}

/// Returns `true` if another connection keeps the file locked.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|answer| primary_code(answer) == Some(BUSY))
}

const BUSY: u32 = 5;
const FULL: u32 = 13;

/// Returns the primary result code, the low byte of SQLite's extended code.
fn primary_code(answer: &dyn DatabaseError) -> Option<u32> {
    let extended = answer.code().and_then(|code| code.parse::<u32>().ok());
    extended.map(|code| code & 0xff)
}

/// Returns `true` if a result code describes a transient condition (locks, disk, memory) rather than damaged
/// data.
fn is_transient(answer: &dyn DatabaseError) -> bool {
    const PERM: u32 = 3;
    const LOCKED: u32 = 6;
    const NOMEM: u32 = 7;
    const READONLY: u32 = 8;
    const INTERRUPT: u32 = 9;
    const IOERR: u32 = 10;
    const CANTOPEN: u32 = 14;
    const PROTOCOL: u32 = 15;
    primary_code(answer).is_some_and(|code| {
        [PERM, BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL].contains(&code)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
    use sqlx::{ConnectOptions, Connection};

    use super::*;

    #[tokio::test]
    async fn a_busy_or_full_file_is_temporary_and_a_violated_constraint_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let options =
            SqliteConnectOptions::new().filename(folder.path().join("x.db")).create_if_missing(true);
        let options = options.busy_timeout(Duration::ZERO);
        let mut one = options.connect().await.unwrap();
        let mut two = options.connect().await.unwrap();
        run(&mut one, "CREATE TABLE t (a TEXT NOT NULL UNIQUE, b BLOB) STRICT").await.unwrap();
        run(&mut one, "INSERT INTO t (a) VALUES ('x')").await.unwrap();
        assert!(matches!(
            run(&mut one, "INSERT INTO t (a) VALUES ('x')").await,
            Err(StoreError::Damaged { .. })
        ));
        let held = one.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let busy = run(&mut two, "INSERT INTO t (a) VALUES ('y')").await;
        assert!(matches!(&busy, Err(StoreError::Unavailable(why)) if why.contains("locked")), "{busy:?}");
        held.rollback().await.unwrap();
        run(&mut two, "PRAGMA max_page_count = 3").await.unwrap();
        let full = run(&mut two, "INSERT INTO t (a, b) VALUES ('y', zeroblob(100000))").await;
        assert!(matches!(&full, Err(StoreError::Unavailable(why)) if why.contains("no room")), "{full:?}");
    }

    async fn run(connection: &mut SqliteConnection, sql: &'static str) -> Result<()> {
        sqlx::query(sql).execute(connection).await.on_table("t").map(|_| ())
    }
}
