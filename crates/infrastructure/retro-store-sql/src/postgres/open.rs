//! Connects to and migrates the Postgres database.

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use retro_fault::{Label, run_step};
use retro_store::{AGENT_CONNECTIONS_MAX, Result, SchemaStore, StoreError};
use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool, Postgres, Row, Transaction};

use super::errors::{OnTable, translate_error};

/// Maximum number of connections per process. A role runs few transactions at a time, each for milliseconds,
/// and a dozen processes stay below the 100 connections that Postgres allows by default.
pub const CONNECTIONS_MAX: u32 = 8;
/// Maximum number of connections for recording presentations, in addition to the [`AGENT_CONNECTIONS_MAX`]
/// for agents' reads. Only a gateway opens them, so a gateway has at most 18 connections. Blocked recordings
/// occupy only these connections.
pub const RECORDERS_MAX: u32 = 4;
/// `lock_timeout` of a connection. Workflow locks are held for milliseconds, so this timeout is reached only
/// if a process was stopped while it held a lock.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Minimum `statement_timeout` for agents, because a server that was idle takes tenths of a second to wake
/// up.
const AGENT_STATEMENT_WAIT_MIN: Duration = Duration::from_secs(1);
/// `statement_timeout` of a connection. Even the slowest operator query over a large table takes far less.
const STATEMENT_WAIT: Duration = Duration::from_secs(60);
/// `idle_in_transaction_session_timeout` of a connection, after which the server aborts the transaction of a
/// stopped process and releases its locks. Decisions inside a transaction take milliseconds.
const IDLE_WAIT: Duration = Duration::from_secs(15);
/// Maximum time that a call waits for a pooled connection, including the time to open one. Well below the
/// half minute within which the broker expects a message to be acknowledged.
const POOL_WAIT: Duration = Duration::from_secs(10);
/// Time after which an idle connection is closed, to leave it to other processes.
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);
/// Key of the advisory lock that lets only one process migrate at a time: "retro" in ASCII, which is unlikely
/// to collide with the advisory locks of other programs.
const MIGRATION_LOCK_ID: i64 = 0x72_6574_726f;

static MIGRATOR: Migrator = sqlx::migrate!("../../../migrations/postgres");

/// Postgres implementation of the ports of `retro-store`. Clones share the connection pools.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    reader: PgPool,
    writer: PgPool,
}

impl PostgresStore {
    /// Opens a fully migrated database. Fails with a hint to `retro migrate` if one of this program's
    /// migrations is missing. Accepts migrations newer than this program.
    pub async fn open(url: &str) -> Result<Self> {
        let store = Self::open_lazily(url)?;
        let missing = store.list_missing_migrations().await?;
        if missing.is_empty() {
            return Ok(store);
        }
        let (name, lacks) = (describe_options(&store.reader.connect_options()), missing.join(", "));
        Err(StoreError::Unavailable(format!("{name} lacks {lacks}; run `retro migrate`")))
    }

    /// Applies missing migrations and opens the database. Safe to call from several processes concurrently.
    pub async fn open_and_migrate(url: &str) -> Result<Self> {
        migrate(url).await?;
        Self::open_lazily(url)
    }

    /// Returns a store that connects on first use and retries on each call, for a process that starts before
    /// its database is available. Fails if the URL is invalid.
    pub fn open_lazily(url: &str) -> Result<Self> {
        let pool = pool_options(CONNECTIONS_MAX, POOL_WAIT).connect_lazy_with(connect_options(url)?);
        Ok(Self { reader: pool.clone(), writer: pool })
    }

    /// Returns a store over the same database with separate connections for agents: one pool for reads and
    /// one for recordings, so neither operators' lists nor blocked recordings delay agents' reads.
    ///
    /// The server cancels a statement after `patience`, clamped to between one second and one minute, so an
    /// abandoned statement does not occupy a connection for longer.
    #[must_use]
    pub fn for_agents(&self, patience: Duration) -> Self {
        let limit = patience.max(AGENT_STATEMENT_WAIT_MIN).min(STATEMENT_WAIT).as_millis().to_string();
        let options = self.reader.connect_options().as_ref().clone();
        let options = options.options([("statement_timeout", limit)]);
        let reader = pool_options(AGENT_CONNECTIONS_MAX, patience).connect_lazy_with(options.clone());
        let writer = pool_options(RECORDERS_MAX, patience).connect_lazy_with(options);
        Self { reader, writer }
    }

    /// Does nothing: the server has a cache of its own, which outlives this process.
    #[allow(clippy::unused_async, reason = "like that of the other database")]
    pub(crate) async fn read_ahead(&self) {}

