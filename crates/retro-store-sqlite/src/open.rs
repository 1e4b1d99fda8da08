//! Opening the file, and migrating it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_fault::{Label, step};
use retro_store::{AGENT_READERS_MAX, Result, SchemaStore, StoreError};
use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Sqlite, SqliteConnection, SqlitePool, Transaction};

use crate::damage::OnTable;

/// How long a statement waits for another process that writes. Transactions take milliseconds, so this is reached
/// only when somebody holds the file.
pub const BUSY_WAIT: Duration = Duration::from_secs(5);
/// How long a call waits for a connection of its pool: behind a few writers that each wait [`BUSY_WAIT`].
const POOL_WAIT: Duration = Duration::from_secs(15);
/// Reading connections: as many questions at once; more would only wait for the same cores.
pub const READERS_MAX: u32 = 4;

static MIGRATOR: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// The ports of `retro-store` over one SQLite file. Cloning gives another handle of the same connections.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    path: Arc<Path>,
    writer: SqlitePool,
    reader: SqlitePool,
    agents: SqlitePool,
}

impl SqliteStore {
    /// Opens a file that has every migration of this program; fails with a sentence that names `retro migrate`
    /// when it has not, or is not there. Newer migrations than this program knows are left alone.
    pub async fn open(path: &Path) -> Result<Self> {
        exists(path)?;
        let store = Self::connect(path).await?;
        let missing = store.lacks().await?;
        if missing.is_empty() {
            Ok(store)
        } else {
            Err(not_migrated(path, &format!("lacks {}", missing.join(", "))))
        }
    }

    /// Creates the file if needed, applies what it lacks, and opens it. Several processes may do so at once.
    pub async fn open_and_migrate(path: &Path) -> Result<Self> {
        migrate(path).await?;
        Self::connect(path).await
    }

    /// A handle that opens the file when it is asked, and tries anew each time while it cannot: for a process that
    /// waits for its database. Makes no file.
    pub fn lazy(path: &Path) -> Self {
        let writer = pool(1).connect_lazy_with(options(path));
        let reader = pool(READERS_MAX).connect_lazy_with(options(path).read_only(true));
        Self { path: path.into(), writer, reader, agents: agents(path) }
    }

    /// The same file, read over connections that nobody but agents uses: lists and exports of people never keep them
    /// waiting. Writing goes through the one connection that writes, in whose queue a recording waits like everybody.
    #[must_use]
    pub fn for_agents(&self) -> Self {
        Self { reader: self.agents.clone(), ..self.clone() }
    }

    async fn connect(path: &Path) -> Result<Self> {
        let writer = pool(1).connect_with(options(path)).await.on("opening the file")?;
        let reader = pool(READERS_MAX).connect_with(options(path).read_only(true)).await;
        let reader = reader.on("opening the file for reading")?;
        Ok(Self { path: path.into(), writer, reader, agents: agents(path) })
    }

    /// Begins a transaction that may write from its first statement on.
    pub(crate) async fn write(&self) -> Result<Transaction<'static, Sqlite>> {
        self.writer.begin_with("BEGIN IMMEDIATE").await.on("beginning a transaction")
    }

    /// Begins a transaction that sees one state and writes nothing.
    pub(crate) async fn snapshot(&self) -> Result<Transaction<'static, Sqlite>> {
        self.reader.begin().await.on("beginning to read")
    }

    /// The connections for questions of one statement.
    pub(crate) const fn reader(&self) -> &SqlitePool {
        &self.reader
    }

    /// Closes every connection, after what is under way. The last handle of a file folds its log back in.
    pub async fn disconnect(&self) {
        self.agents.close().await;
        self.reader.close().await;
        self.writer.close().await;
    }
}

#[async_trait]
impl SchemaStore for SqliteStore {
    async fn lacks(&self) -> Result<Vec<String>> {
        exists(&self.path)?;
        missing(&self.reader).await
    }

    async fn identity(&self) -> Result<String> {
        const LOAD: &str = "SELECT identity FROM database_identity";
        sqlx::query_scalar(LOAD).fetch_one(self.reader()).await.on("database_identity")
    }
}

/// Connections are kept: the last one to close would fold the log in, and a local file never goes stale. But one that
/// believes to be in a transaction is replaced: on a full disk SQLite rolls back by itself, the driver's own rollback
/// finds nothing to undo, and it would refuse every transaction after that.
fn pool(connections: u32) -> SqlitePoolOptions {
    let pool = SqlitePoolOptions::new().max_connections(connections).acquire_timeout(POOL_WAIT);
    let pool =
        pool.before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }));
    pool.min_connections(1).idle_timeout(None).max_lifetime(None)
}

