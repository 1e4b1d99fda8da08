//! Tests both databases: the conformance suite of `retro-store`, migrations, and damaged or unavailable
//! databases.

mod indexes;
mod postgres;
mod sqlite;
mod statements;

/// Tables that stay small however much is stored: one row for the database, one for each retention stage or stream,
/// one for each loss of the broker's data, and a queue whose rows are deleted when their work is done.
const SMALL_TABLES: [&str; 6] =
    ["database_identity", "retention_totals", "streams", "_sqlx_migrations", "stream_losses", "due_credits"];