    /// Begins a write transaction at READ COMMITTED, which [`connect_options`] sets explicitly: each
    /// statement sees everything committed before it, so facts read after acquiring a lock are current.
    pub(crate) async fn begin_write(&self) -> Result<Transaction<'static, Postgres>> {
        self.writer.begin().await.on_table("beginning a transaction")
    }

    /// Begins a read-only transaction with a consistent snapshot.
    pub(crate) async fn begin_snapshot(&self) -> Result<Transaction<'static, Postgres>> {
        const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.reader.begin_with(BEGIN).await.on_table("beginning to read")
    }

    /// Returns the connection pool for single-statement reads.
    pub(crate) const fn reader(&self) -> &PgPool {
        &self.reader
    }

    /// Closes all connections after their current work.
    pub async fn disconnect(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }
}

#[async_trait]
impl SchemaStore for PostgresStore {
    async fn list_missing_migrations(&self) -> Result<Vec<String>> {
        if let Some(mut connection) = self.reader.try_acquire()
            && let Ok(missing) = missing_migrations(&mut *connection).await
        {
            return Ok(missing);
        }
        // Use a separate connection: the pool would retry until its timeout and hide the error.
        let options = self.reader.connect_options();
        let mut connection = options.connect().await.map_err(|error| unreachable_error(&options, &error))?;
        let missing = missing_migrations(&mut connection).await;
        connection.close().await.on_table("closing the connection")?;
        missing
    }

    async fn load_database_id(&self) -> Result<String> {
        const LOAD: &str = "SELECT identity FROM database_identity";
        sqlx::query_scalar(LOAD).fetch_one(self.reader()).await.on_table("database_identity")
    }
}

fn pool_options(connections: u32, wait: Duration) -> PgPoolOptions {
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(wait)
        .idle_timeout(IDLE_CONNECTION_TIMEOUT);
    // Replaced by `is_at_rest`: the driver's ping also succeeds on a connection that is in a transaction.
    let pool = pool.test_before_acquire(false);
    pool.before_acquire(|connection, _| Box::pin(is_at_rest(connection)))
}

/// Returns `true` if a pooled connection is not in a transaction. The pool replaces a connection that is in a
/// transaction or closed.
///
/// A future dropped while its transaction begins leaves a transaction that the driver does not know of and
/// never rolls back: later work on that connection would never be committed, and after its first error the
/// connection would refuse every statement. The query is sent with the simple protocol, so outside a
/// transaction it is a transaction of its own, which starts at the same time as the statement.
async fn is_at_rest(connection: &mut PgConnection) -> sqlx::Result<bool> {
    const AT_REST: &str = "SELECT now() = statement_timestamp()";
    sqlx::raw_sql(AT_REST).fetch_one(connection).await?.try_get(0)
}

/// Commits a transaction. Every commit goes through this function, so tests can inject faults. After an error
/// the outcome of the commit is unknown, but repeating the whole port call is safe.
pub(crate) async fn commit(transaction: Transaction<'_, Postgres>, label: Label) -> Result<()> {
    run_step(label, transaction.commit()).await.on_table("committing")
}

/// Parses a database URL. The error for an invalid URL quotes no part of it, because any part may be a
/// password.
fn connect_options(url: &str) -> Result<PgConnectOptions> {
    let unreadable = |_| {
        StoreError::Unavailable(
            "the database's address cannot be parsed; it looks like postgres://user@host:5432/database"
                .to_owned(),
        )
    };
    let options = PgConnectOptions::from_str(url).map_err(unreadable)?;
    let millis = |wait: Duration| wait.as_millis().to_string();
    Ok(options.application_name("retro").options([
        // A confirmed commit must survive a power failure of the server.
        ("synchronous_commit", "on".to_owned()),
        ("default_transaction_isolation", "read committed".to_owned()),
        // Statements run for milliseconds, so JIT compilation would take longer than it saves.
        ("jit", "off".to_owned()),
        ("lock_timeout", millis(LOCK_WAIT)),
        ("statement_timeout", millis(STATEMENT_WAIT)),
        ("idle_in_transaction_session_timeout", millis(IDLE_WAIT)),
    ]))
}

/// Describes the database of a URL for messages, without its password. Quotes no part of an invalid URL.
pub fn describe_address(url: &str) -> String {
    connect_options(url).map_or_else(
        |_| "the database of an address that cannot be parsed".to_owned(),
        |options| describe_options(&options),
    )
}

fn describe_options(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    match options.get_socket() {
        Some(socket) => format!("database {database} at {}", socket.display()),
        None => format!("database {database} at {}:{}", options.get_host(), options.get_port()),
    }
}

fn unreachable_error(options: &PgConnectOptions, error: &sqlx::Error) -> StoreError {
    match translate_error("connecting", error) {
        StoreError::Unavailable(problem) => {
            StoreError::Unavailable(format!("{}: {problem}", describe_options(options)))
        }
        other => other,
    }
}

/// Applies all missing migrations atomically. Returns their names in order. Fails if an applied migration was
/// edited. Safe to call from several processes concurrently.
pub async fn migrate(url: &str) -> Result<Vec<String>> {
    let options = connect_options(url)?;
    let mut connection = options.connect().await.map_err(|error| unreachable_error(&options, &error))?;
    let applied = migrate_locked(&mut connection).await;
    connection.close().await.on_table("closing the connection")?;
    applied
}

