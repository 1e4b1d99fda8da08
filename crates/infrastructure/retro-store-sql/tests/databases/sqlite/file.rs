//! Tests creating, migrating, opening and sharing the database file.

use std::path::PathBuf;
use std::sync::Arc;

use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_store::{OperatorStore, RecallStore, SchemaStore, Store, StoreError};
use retro_store_sql::SqliteStore;
use retro_store_sql::sqlite::migrate;
use tempfile::TempDir;

fn new_file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let path = folder.path().join("retro.db");
    (folder, path)
}

/// Lists this program's migrations in order.
fn known_migrations() -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../migrations/sqlite");
    let files =
        std::fs::read_dir(folder).expect("the folder of migrations").map(|file| file.expect("a file"));
    let stem = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut names: Vec<String> = files.map(|file| stem(file.path())).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_missing_or_unmigrated_file_is_refused_with_a_hint() {
    let (_folder, path) = new_file();
    let error = SqliteStore::open(&path).await.unwrap_err().to_string();
    assert!(error.contains("does not exist; run `retro migrate`"), "{error}");
    assert!(!path.exists(), "opening creates nothing");
    std::fs::write(&path, "").unwrap();
    let error = SqliteStore::open(&path).await.unwrap_err().to_string();
    assert!(error.contains("lacks 0001_baseline"), "{error}");
    assert!(error.ends_with("; run `retro migrate`"), "{error}");
}

#[tokio::test]
async fn migrating_returns_the_applied_names_and_applies_each_once() {
    let (_folder, path) = new_file();
    let known = known_migrations();
    assert_eq!(migrate(&path).await.unwrap(), known);
    assert_eq!(migrate(&path).await.unwrap(), Vec::<String>::new());
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).await.unwrap());
    assert_eq!(store.load_health().await.unwrap().migrations, known.len() as u64);
}

#[tokio::test]
async fn several_processes_can_migrate_one_file_at_once() {
    let (_folder, path) = new_file();
    let (one, two, three) = tokio::join!(migrate(&path), migrate(&path), migrate(&path));
    let applied = [one, two, three].map(|result| result.unwrap().len());
    assert_eq!(applied.iter().sum::<usize>(), known_migrations().len(), "{applied:?}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_reported_as_damaged() {
    let (_folder, path) = new_file();
    std::fs::write(
        &path,
        "these are thirty-two bytes of text, and then some more of the same kind".repeat(20),
    )
    .unwrap();
    assert!(matches!(SqliteStore::open(&path).await, Err(StoreError::Damaged { .. })));
}

#[tokio::test]
async fn a_process_can_wait_for_a_file_that_is_created_later() {
    let (_folder, path) = new_file();
    let store = SqliteStore::open_lazily(&path);
    let error = store.list_missing_migrations().await.unwrap_err().to_string();
    assert!(error.contains("does not exist; run `retro migrate`"), "{error}");
    std::fs::write(&path, "").unwrap();
    assert!(store.list_missing_migrations().await.unwrap().contains(&"0001_baseline".to_owned()));
    migrate(&path).await.unwrap();
    assert_eq!(store.list_missing_migrations().await.unwrap(), Vec::<String>::new());
    assert_eq!(store.load_health().await.unwrap().events_seen, 0);
}

/// Opens the database in another process, as a shell does, and closes it again.
fn open_and_close_elsewhere(path: &std::path::Path) -> String {
    const SCRIPT: &str = "
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
print(database.execute('SELECT count(*) FROM workflows').fetchone()[0])
database.close()
";
    let done =
        std::process::Command::new("python3").args(["-c", SCRIPT]).arg(path).output().expect("python3");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).expect("a number").trim().to_owned()
}

#[tokio::test]
async fn another_program_that_closes_the_file_leaves_the_log_of_this_one_alone() {
    let (folder, path) = new_file();
    migrate(&path).await.expect("a fresh file");
    let store = SqliteStore::open(&path).await.expect("a migrated file");
    // Locks the file, as every connection in use does.
    let key =
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("shop").expect("a name") };
    let list = async || store.list_ordinals(&key).await.expect("it can be read");
    assert!(list().await.is_empty());
    RecallStore::read_ahead(&store).await;
    let log = folder.path().join("retro.db-wal");
    assert!(log.exists(), "positive control");
    assert_eq!(open_and_close_elsewhere(&path), "0");
    assert!(
        log.exists(),
        "another program took itself for the last one, because this one had lost its locks"
    );
    assert!(list().await.is_empty());
}
