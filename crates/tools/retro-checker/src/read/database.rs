use serde::de::DeserializeOwned;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, SqliteConnection, SqlitePool};

use crate::state::{State, WorkCounts};
use crate::{CheckError, error_at};

/// Connection pool for SQLite or Postgres.
#[derive(Debug)]
pub(super) enum Database {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// Table to read: name, columns and sort order.
///
/// A column may have a prefix: `hex:` renders bytes as hexadecimal, `utf8:` decodes text that Postgres stores
/// as bytes, and `bool:` renders a boolean. `is:column:name` renders a boolean `name` that is true if
/// `column` is not null.
struct Table(&'static str, &'static [&'static str], &'static str);

const WORKFLOWS: Table = Table(
    "workflows",
    &[
        "tenant",
        "workflow",
        "recorded",
        "counted",
        "claimed",
        "epoch",
        "bool:open",
        "events",
        "is:paused_until:paused",
    ],
    "tenant, workflow",
);
const INBOX: Table = Table(
    "inbox",
    &["consumer", "tenant", "utf8:source", "utf8:event_id", "content_hash"],
    "tenant, source, event_id",
);
const RUNS: Table =
    Table("runs", &["tenant", "workflow", "run_id", "number", "ordinal"], "tenant, workflow, number");
const RETROSPECTIVES: Table = Table(
    "retrospectives",
    &[
        "tenant",
        "id",
        "workflow",
        "epoch",
        "first_ordinal",
        "last_ordinal",
        "as_of",
        "state",
        "sample",
        "is:request:manual",
    ],
    "tenant, workflow, epoch",
);
const INVESTIGATIONS: Table = Table(
    "investigations",
    &[
        "tenant",
        "retrospective",
        "number",
        "run_id",
        "token",
        "ended_token",
        "attempts",
        "is:result:ended",
        "result",
    ],
    "tenant, retrospective, number",
);
const JOURNAL: Table = Table(
    "journal",
    &["tenant", "retrospective", "number", "stage", "token"],
    "tenant, retrospective, number, written_ms, token",
);
const CHANGES: Table = Table(
    "changes",
    &["sequence", "tenant", "id", "workflow", "memory", "kind", "cause", "cause_id", "change"],
    "sequence",
);
const MEMORIES: Table = Table("memories", &["tenant", "id", "status", "weight", "memory"], "tenant, id");
const OUTBOX: Table = Table("outbox", &["id", "kind", "workflow", "is:sent_ms:sent"], "sequence");
const ATTEMPTS: Table =
    Table("attempts", &["consumer", "stream", "sequence", "attempts"], "consumer, stream, sequence");
const DEAD_LETTERS: Table = Table(
    "dead_letters",
    &[
        "id",
        "consumer",
        "stream",
        "sequence",
        "utf8:subject",
        "hex:payload",
        "payload_sha256",
        "code",
        "attempts",
        "status",
    ],
    "created_ms, id",
);
const AUDIT_LOG: Table = Table(
    "audit_log",
    &[
        "sequence",
        "tenant",
        "subject_kind",
        "subject_id",
        "action",
        "requested_by",
        "reason",
        "opened_retrospective",
    ],
    "sequence",
);
const REPLAYS: Table = Table("replays", &["id", "dead_letter", "number", "state"], "dead_letter, number");

impl Database {
    pub(super) async fn open(url: &str) -> Result<Self, CheckError> {
        if let Some(file) = url.strip_prefix("sqlite:") {
            // Open read-only: a checker that creates or changes the file would check its own writes.
            let options = SqliteConnectOptions::new().filename(file).read_only(true);
            let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await;
            return Ok(Self::Sqlite(pool.map_err(error_at(url))?));
        }
        let pool = PgPoolOptions::new().max_connections(1).connect(url).await;
        Ok(Self::Postgres(pool.map_err(error_at("Postgres"))?))
    }

    /// Counts in one statement, so that the numbers belong to one moment.
    pub(super) async fn count_work(&self) -> Result<WorkCounts, CheckError> {
        const COUNT: &str = "SELECT CAST((SELECT coalesce(sum(counted), 0) FROM workflows) AS BIGINT),
             (SELECT count(*) FROM retrospectives WHERE state = 'investigating'),
             (SELECT count(*) FROM retrospectives WHERE state = 'settling'),
             (SELECT count(*) FROM changes)";
        let row: Result<(i64, i64, i64, i64), _> = match self {
            Self::Sqlite(pool) => sqlx::query_as(COUNT).fetch_one(pool).await,
            Self::Postgres(pool) => sqlx::query_as(COUNT).fetch_one(pool).await,
        };
        let (counted, investigating, settling, changes) = row.map_err(error_at("workflows"))?;
        let count = i64::unsigned_abs;
        Ok(WorkCounts {
            counted: count(counted),
            investigating: count(investigating),
            settling: count(settling),
            changes: count(changes),
        })
    }

    /// Reads all tables in one transaction.
    pub(super) async fn read_state(&self) -> Result<State, CheckError> {
        match self {
            Self::Sqlite(pool) => {
                let mut connection = pool.acquire().await.map_err(error_at("SQLite"))?;
                // One snapshot: tables read at different times would appear to violate invariants.
                let mut moment = connection.begin().await.map_err(error_at("SQLite"))?;
                read_tables(&mut Reader::Sqlite(&mut moment)).await
            }
            Self::Postgres(pool) => {
                let mut connection = pool.acquire().await.map_err(error_at("Postgres"))?;
                let mut moment =
                    connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await;
                let moment = moment.as_mut().map_err(|error| error_at("Postgres")(error))?;
                read_tables(&mut Reader::Postgres(moment)).await
            }
        }
    }
}

async fn read_tables(reader: &mut Reader<'_>) -> Result<State, CheckError> {
    let digests = reader.read_lines("seen_events", "SELECT CAST(count(*) AS TEXT) FROM seen_events").await?;
    let tombstones: Table = Table("tombstones", &["tenant", "memory"], "tenant, memory");
    let tombstones: Vec<serde_json::Value> = reader.read_rows(&tombstones).await?;
    let word = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    Ok(State {
        broker: crate::state::Broker::default(),
        workflows: reader.read_rows(&WORKFLOWS).await?,
        inbox: reader.read_rows(&INBOX).await?,
        digests: digests.first().and_then(|count| count.parse().ok()).unwrap_or_default(),
        runs: reader.read_rows(&RUNS).await?,
        retrospectives: reader.read_rows(&RETROSPECTIVES).await?,
        investigations: reader.read_rows(&INVESTIGATIONS).await?,
        journal: reader.read_rows(&JOURNAL).await?,
        changes: reader.read_rows(&CHANGES).await?,
        memories: reader.read_rows(&MEMORIES).await?,
        tombstones: tombstones.iter().map(|row| (word(row, "tenant"), word(row, "memory"))).collect(),
        outbox: reader.read_rows(&OUTBOX).await?,
        attempts: reader.read_rows(&ATTEMPTS).await?,
        dead_letters: reader.read_rows(&DEAD_LETTERS).await?,
        audit_log: reader.read_rows(&AUDIT_LOG).await?,
        replays: reader.read_rows(&REPLAYS).await?,
    })
}

/// Open read transaction on SQLite or Postgres.
enum Reader<'a> {
    Sqlite(&'a mut SqliteConnection),
    Postgres(&'a mut PgConnection),
}

impl Reader<'_> {
    /// Reads all rows of a table as JSON objects and deserializes them.
    async fn read_rows<T: DeserializeOwned>(&mut self, table: &Table) -> Result<Vec<T>, CheckError> {
        let Table(name, columns, order) = table;
        let pairs: Vec<String> = columns.iter().map(|column| self.column_pair(column)).collect();
        let object = match self {
            Self::Sqlite(_) => format!("json_object({})", pairs.join(", ")),
            Self::Postgres(_) => format!("CAST(json_build_object({}) AS TEXT)", pairs.join(", ")),
        };
        let lines = self.read_lines(name, &format!("SELECT {object} FROM {name} ORDER BY {order}")).await?;
        lines.iter().map(|line| serde_json::from_str(line).map_err(error_at(name))).collect()
    }

    async fn read_lines(&mut self, table: &str, sql: &str) -> Result<Vec<String>, CheckError> {
        // Not injectable: the SQL is built only from the constants of this file.
        let sql = AssertSqlSafe(sql.to_owned());
        let rows = match self {
            Self::Sqlite(connection) => sqlx::query_scalar(sql).fetch_all(&mut **connection).await,
            Self::Postgres(connection) => sqlx::query_scalar(sql).fetch_all(&mut **connection).await,
        };
        rows.map_err(error_at(table))
    }

    /// Formats a column as a JSON key and its SQL expression.
    fn column_pair(&self, column: &str) -> String {
        let parts: Vec<&str> = column.split(':').collect();
        format_column_pair(&parts, matches!(self, Self::Sqlite(_)))
    }
}

fn format_column_pair(parts: &[&str], sqlite: bool) -> String {
    match (parts, sqlite) {
        (["hex", name], true) => format!("'{name}_hex', lower(hex({name}))"),
        (["hex", name], false) => format!("'{name}_hex', encode({name}, 'hex')"),
        (["utf8", name], false) => format!("'{name}', convert_from({name}, 'UTF8')"),
        (["bool", name], true) => format!("'{name}', json(iif({name}, 'true', 'false'))"),
        (["is", name, called], true) => {
            format!("'{called}', json(iif({name} IS NULL, 'false', 'true'))")
        }
        (["is", name, called], false) => format!("'{called}', {name} IS NOT NULL"),
        (["utf8" | "bool", name], _) | ([name], _) => format!("'{name}', {name}"),
        _ => unreachable!("a column of this file"),
    }
}