/// Applies the migrations in one transaction that holds the migration lock. The transactions of the
/// individual migrations become savepoints.
async fn migrate_locked(connection: &mut PgConnection) -> Result<Vec<String>> {
    // Another process may be migrating a large table, so wait for it without a timeout.
    const PATIENCE: &str =
        "SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)";
    const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
    let mut transaction = connection.begin().await.on_table("_sqlx_migrations")?;
    sqlx::query(PATIENCE).execute(&mut *transaction).await.on_table("_sqlx_migrations")?;
    sqlx::query(LOCK)
        .bind(MIGRATION_LOCK_ID)
        .execute(&mut *transaction)
        .await
        .on_table("_sqlx_migrations")?;
    transaction.ensure_migrations_table(&MIGRATOR.table_name).await.map_err(migration_failed)?;
    let missing = missing_migrations(&mut *transaction).await?;
    let mut lenient = Migrator::with_migrations(MIGRATOR.iter().cloned().collect());
    // A newer program may have applied migrations that this one lacks; an old process must still start.
    lenient.set_ignore_missing(true).set_locking(false);
    lenient.run_direct(None, &mut *transaction, false).await.map_err(migration_failed)?;
    commit(transaction, Label::MigrateCommit).await?;
    Ok(missing)
}

/// Lists this program's migrations that are not applied, in order.
async fn missing_migrations<'c>(reader: impl sqlx::PgExecutor<'c>) -> Result<Vec<String>> {
    const APPLIED: &str = "SELECT version FROM _sqlx_migrations WHERE success";
    const NO_SUCH_TABLE: &str = "42P01";
    let applied: Vec<i64> = match sqlx::query_scalar(APPLIED).fetch_all(reader).await {
        // A new database has no table of migrations yet.
        Err(sqlx::Error::Database(answer)) if answer.code().as_deref() == Some(NO_SUCH_TABLE) => Vec::new(),
        answer => answer.on_table("_sqlx_migrations")?,
    };
    let lacks = MIGRATOR.iter().filter(|migration| !applied.contains(&migration.version));
    let name = |version, description: &str| format!("{version:04}_{}", description.replace(' ', "_"));
    Ok(lacks.map(|migration| name(migration.version, &migration.description)).collect())
}

fn migration_failed(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            translate_error("migrations", &error)
        }
        other => StoreError::Damaged { place: "_sqlx_migrations".to_owned(), problem: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use retro_testkit::TestPostgres;

    use super::*;

    /// Returns a connection to the pool in the state after `sql`, like a future that was dropped halfway.
    async fn leave_connection(store: &PostgresStore, sql: &'static str) {
        let _ = sqlx::raw_sql(sql).execute(store.reader()).await;
        while store.reader().num_idle() < store.reader().size() as usize {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn agents_can_read_while_other_connections_are_in_use_and_recordings_hang() {
        let server = TestPostgres::start().await;
        let store = PostgresStore::open_and_migrate(&server.url()).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            held.push(store.begin_write().await.unwrap());
        }
        assert!(store.reader().try_acquire().is_none(), "no connection is left for operators");
        let lock = "LOCK TABLE presentations IN ACCESS EXCLUSIVE MODE";
        sqlx::query(lock).execute(&mut *held[0]).await.unwrap();
        let agents = store.for_agents(Duration::from_secs(60));
        let recording = || async {
            let mut recording = agents.begin_write().await.unwrap();
            sqlx::query("DELETE FROM presentations").execute(&mut *recording).await.unwrap();
            recording.commit().await.unwrap();
        };
        let hanging: Vec<_> = (0..2 * RECORDERS_MAX).map(|_| Box::pin(recording())).collect();
        let hanging = futures::future::join_all(hanging);
        let read = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM memories").fetch_one(agents.reader());
        // The read must finish first, because every recording waits for the lock until `held` is dropped.
        let futures::future::Either::Left((read, hanging)) =
            futures::future::select(Box::pin(read), hanging).await
        else {
            panic!("a recording finished before the read");
        };
        assert_eq!(read.unwrap(), 0);
        drop(held);
        hanging.await;
    }

    #[tokio::test]
    async fn an_abandoned_transaction_does_not_affect_later_ones() {
        let server = TestPostgres::start().await;
        let store = PostgresStore::open_and_migrate(&server.url()).await.unwrap();
        for left in ["BEGIN", "BEGIN READ ONLY", "BEGIN; SELECT 1 / 0"] {
            leave_connection(&store, left).await;
            let question = sqlx::query("SELECT FROM attempts").execute(store.reader()).await;
            assert!(question.is_ok(), "{left}: {question:?}");
            leave_connection(&store, left).await;
            let mut transaction = store.begin_write().await.unwrap();
            let written = sqlx::query("DELETE FROM attempts").execute(&mut *transaction).await;
            assert!(written.is_ok(), "{left}: {written:?}");
            transaction.commit().await.unwrap();
        }
    }
}
