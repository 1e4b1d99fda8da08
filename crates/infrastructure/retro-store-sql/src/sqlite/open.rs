//! Opens and migrates the SQLite file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backon::{ConstantBuilder, Retryable as _};
use retro_fault::{Label, run_step};
use retro_store::{AGENT_CONNECTIONS_MAX, Result, SchemaStore, StoreError};
use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Sqlite, SqliteConnection, SqlitePool, Transaction};

use super::errors::{OnTable, is_busy};
use super::read_ahead::read_ahead;

/// Maximum time that a statement waits for another writing process. Transactions take milliseconds, so this
/// timeout is reached only if another process keeps the file locked.
pub const BUSY_WAIT: Duration = Duration::from_secs(5);
/// Maximum time that a call waits for a pooled connection. Longer than a few queued writers take if each
/// waits [`BUSY_WAIT`].
const POOL_WAIT: Duration = Duration::from_secs(15);
/// Delay between two attempts to switch a file to a write-ahead log while another process does the same.
const SWITCH_DELAY: Duration = Duration::from_millis(20);
/// Maximum number of further attempts to switch a file to a write-ahead log: [`BUSY_WAIT`] in all.
const SWITCH_ATTEMPTS_MAX: usize = 250;
/// Page cache of the writing connection, in KiB. With SQLite's default of 2 MiB, inserting into a handful of indexes
/// reads most of their pages again and again.
const WRITER_CACHE_KIB: u32 = 32 * 1024;
/// Pages in the write-ahead log at which a commit copies them to the file: 32 MiB. A page that many transactions change
/// is copied once for all of them; with SQLite's default of 4 MiB, eight times as often.
const CHECKPOINT_PAGES: u32 = 8_000;
/// Maximum number of reading connections. More would only compete for the same CPU cores.
pub const READERS_MAX: u32 = 4;

static MIGRATOR: Migrator = sqlx::migrate!("../../../migrations/sqlite");

/// SQLite implementation of the ports of `retro-store`, backed by one file. Clones share the connection
/// pools.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    path: Arc<Path>,
    writer: SqlitePool,
    reader: SqlitePool,
    agents: SqlitePool,
}

impl SqliteStore {
    /// Opens a fully migrated file. Fails with a hint to `retro migrate` if the file or one of this program's
    /// migrations is missing. Accepts migrations newer than this program.
    pub async fn open(path: &Path) -> Result<Self> {
        check_exists(path)?;
        let store = Self::connect(path).await?;
        let missing = store.list_missing_migrations().await?;
        if missing.is_empty() {
            Ok(store)
        } else {
            Err(not_migrated(path, &format!("lacks {}", missing.join(", "))))
        }
    }

    /// Creates the file if it does not exist, applies missing migrations and opens it. Safe to call from
    /// several processes concurrently.
    pub async fn open_and_migrate(path: &Path) -> Result<Self> {
        migrate(path).await?;
        Self::connect(path).await
    }

    /// Returns a store that opens the file on first use and retries on each call, for a process that starts
    /// before its database exists. Does not create the file.
    pub fn open_lazily(path: &Path) -> Self {
        let writer = pool_options(1).connect_lazy_with(writer_options(path));
        let reader = pool_options(READERS_MAX).connect_lazy_with(connect_options(path).read_only(true));
        Self { path: path.into(), writer, reader, agents: agent_pool(path) }
    }

    /// Returns a store over the same file with separate reading connections for agents, so operators' lists
    /// and exports never delay agents. Writes still share the single writing connection and its queue.
    #[must_use]
    pub fn for_agents(&self) -> Self {
        Self { reader: self.agents.clone(), ..self.clone() }
    }

    /// Reads the file ahead for agents, in the background.
    pub(crate) async fn read_ahead(&self) {
        read_ahead(&self.path).await;
    }

    async fn connect(path: &Path) -> Result<Self> {
        let writer = pool_options(1).connect_with(writer_options(path)).await.on_table("opening the file")?;
        let reader = pool_options(READERS_MAX).connect_with(connect_options(path).read_only(true)).await;
        let reader = reader.on_table("opening the file for reading")?;
        Ok(Self { path: path.into(), writer, reader, agents: agent_pool(path) })
    }

