//! Opening the database, and migrating it.

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use retro_fault::{Label, step};
use retro_store::{AGENT_READERS_MAX, Result, SchemaStore, StoreError};
use sqlx::migrate::{Migrate, MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool, Postgres, Row, Transaction};

use crate::answer::{OnTable, translate};

/// Connections of one process, at most. A role has few things under way at once, each for milliseconds; and a fleet of
/// a dozen processes stays below the hundred that a Postgres server allows by default.
pub const CONNECTIONS_MAX: u32 = 8;
/// Connections by which what agents were shown is recorded, beside the [`AGENT_READERS_MAX`] that they are read for. Only a gateway opens them, so that it has 18
/// at most. While recording hangs these hang, and nothing else.
pub const RECORDERS_MAX: u32 = 4;
/// How long a statement waits for a lock. Whoever holds a workflow's does so for milliseconds, so this is reached only
/// when somebody was stopped while holding it.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);
/// The shortest time that a statement for an agent has at the server: waking up a server that was idle takes tenths of a second.
const AGENT_STATEMENT_WAIT_MIN: Duration = Duration::from_secs(1);
/// How long a statement may take: far above the slowest question of a person over a large table.
const STATEMENT_WAIT: Duration = Duration::from_secs(60);
/// How long a transaction may stand still before the server gives up on it and frees its locks: a program that was
/// stopped in the middle of one must not hold up a workflow. Decisions inside a transaction take milliseconds.
const IDLE_WAIT: Duration = Duration::from_secs(15);
/// How long a call waits for a connection, a new one included: a message is held meanwhile, and the broker has half a
/// minute of patience for all that a call may wait for.
const POOL_WAIT: Duration = Duration::from_secs(10);
/// Connections that nobody used for so long are given back: other processes need them.
const UNUSED: Duration = Duration::from_secs(300);
/// The advisory lock of migrating, "retro" in ASCII: one process at a time, whatever else is locked there.
const MIGRATING: i64 = 0x72_6574_726f;

static MIGRATOR: Migrator = sqlx::migrate!("../../migrations/postgres");

/// The ports of `retro-store` over a Postgres database. Cloning gives another handle of the same connections.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    reader: PgPool,
    writer: PgPool,
}

impl PostgresStore {
    /// Opens a database that has every migration of this program; fails with a sentence that names `retro migrate`
    /// when it has not. Newer migrations than this program knows are left alone.
    pub async fn open(url: &str) -> Result<Self> {
        let store = Self::lazy(url)?;
        let missing = store.lacks().await?;
        if missing.is_empty() {
            return Ok(store);
        }
        let (name, lacks) = (shown(&store.reader.connect_options()), missing.join(", "));
        Err(StoreError::Unavailable(format!("{name} lacks {lacks}; run `retro migrate`")))
    }

    /// Applies what the database lacks, and opens it. Several processes may do so at once.
    pub async fn open_and_migrate(url: &str) -> Result<Self> {
        migrate(url).await?;
        Self::lazy(url)
    }

    /// A handle that connects when it is asked, and tries anew each time while it cannot: for a process that waits for
    /// its database. Fails when the address cannot be read.
    pub fn lazy(url: &str) -> Result<Self> {
        let pool = pool(CONNECTIONS_MAX, POOL_WAIT).connect_lazy_with(options(url)?);
        Ok(Self { reader: pool.clone(), writer: pool })
    }

    /// The same database over connections that nobody but agents uses, some to read and others to record: neither lists of people nor
    /// recordings that hang keep a read waiting. The server gives up what an agent no longer waits for, after `patience` or a
    /// second, so that a connection is not lost to it for longer.
    #[must_use]
    pub fn for_agents(&self, patience: Duration) -> Self {
        let limit = patience.max(AGENT_STATEMENT_WAIT_MIN).min(STATEMENT_WAIT).as_millis().to_string();
        let options = self.reader.connect_options().as_ref().clone();
        let options = options.options([("statement_timeout", limit)]);
        let reader = pool(AGENT_READERS_MAX, patience).connect_lazy_with(options.clone());
        let writer = pool(RECORDERS_MAX, patience).connect_lazy_with(options);
        Self { reader, writer }
    }

    /// Begins a transaction that may write. Every statement in it sees what was committed before the statement
    /// (READ COMMITTED, the default, which [`options`] insists on), so what is decided upon is read after its lock.
    pub(crate) async fn write(&self) -> Result<Transaction<'static, Postgres>> {
        self.writer.begin().await.on("beginning a transaction")
    }

    /// Begins a transaction that sees one state and writes nothing.
    pub(crate) async fn snapshot(&self) -> Result<Transaction<'static, Postgres>> {
        const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.reader.begin_with(BEGIN).await.on("beginning to read")
    }

    /// The connections for questions of one statement.
    pub(crate) const fn reader(&self) -> &PgPool {
        &self.reader
    }

    /// Closes every connection, after what is under way.
    pub async fn disconnect(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }
}

