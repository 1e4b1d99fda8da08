//! Runs the conformance suite of `retro-store` on SQLite, with two stores on one file.

use std::sync::Arc;

use retro_store::conformance::Database;
use retro_store_sql::SqliteStore;

use super::plans;
use crate::statements;

/// Opens two stores that share only the file, as two processes would.
async fn open() -> (Database, OpenFile) {
    statements::start_recording();
    let folder = tempfile::tempdir().expect("a folder for the file");
    let path = folder.path().join("retro.db");
    let one = SqliteStore::open_and_migrate(&path).await.expect("a fresh file");
    let two = SqliteStore::open(&path).await.expect("the same file");
    (Database { one: Arc::new(one), two: Arc::new(two) }, OpenFile(folder))
}

/// File of a case.
struct OpenFile(tempfile::TempDir);

impl OpenFile {
    /// Checks how the statements of the case would perform on large tables.
    async fn finish(self) {
        plans::assert_indexes_used(&self.0.path().join("retro.db")).await;
    }
}

retro_store::conformance!(crate::sqlite::conformance::open);