    /// Begins a write transaction, which holds SQLite's write lock from its start.
    pub(crate) async fn begin_write(&self) -> Result<Transaction<'static, Sqlite>> {
        // A deferred transaction that upgrades to writing fails at once if another writer came first, without
        // waiting.
        self.writer.begin_with("BEGIN IMMEDIATE").await.on_table("beginning a transaction")
    }

    /// Begins a read-only transaction with a consistent snapshot.
    pub(crate) async fn begin_snapshot(&self) -> Result<Transaction<'static, Sqlite>> {
        self.reader.begin().await.on_table("beginning to read")
    }

    /// Returns the connection pool for single-statement reads.
    pub(crate) const fn reader(&self) -> &SqlitePool {
        &self.reader
    }

    /// Closes all connections after their current work. Closing the last connection to a file checkpoints its
    /// write-ahead log.
    pub async fn disconnect(&self) {
        self.agents.close().await;
        self.reader.close().await;
        // The writer closes last, because a read-only connection cannot checkpoint the log.
        self.writer.close().await;
    }
}

#[async_trait]
impl SchemaStore for SqliteStore {
    async fn list_missing_migrations(&self) -> Result<Vec<String>> {
        check_exists(&self.path)?;
        missing_migrations(&self.reader).await
    }

    async fn load_database_id(&self) -> Result<String> {
        const LOAD: &str = "SELECT identity FROM database_identity";
        sqlx::query_scalar(LOAD).fetch_one(self.reader()).await.on_table("database_identity")
    }
}

/// Builds the pool options. Connections are kept open, because closing the last one would checkpoint the log
/// and a connection to a local file never goes stale.
///
/// A connection that the driver believes to be in a transaction is replaced: on a full disk SQLite rolls back
/// by itself, the driver's own rollback then finds no transaction, and the connection would refuse every
/// later one.
fn pool_options(connections: u32) -> SqlitePoolOptions {
    let pool = SqlitePoolOptions::new().max_connections(connections).acquire_timeout(POOL_WAIT);
    let pool =
        pool.before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }));
    pool.min_connections(1).idle_timeout(None).max_lifetime(None)
}

/// Builds the pool for agents' reads, which connects on first use.
fn agent_pool(path: &Path) -> SqlitePool {
    pool_options(AGENT_CONNECTIONS_MAX)
        .min_connections(0)
        .connect_lazy_with(connect_options(path).read_only(true))
}

/// Commits a transaction. Every commit goes through this function, so tests can inject faults. After an error
/// the outcome of the commit is unknown, but repeating the whole port call is safe.
pub(crate) async fn commit(transaction: Transaction<'_, Sqlite>, label: Label) -> Result<()> {
    run_step(label, transaction.commit()).await.on_table("committing")
}

/// Returns the options of the writing connection, which alone needs a large cache.
fn writer_options(path: &Path) -> SqliteConnectOptions {
    connect_options(path)
        .pragma("cache_size", format!("-{WRITER_CACHE_KIB}"))
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES.to_string())
}

fn connect_options(path: &Path) -> SqliteConnectOptions {
    // FULL, because with NORMAL a power failure could lose confirmed commits of a write-ahead log.
    SqliteConnectOptions::new().filename(path).busy_timeout(BUSY_WAIT).synchronous(SqliteSynchronous::Full)
}

/// Creates the file if it does not exist, and applies all missing migrations atomically. Returns their names
/// in order. Fails if an applied migration was edited. Safe to call from several processes concurrently.
pub async fn migrate(path: &Path) -> Result<Vec<String>> {
    let new_file = connect_options(path).create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    // Of two processes that switch one file to a write-ahead log, SQLite refuses one at once, without the wait
    // for a busy file, because each would wait for the other.
    let attempts = ConstantBuilder::new().with_delay(SWITCH_DELAY).with_max_times(SWITCH_ATTEMPTS_MAX);
    let connect = (|| run_step(Label::MigrateFile, new_file.connect())).retry(attempts).when(is_busy);
    let mut connection = connect.await.on_table("creating the file")?;
    let applied = migrate_locked(&mut connection).await;
    connection.close().await.on_table("closing the file")?;
    applied
}