#[async_trait]
impl SchemaStore for PostgresStore {
    async fn lacks(&self) -> Result<Vec<String>> {
        if let Some(mut connection) = self.reader.try_acquire()
            && let Ok(missing) = missing(&mut *connection).await
        {
            return Ok(missing);
        }
        // A connection of its own: the pool would try for as long as a call may wait, and not say why.
        let options = self.reader.connect_options();
        let mut connection = options.connect().await.map_err(|error| unreachable(&options, &error))?;
        let missing = missing(&mut connection).await;
        connection.close().await.on("closing the connection")?;
        missing
    }

    async fn identity(&self) -> Result<String> {
        const LOAD: &str = "SELECT identity FROM database_identity";
        sqlx::query_scalar(LOAD).fetch_one(self.reader()).await.on("database_identity")
    }
}

fn pool(connections: u32, wait: Duration) -> PgPoolOptions {
    let pool = PgPoolOptions::new().max_connections(connections).acquire_timeout(wait).idle_timeout(UNUSED);
    // Asked instead of the driver's own question, which a connection answers whatever state it is in.
    let pool = pool.test_before_acquire(false);
    pool.before_acquire(|connection, _| Box::pin(is_at_rest(connection)))
}

/// Whether a connection of the pool is in no transaction; one that is, or that is gone, is replaced. Whoever stops waiting
/// while a transaction begins leaves one behind that the driver does not know of, so that it is never taken back: what others
/// did on that connection would never be committed, and after the first error in it nothing would ever be done on it again.
/// Outside of one, a statement that is sent as text is its own transaction and begins when it does.
async fn is_at_rest(connection: &mut PgConnection) -> sqlx::Result<bool> {
    const AT_REST: &str = "SELECT now() = statement_timestamp()";
    sqlx::raw_sql(AT_REST).fetch_one(connection).await?.try_get(0)
}

/// Commits, the one way there is; after an error the outcome is unknown, and calling again is safe.
pub(crate) async fn commit(transaction: Transaction<'_, Postgres>, label: Label) -> Result<()> {
    step(label, transaction.commit()).await.on("committing")
}

/// Reads an address. What is said about a bad one names no part of it: any part may be a password.
fn options(url: &str) -> Result<PgConnectOptions> {
    let unreadable = |_| {
        StoreError::Unavailable(
            "the database's address cannot be read; it looks like postgres://user@host:5432/database"
                .to_owned(),
        )
    };
    let options = PgConnectOptions::from_str(url).map_err(unreadable)?;
    let millis = |wait: Duration| wait.as_millis().to_string();
    Ok(options.application_name("retro").options([
        // What was answered survives a power failure of the server.
        ("synchronous_commit", "on".to_owned()),
        ("default_transaction_isolation", "read committed".to_owned()),
        // Statements here take milliseconds: compiling one would take longer than running it.
        ("jit", "off".to_owned()),
        ("lock_timeout", millis(LOCK_WAIT)),
        ("statement_timeout", millis(STATEMENT_WAIT)),
        ("idle_in_transaction_session_timeout", millis(IDLE_WAIT)),
    ]))
}

/// What the database of an address is called towards a person: never with a password, or with anything of an address
/// that cannot be read.
pub fn name(url: &str) -> String {
    options(url).map_or_else(
        |_| "the database of an address that cannot be read".to_owned(),
        |options| shown(&options),
    )
}

fn shown(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    match options.get_socket() {
        Some(socket) => format!("database {database} at {}", socket.display()),
        None => format!("database {database} at {}:{}", options.get_host(), options.get_port()),
    }
}

fn unreachable(options: &PgConnectOptions, error: &sqlx::Error) -> StoreError {
    match translate("connecting", error) {
        StoreError::Unavailable(problem) => StoreError::Unavailable(format!("{}: {problem}", shown(options))),
        other => other,
    }
}

/// Applies the migrations that the database lacks, all or none; returns their names in order, empty when it had them
/// all. Fails when an applied one was changed since. Several processes at once leave what one would have left.
pub async fn migrate(url: &str) -> Result<Vec<String>> {
    let options = options(url)?;
    let mut connection = options.connect().await.map_err(|error| unreachable(&options, &error))?;
    let applied = migrate_locked(&mut connection).await;
    connection.close().await.on("closing the connection")?;
    applied
}

