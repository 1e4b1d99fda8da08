//! Starts the broker and the databases of a measurement, and fills the intake stream.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::{self, Context as JetStream};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use retro_bus::{Bus, BusConfig, NatsIntakePublisher, StreamSizes};
use retro_events::{IntakePublisher as _, ValidatedEvent};
use retro_testkit::{TestNats, TestPostgres};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use tokio::process::Command;

use crate::events::Event;

/// Name of the stream of run events.
pub(crate) const INTAKE_STREAM: &str = "RETRO_INTAKE";
/// Space for all streams, in MiB: the intake stream gets 8 of 19 parts, 2.5 GiB.
const STREAMS_MIB: u32 = 6_000;
/// Number of events published in one atomic batch.
pub(crate) const PUBLISH_BATCH: usize = 500;
/// Number of atomic batches that are open at once.
pub(crate) const PUBLISH_CONCURRENT: usize = 4;
/// Interval at which the progress of a consumer is read.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(10);

/// A broker of its own, configured as `retro up` configures it: every message is synced to disk.
pub(crate) struct Broker {
    nats: TestNats,
    bus: Bus,
    jetstream: JetStream,
}

impl Broker {
    /// Starts a broker with empty streams.
    pub(crate) async fn start() -> Result<Self> {
        let nats = TestNats::start().await;
        let config =
            BusConfig { sizes: StreamSizes::divide(STREAMS_MIB), ..BusConfig::new(nats.url(), "bench") };
        let bus = nats.connect_bus_with(config).await;
        let jetstream = jetstream::new(connect_client(nats.url()).await?);
        Ok(Self { nats, bus, jetstream })
    }

    /// Returns the URL of the broker.
    pub(crate) fn url(&self) -> &str {
        self.nats.url()
    }

    /// Kills the broker. It is started again with its data.
    pub(crate) fn kill(&self) {
        self.nats.kill_server();
    }

    /// Publishes the events in atomic batches, several at once, and waits until all are stored. Without a program in
    /// between, this is also the broker's own rate.
    pub(crate) async fn publish_events(&self, events: impl Iterator<Item = Event>) -> Result<()> {
        let publisher = NatsIntakePublisher::new(self.bus.clone());
        let mut open = FuturesUnordered::new();
        let events = events.map(|event| ValidatedEvent { key: event.key, payload: event.payload.into() });
        let mut events = events.peekable();
        while events.peek().is_some() {
            let batch: Vec<ValidatedEvent> = events.by_ref().take(PUBLISH_BATCH).collect();
            let publisher = publisher.clone();
            open.push(async move { publisher.publish_events(&batch).await });
            if open.len() >= PUBLISH_CONCURRENT {
                open.next().await.context("a batch is open")??;
            }
        }
        while let Some(stored) = open.next().await {
            stored?;
        }
        Ok(())
    }

    /// Deletes all messages of the intake stream.
    pub(crate) async fn purge(&self) -> Result<()> {
        self.jetstream.get_stream(INTAKE_STREAM).await?.purge().await?;
        Ok(())
    }

    /// Returns the number of messages in the intake stream.
    pub(crate) async fn count_messages(&self) -> Result<u64> {
        let mut stream = self.jetstream.get_stream(INTAKE_STREAM).await?;
        Ok(stream.info().await?.state.messages)
    }

    /// Creates a durable consumer that begins at the first message of the intake stream, or deletes and creates it.
    pub(crate) async fn reset_consumer(&self, name: &str) -> Result<()> {
        let stream = self.jetstream.get_stream(INTAKE_STREAM).await?;
        // Fails if there is none.
        let _ = stream.delete_consumer(name).await;
        stream
            .create_consumer(Config {
                durable_name: Some(name.to_owned()),
                ack_policy: AckPolicy::Explicit,
                ack_wait: Duration::from_secs(30),
                max_ack_pending: 4096,
                filter_subject: "retro.run.completed.>".to_owned(),
                ..Config::default()
            })
            .await?;
        Ok(())
    }

    /// Deletes a durable consumer, so that the next process creates it and begins at the first message.
    pub(crate) async fn delete_consumer(&self, name: &str) -> Result<()> {
        let stream = self.jetstream.get_stream(INTAKE_STREAM).await?;
        // Fails if there is none.
        let _ = stream.delete_consumer(name).await;
        Ok(())
    }

    /// Waits until the consumer exists and has received its first message.
    pub(crate) async fn wait_until_begun(&self, name: &str) -> Result<()> {
        loop {
            if let Some(progress) = self.find_progress(name).await?
                && progress.delivered > 0
            {
                return Ok(());
            }
            tokio::time::sleep(PROGRESS_INTERVAL).await;
        }
    }

    /// Returns `true` if the consumer has received and acknowledged every message.
    pub(crate) async fn is_finished(&self, name: &str) -> Result<bool> {
        let progress = self.find_progress(name).await?.context("the consumer was deleted")?;
        Ok(progress.left == 0)
    }

