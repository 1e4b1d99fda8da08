//! The hand-written loop beside the counter: what a careful engineer writes who needs the same rows and nothing else.
//!
//! It consumes in batches, parses the envelope and the data, hashes the data canonically, deduplicates by the event's
//! identity, compresses the trajectory, stores the same rows as the counter and counts the runs of each workflow, all
//! in one transaction, and acknowledges after the commit: plainly, with the last acknowledgement confirmed.
//!
//! **What it leaves out**, and the counter does: removing secrets; checking each field and naming a wrong one; later
//! attempts of a known run; events whose details were purged; opening retrospectives and their messages; the
//! visibility of repositories; dead letters, attempts, panics and time limits; traces, metrics and logs.

mod postgres;
mod row;
mod sqlite;

use std::borrow::Cow;
use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::jetstream::{self, consumer::PullConsumer};
use futures::{FutureExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::servers::{INTAKE_STREAM, connect_client};
use row::Row;

/// Number of messages per batch, as in the counter's default configuration.
const BATCH_MAX: usize = 500;
/// zstd level of the stored trajectories, the same as in the store.
const ZSTD_LEVEL: i32 = 3;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    source: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    data: Value,
}

enum Database {
    Sqlite(sqlx::SqliteConnection),
    Postgres(sqlx::PgConnection),
}

/// Runs the loop with this durable consumer until the process is stopped. `database` is a `postgres://` URL or the
/// path of a SQLite file. Both have the schema of `retro migrate`.
pub(crate) async fn run_floor_loop(nats: &str, database: &str, consumer: &str) -> Result<()> {
    let mut database = connect(database).await?;
    let jetstream = jetstream::new(connect_client(nats).await?);
    let consumer: PullConsumer = jetstream.get_consumer_from_stream(consumer, INTAKE_STREAM).await?;
    let messages = consumer.stream().max_messages_per_batch(BATCH_MAX).expires(Duration::from_secs(30));
    let mut messages = messages.heartbeat(Duration::from_secs(5)).messages().await?;
    let mut compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL)?;
    while let Some(first) = messages.next().await {
        let mut batch = vec![first?];
        // Polled outside tokio's cooperative budget, which would end a batch at about 127 messages.
        while batch.len() < BATCH_MAX
            && let Some(Some(message)) = tokio::task::unconstrained(messages.next()).now_or_never()
        {
            batch.push(message?);
        }
        let rows: Result<Vec<Row>> =
            batch.iter().map(|message| parse_row(message, &mut compressor)).collect();
        let mut rows = rows?;
        match &mut database {
            Database::Sqlite(connection) => sqlite::store_rows(connection, &mut rows).await?,
            Database::Postgres(connection) => postgres::store_rows(connection, &mut rows).await?,
        }
        let Some((last, others)) = batch.split_last() else { continue };
        for message in others {
            message.ack().await.map_err(|error| anyhow::anyhow!("acknowledging: {error}"))?;
        }
        last.double_ack().await.map_err(|error| anyhow::anyhow!("acknowledging: {error}"))?;
    }
    Ok(())
}

async fn connect(database: &str) -> Result<Database> {
    use sqlx::{ConnectOptions as _, Connection as _};
    if database.starts_with("postgres://") {
        return Ok(Database::Postgres(sqlx::PgConnection::connect(database).await?));
    }
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(database);
    let options = options.synchronous(sqlx::sqlite::SqliteSynchronous::Full);
    // The same settings as the program's, which are tuned for these tables.
    let options = options.pragma("cache_size", "-32768").pragma("wal_autocheckpoint", "8000");
    Ok(Database::Sqlite(options.connect().await?))
}

fn parse_row(message: &jetstream::Message, compressor: &mut zstd::bulk::Compressor<'_>) -> Result<Row> {
    let mut subject = message.subject.rsplit('.');
    let (workflow, tenant) = (subject.next().context("no workflow")?, subject.next().context("no tenant")?);
    let envelope: Envelope<'_> = serde_json::from_slice(&message.payload)?;
    let mut data = envelope.data;
    // Sorted keys and no blanks: the canonical form.
    let content_hash = format!("{:x}", HexDigest(Sha256::digest(serde_json::to_vec(&data)?).as_slice()));
    let object = data.as_object_mut().context("the data is no object")?;
    let trajectory = object.remove("trajectory").context("no trajectory")?;
    let run_id = object.get("run_id").and_then(Value::as_str).context("no run_id")?.to_owned();
    Ok(Row {
        tenant: tenant.to_owned(),
        workflow: workflow.to_owned(),
        source: envelope.source.into_owned(),
        event_id: envelope.id.into_owned(),
        content_hash,
        run_id,
        facts: serde_json::to_string(&data)?,
        trajectory: compressor.compress(&serde_json::to_vec(&trajectory)?)?,
        sequence: i64::try_from(message.info().map_err(|error| anyhow::anyhow!("{error}"))?.stream_sequence)?,
        number: 0,
    })
}

struct HexDigest<'a>(&'a [u8]);

impl std::fmt::LowerHex for HexDigest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
