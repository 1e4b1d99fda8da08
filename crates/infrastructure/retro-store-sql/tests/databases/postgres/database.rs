//! Tests addressing, migrating and opening the database, and waiting for it.

use std::path::PathBuf;
use std::sync::Arc;

use retro_store::{OperatorStore, SchemaStore, Store, StoreError};
use retro_store_sql::PostgresStore;
use retro_store_sql::postgres::{describe_address, migrate};
use retro_testkit::TestPostgres;

/// Lists this program's migrations in order.
fn known_migrations() -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../migrations/postgres");
    let files =
        std::fs::read_dir(folder).expect("the folder of migrations").map(|file| file.expect("a file"));
    let stem = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut names: Vec<String> = files.map(|file| stem(file.path())).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn an_unmigrated_database_is_refused_with_a_hint() {
    let server = TestPostgres::start().await;
    let error = PostgresStore::open(&server.url()).await.unwrap_err().to_string();
    assert!(error.contains("database postgres at 127.0.0.1:"), "{error}");
    assert!(error.contains("lacks 0001_baseline"), "{error}");
    assert!(error.ends_with("run `retro migrate`"), "{error}");
    assert_eq!(migrate(&server.url()).await.unwrap(), known_migrations());
    assert_eq!(migrate(&server.url()).await.unwrap(), Vec::<String>::new());
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&server.url()).await.unwrap());
    assert_eq!(store.load_health().await.unwrap().migrations, known_migrations().len() as u64);
}

#[tokio::test]
async fn several_processes_can_migrate_one_database_at_once() {
    let server = TestPostgres::start().await;
    let url = server.url();
    let (one, two, three) = tokio::join!(migrate(&url), migrate(&url), migrate(&url));
    let applied = [one, two, three].map(|result| result.unwrap().len());
    assert_eq!(applied.iter().sum::<usize>(), known_migrations().len(), "{applied:?}");
}

#[tokio::test]
async fn a_process_can_wait_for_a_server_that_restarts() {
    let mut server = TestPostgres::start().await;
    let store = PostgresStore::open_lazily(&server.url()).unwrap();
    assert_eq!(store.list_missing_migrations().await.unwrap(), known_migrations());
    migrate(&server.url()).await.unwrap();
    assert_eq!(store.list_missing_migrations().await.unwrap(), Vec::<String>::new());
    assert_eq!(store.load_health().await.unwrap().events_seen, 0);
    server.stop();
    let error = store.list_missing_migrations().await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("refused")), "{error}");
    server.start_again().await;
    assert_eq!(store.list_missing_migrations().await.unwrap(), Vec::<String>::new());
    assert_eq!(
        store.load_health().await.unwrap().events_seen,
        0,
        "the connection pool reaches the server again, too"
    );
}

#[tokio::test]
async fn an_error_never_shows_a_password() {
    let server = TestPostgres::start().await;
    let good = server.url().replace("retro@", "retro:hunter2@");
    for (url, problem) in [
        (good.replace("/postgres", "/nowhere"), "database \"nowhere\" does not exist"),
        (good.replace("retro:", "nobody:"), "role \"nobody\" does not exist"),
        ("postgres://retro:hunter2@127.0.0.1:1/x".to_owned(), "refused"),
        ("postgres://retro:hunter2@127.0.0.1:many/x".to_owned(), "cannot be parsed"),
        ("hunter2".to_owned(), "cannot be parsed"),
    ] {
        let opened = PostgresStore::open(&url).await.unwrap_err();
        let migrated = migrate(&url).await.unwrap_err();
        for error in [opened, migrated] {
            assert!(matches!(&error, StoreError::Unavailable(why) if why.contains(problem)), "{error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        assert!(!describe_address(&url).contains("hunter2"), "{}", describe_address(&url));
    }
    assert_eq!(
        describe_address("postgres://u:hunter2@db.example:5433/retro"),
        "database retro at db.example:5433"
    );
}