    async fn find_progress(&self, name: &str) -> Result<Option<Progress>> {
        let found: Result<PullConsumer, _> =
            self.jetstream.get_consumer_from_stream(name, INTAKE_STREAM).await;
        let Ok(mut consumer) = found else { return Ok(None) };
        let info = consumer.info().await?;
        Ok(Some(Progress {
            delivered: info.delivered.stream_sequence,
            left: info.num_pending + info.num_ack_pending as u64,
        }))
    }
}

/// Connects to the broker. Passes the credentials of the URL as options, because the client ignores those in a URL.
pub(crate) async fn connect_client(url: &str) -> Result<async_nats::Client> {
    let login = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
    let options = match login.and_then(|(login, _)| login.split_once(':')) {
        Some((user, password)) => {
            async_nats::ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned())
        }
        None => async_nats::ConnectOptions::new(),
    };
    Ok(options.connect(url).await?)
}

struct Progress {
    delivered: u64,
    left: u64,
}

/// Kind of database under measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DatabaseKind {
    /// One SQLite file, `synchronous = FULL`.
    Sqlite,
    /// A Postgres server of its own, `fsync` and `synchronous_commit` on.
    Postgres,
}

/// An empty, migrated database.
pub(crate) struct Database {
    folder: PathBuf,
    postgres: Option<TestPostgres>,
}

impl Database {
    /// Creates a database in `folder`, which must be empty, and migrates it with the program itself.
    pub(crate) async fn create(kind: DatabaseKind, folder: &Path, retro: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let postgres = match kind {
            DatabaseKind::Sqlite => None,
            DatabaseKind::Postgres => Some(TestPostgres::start_durable().await),
        };
        let database = Self { folder: folder.to_owned(), postgres };
        let mut migrate = Command::new(retro);
        migrate.arg("migrate").args(database.arguments()).envs(database.variables());
        let done = migrate.output().await.context("cannot start `retro migrate`")?;
        ensure!(done.status.success(), "`retro migrate`: {}", String::from_utf8_lossy(&done.stderr));
        Ok(database)
    }

    /// Ends the server at once, as in a crash. Does nothing for SQLite.
    pub(crate) fn stop(&mut self) {
        if let Some(postgres) = &mut self.postgres {
            postgres.stop();
        }
    }

    /// Starts the server again with its data. Does nothing for SQLite.
    pub(crate) async fn start_again(&mut self) {
        if let Some(postgres) = &mut self.postgres {
            postgres.start_again().await;
        }
    }

    /// Returns the command-line arguments by which the program finds the database.
    pub(crate) fn arguments(&self) -> Vec<String> {
        match &self.postgres {
            None => vec!["--data-dir".to_owned(), self.folder.display().to_string()],
            Some(_) => Vec::new(),
        }
    }

    /// Returns the environment variables by which the program finds the database.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        self.postgres.iter().map(|postgres| ("DATABASE_URL".to_owned(), postgres.url())).collect()
    }

    /// Returns the address for a driver: the URL, or the path of the file.
    pub(crate) fn address(&self) -> String {
        match &self.postgres {
            None => self.folder.join("retro.db").display().to_string(),
            Some(postgres) => postgres.url(),
        }
    }

    /// Returns `true` for Postgres.
    pub(crate) fn is_postgres(&self) -> bool {
        self.postgres.is_some()
    }

    /// Returns the size of the database on disk, in bytes.
    pub(crate) async fn size(&self) -> Result<u64> {
        if self.is_postgres() {
            return self.query_number("SELECT pg_database_size(current_database())").await;
        }
        Ok(std::fs::metadata(self.address())?.len())
    }

    /// Executes a statement on a connection of its own.
    pub(crate) async fn execute(&self, statement: String) -> Result<()> {
        let (address, statement) = (self.address(), AssertSqlSafe(statement));
        if self.is_postgres() {
            let mut connection = PgConnection::connect(&address).await?;
            sqlx::query(statement).execute(&mut connection).await?;
        } else {
            let mut connection = SqliteConnection::connect(&address).await?;
            sqlx::query(statement).execute(&mut connection).await?;
        }
        Ok(())
    }

    /// Returns the number that a query selects.
    pub(crate) async fn query_number(&self, query: &'static str) -> Result<u64> {
        let address = self.address();
        let number: i64 = if self.is_postgres() {
            sqlx::query_scalar(query).fetch_one(&mut PgConnection::connect(&address).await?).await?
        } else {
            sqlx::query_scalar(query).fetch_one(&mut SqliteConnection::connect(&address).await?).await?
        };
        Ok(u64::try_from(number)?)
    }

    /// Asks the kernel to forget the pages of the database's file, so that they are read from the disk. What a server
    /// has in its own memory stays.
    pub(crate) fn evict_from_page_cache(&self) -> Result<()> {
        if self.is_postgres() {
            return Ok(());
        }
        let file = std::fs::File::open(self.address())?;
        file.sync_all()?;
        Ok(posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?)
    }

    /// Returns the process id of the database server, if there is one.
    pub(crate) fn server_pid(&self) -> Option<u32> {
        self.postgres.as_ref()?.pid()
    }
}