/// The connections of agents' reads, which are opened when the first agent asks.
fn agents(path: &Path) -> SqlitePool {
    pool(AGENT_READERS_MAX).min_connections(0).connect_lazy_with(options(path).read_only(true))
}

/// Commits, the one way there is; after an error the outcome is unknown, and calling again is safe.
pub(crate) async fn commit(transaction: Transaction<'_, Sqlite>, label: Label) -> Result<()> {
    step(label, transaction.commit()).await.on("committing")
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(path).busy_timeout(BUSY_WAIT).synchronous(SqliteSynchronous::Full)
}

/// Creates the file if it is not there and applies the migrations that it lacks, all or none; returns their names
/// in order, empty when it had them all. Fails when an applied one was changed since. Two processes at once leave
/// what one would have left.
pub async fn migrate(path: &Path) -> Result<Vec<String>> {
    let new_file = options(path).create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    let mut connection = step(Label::MigrateFile, new_file.connect()).await.on("creating the file")?;
    let applied = migrate_locked(&mut connection).await;
    connection.close().await.on("closing the file")?;
    applied
}

/// The migrations' own transactions become savepoints of this one, which keeps every other writer out.
async fn migrate_locked(connection: &mut SqliteConnection) -> Result<Vec<String>> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.on("_sqlx_migrations")?;
    transaction.ensure_migrations_table(&MIGRATOR.table_name).await.map_err(migration_failed)?;
    let missing = missing(&mut *transaction).await?;
    let mut lenient = Migrator::with_migrations(MIGRATOR.iter().cloned().collect());
    lenient.set_ignore_missing(true);
    lenient.run_direct(None, &mut *transaction, false).await.map_err(migration_failed)?;
    commit(transaction, Label::MigrateCommit).await?;
    Ok(missing)
}

/// The names of this program's migrations that the file lacks.
async fn missing<'c>(reader: impl sqlx::SqliteExecutor<'c>) -> Result<Vec<String>> {
    const APPLIED: &str = "SELECT version FROM _sqlx_migrations WHERE success";
    let applied: Vec<i64> = match sqlx::query_scalar(APPLIED).fetch_all(reader).await {
        Err(sqlx::Error::Database(answer)) if answer.message().contains("no such table") => Vec::new(),
        answer => answer.on("_sqlx_migrations")?,
    };
    let lacks = MIGRATOR.iter().filter(|migration| !applied.contains(&migration.version));
    let name = |version, description: &str| format!("{version:04}_{}", description.replace(' ', "_"));
    Ok(lacks.map(|migration| name(migration.version, &migration.description)).collect())
}

fn exists(path: &Path) -> Result<()> {
    if path.exists() { Ok(()) } else { Err(not_migrated(path, "does not exist")) }
}

fn not_migrated(path: &Path, problem: &str) -> StoreError {
    StoreError::Unavailable(format!("{} {problem}; run `retro migrate`", path.display()))
}

fn migration_failed(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            Err::<(), _>(error).on("migrations").expect_err("it is an error")
        }
        other => StoreError::Damaged { place: "_sqlx_migrations".to_owned(), problem: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_transaction_that_found_the_disk_full_is_not_in_the_way_of_the_next() {
        const FILL: &str =
            "INSERT INTO purges (stage, purged, last_ms) VALUES (hex(zeroblob(1000000)), 0, 0)";
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.unwrap();
        let mut full = store.write().await.unwrap();
        sqlx::query("PRAGMA max_page_count = 1").execute(&mut *full).await.unwrap();
        let refused = sqlx::query(FILL).execute(&mut *full).await.unwrap_err();
        assert!(refused.to_string().contains("full"), "{refused}");
        drop(full);
        // The limit was the connection's, which is another now.
        let mut next = store.write().await.unwrap();
        sqlx::query(FILL).execute(&mut *next).await.unwrap();
        next.commit().await.unwrap();
    }

    #[tokio::test]
    async fn agents_read_while_everybody_else_holds_the_connections() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.unwrap();
        let _writing = store.write().await.unwrap();
        let mut held = Vec::new();
        for _ in 0..READERS_MAX {
            held.push(store.snapshot().await.unwrap());
        }
        assert!(store.reader().try_acquire().is_none(), "nothing is left for people");
        let agents = store.for_agents();
        let read: i64 =
            sqlx::query_scalar("SELECT count(*) FROM memories").fetch_one(agents.reader()).await.unwrap();
        assert_eq!(read, 0);
    }

    #[tokio::test]
    async fn what_is_committed_is_on_disk_and_readers_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.unwrap();
        let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&store.writer).await.unwrap();
        let full: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&store.writer).await.unwrap();
        assert_eq!((mode.as_str(), full), ("wal", 2));
        let refused = sqlx::query("DELETE FROM attempts").execute(store.reader()).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("readonly")));
    }
}
