//! Provides the definitions that the shared sources in `retro-store-sql/ports` need and that differ between the
//! databases.
//!
//! These definitions lock nothing: a transaction that may write has exclusive write access from its start.

pub(crate) use sqlx::{Sqlite as Database, SqliteConnection as Connection};

pub(crate) use crate::SqliteStore as Store;
pub(crate) use crate::convert::OnTable;

/// Returns a text unchanged, because SQLite can store any text in a column.
pub(crate) const fn storable_text(text: &str) -> &str {
    text
}

/// SQL expression for the time by the database's clock, in Unix milliseconds. It is constant throughout one
/// statement.
macro_rules! now_ms {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}

/// SQL function that returns the larger of its arguments.
macro_rules! greatest {
    () => {
        "max"
    };
}

/// SQL function that returns the smaller of its arguments.
macro_rules! least {
    () => {
        "min"
    };
}

/// SQL clause at the end of a query that locks the selected rows.
macro_rules! for_update {
    () => {
        ""
    };
}

/// SQL clause at the end of a query that skips rows locked by other transactions.
macro_rules! skip_locked {
    () => {
        ""
    };
}

/// SQL clause that names the index for a query. Without it the planner, which has no statistics, would choose a worse
/// one.
macro_rules! by_index {
    ($name:literal) => {
        concat!(" INDEXED BY ", $name)
    };
}

/// Column of `dead_letters` whose value is higher in every new row.
macro_rules! arrival {
    () => {
        "rowid"
    };
}

/// End of an SQL condition that a value is one of those in a parameter built by [`list_parameter`].
macro_rules! any_of {
    ($parameter:literal) => {
        concat!(" IN (SELECT value FROM json_each(", $parameter, "))")
    };
}

/// Builds a single parameter from several values, for use with [`any_of`].
pub(crate) fn list_parameter(values: &[impl ToString]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    retro_store_sql::to_json(&values)
}

pub(crate) use {any_of, arrival, by_index, for_update, greatest, least, now_ms, skip_locked};