/// Applies the migrations in one transaction that excludes all other writers. The transactions of the
/// individual migrations become savepoints.
async fn migrate_locked(connection: &mut SqliteConnection) -> Result<Vec<String>> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.on_table("_sqlx_migrations")?;
    transaction.ensure_migrations_table(&MIGRATOR.table_name).await.map_err(migration_failed)?;
    let missing = missing_migrations(&mut *transaction).await?;
    let mut lenient = Migrator::with_migrations(MIGRATOR.iter().cloned().collect());
    // A newer program may have applied migrations that this one lacks; an old process must still start.
    lenient.set_ignore_missing(true);
    lenient.run_direct(None, &mut *transaction, false).await.map_err(migration_failed)?;
    commit(transaction, Label::MigrateCommit).await?;
    Ok(missing)
}

/// Lists this program's migrations that are not applied, in order.
async fn missing_migrations<'c>(reader: impl sqlx::SqliteExecutor<'c>) -> Result<Vec<String>> {
    const APPLIED: &str = "SELECT version FROM _sqlx_migrations WHERE success";
    let applied: Vec<i64> = match sqlx::query_scalar(APPLIED).fetch_all(reader).await {
        // A new file has no table of migrations yet.
        Err(sqlx::Error::Database(answer)) if answer.message().contains("no such table") => Vec::new(),
        answer => answer.on_table("_sqlx_migrations")?,
    };
    let lacks = MIGRATOR.iter().filter(|migration| !applied.contains(&migration.version));
    let name = |version, description: &str| format!("{version:04}_{}", description.replace(' ', "_"));
    Ok(lacks.map(|migration| name(migration.version, &migration.description)).collect())
}

fn check_exists(path: &Path) -> Result<()> {
    if path.exists() { Ok(()) } else { Err(not_migrated(path, "does not exist")) }
}

fn not_migrated(path: &Path, problem: &str) -> StoreError {
    StoreError::Unavailable(format!("{} {problem}; run `retro migrate`", path.display()))
}

fn migration_failed(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            Err::<(), _>(error).on_table("migrations").expect_err("this is an error")
        }
        other => StoreError::Damaged { place: "_sqlx_migrations".to_owned(), problem: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_transaction_on_a_full_disk_does_not_block_the_next_one() {
        const FILL: &str = "INSERT INTO retention_totals (stage, deleted_rows, last_deleted_ms) VALUES (hex(zeroblob(1000000)), 0, 0)";
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.unwrap();
        let mut full = store.begin_write().await.unwrap();
        sqlx::query("PRAGMA max_page_count = 1").execute(&mut *full).await.unwrap();
        let refused = sqlx::query(FILL).execute(&mut *full).await.unwrap_err();
        assert!(refused.to_string().contains("full"), "{refused}");
        drop(full);
        // The page limit applied to the failed connection only, which has been replaced.
        let mut next = store.begin_write().await.unwrap();
        sqlx::query(FILL).execute(&mut *next).await.unwrap();
        next.commit().await.unwrap();
    }

    #[tokio::test]
    async fn agents_can_read_while_all_other_connections_are_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.unwrap();
        let _writing = store.begin_write().await.unwrap();
        let mut held = Vec::new();
        for _ in 0..READERS_MAX {
            held.push(store.begin_snapshot().await.unwrap());
        }
        assert!(store.reader().try_acquire().is_none(), "no connection is left for operators");
        let agents = store.for_agents();
        let read: i64 =
            sqlx::query_scalar("SELECT count(*) FROM memories").fetch_one(agents.reader()).await.unwrap();
        assert_eq!(read, 0);
    }

    #[tokio::test]
    async fn commits_are_durable_and_readers_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.unwrap();
        let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&store.writer).await.unwrap();
        let full: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&store.writer).await.unwrap();
        assert_eq!((mode.as_str(), full), ("wal", 2));
        let refused = sqlx::query("DELETE FROM attempts").execute(store.reader()).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("readonly")));
    }
}