/// The migrations' own transactions become savepoints of this one, which holds the lock until it is committed.
async fn migrate_locked(connection: &mut PgConnection) -> Result<Vec<String>> {
    // Another process may be migrating a large table: it is waited for, however long that takes.
    const PATIENCE: &str =
        "SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)";
    const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
    let mut transaction = connection.begin().await.on("_sqlx_migrations")?;
    sqlx::query(PATIENCE).execute(&mut *transaction).await.on("_sqlx_migrations")?;
    sqlx::query(LOCK).bind(MIGRATING).execute(&mut *transaction).await.on("_sqlx_migrations")?;
    transaction.ensure_migrations_table(&MIGRATOR.table_name).await.map_err(migration_failed)?;
    let missing = missing(&mut *transaction).await?;
    let mut lenient = Migrator::with_migrations(MIGRATOR.iter().cloned().collect());
    lenient.set_ignore_missing(true).set_locking(false);
    lenient.run_direct(None, &mut *transaction, false).await.map_err(migration_failed)?;
    commit(transaction, Label::MigrateCommit).await?;
    Ok(missing)
}

/// The names of this program's migrations that the database lacks.
async fn missing<'c>(reader: impl sqlx::PgExecutor<'c>) -> Result<Vec<String>> {
    const APPLIED: &str = "SELECT version FROM _sqlx_migrations WHERE success";
    const NO_SUCH_TABLE: &str = "42P01";
    let applied: Vec<i64> = match sqlx::query_scalar(APPLIED).fetch_all(reader).await {
        Err(sqlx::Error::Database(answer)) if answer.code().as_deref() == Some(NO_SUCH_TABLE) => Vec::new(),
        answer => answer.on("_sqlx_migrations")?,
    };
    let lacks = MIGRATOR.iter().filter(|migration| !applied.contains(&migration.version));
    let name = |version, description: &str| format!("{version:04}_{}", description.replace(' ', "_"));
    Ok(lacks.map(|migration| name(migration.version, &migration.description)).collect())
}

fn migration_failed(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            translate("migrations", &error)
        }
        other => StoreError::Damaged { place: "_sqlx_migrations".to_owned(), problem: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use retro_testkit::TestPostgres;

    use super::*;

    /// Leaves a connection in the pool as somebody does who stopped waiting in the middle of `sql`.
    async fn leave(store: &PostgresStore, sql: &'static str) {
        let _ = sqlx::raw_sql(sql).execute(store.reader()).await;
        while store.reader().num_idle() < store.reader().size() as usize {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn agents_read_while_others_hold_the_connections_and_recordings_hang() {
        let server = TestPostgres::start().await;
        let store = PostgresStore::open_and_migrate(&server.url()).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            held.push(store.write().await.unwrap());
        }
        assert!(store.reader().try_acquire().is_none(), "nothing is left for people");
        let lock = "LOCK TABLE presentations IN ACCESS EXCLUSIVE MODE";
        sqlx::query(lock).execute(&mut *held[0]).await.unwrap();
        let agents = store.for_agents(Duration::from_secs(60));
        let recording = || async {
            let mut recording = agents.write().await.unwrap();
            sqlx::query("DELETE FROM presentations").execute(&mut *recording).await.unwrap();
            recording.commit().await.unwrap();
        };
        let hanging: Vec<_> = (0..2 * RECORDERS_MAX).map(|_| Box::pin(recording())).collect();
        let hanging = futures::future::join_all(hanging);
        let read = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM memories").fetch_one(agents.reader());
        // Whichever is first: every recording waits for the lock until the read was answered.
        let futures::future::Either::Left((read, hanging)) =
            futures::future::select(Box::pin(read), hanging).await
        else {
            panic!("the recordings hang");
        };
        assert_eq!(read.unwrap(), 0);
        drop(held);
        hanging.await;
    }

    #[tokio::test]
    async fn a_transaction_that_somebody_left_behind_is_in_nobodys_way() {
        let server = TestPostgres::start().await;
        let store = PostgresStore::open_and_migrate(&server.url()).await.unwrap();
        for left in ["BEGIN", "BEGIN READ ONLY", "BEGIN; SELECT 1 / 0"] {
            leave(&store, left).await;
            let question = sqlx::query("SELECT FROM attempts").execute(store.reader()).await;
            assert!(question.is_ok(), "{left}: {question:?}");
            leave(&store, left).await;
            let mut transaction = store.write().await.unwrap();
            let written = sqlx::query("DELETE FROM attempts").execute(&mut *transaction).await;
            assert!(written.is_ok(), "{left}: {written:?}");
            transaction.commit().await.unwrap();
        }
    }
}
