//! Defines the SQLite dialect for the shared sources in `retro-store-sql/ports`.
//!
//! The locking clauses are empty, because a SQLite write transaction excludes all other writers from its
//! start.

pub(crate) use sqlx::{Sqlite as Database, SqliteConnection as Connection};

pub(crate) use crate::SqliteStore as Store;
pub(crate) use crate::convert::OnTable;

/// Returns the text unchanged, because SQLite text columns accept any string.
pub(crate) const fn storable_text(text: &str) -> &str {
    text
}

/// SQL expression for the database time in Unix milliseconds, constant within a statement.
macro_rules! now_ms {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}

/// SQL function that returns the largest of its arguments.
macro_rules! greatest {
    () => {
        "max"
    };
}

/// SQL function that returns the smallest of its arguments.
macro_rules! least {
    () => {
        "min"
    };
}

/// SQL clause that locks the selected rows, appended to a query.
macro_rules! for_update {
    () => {
        ""
    };
}

/// SQL clause that locks the selected rows and skips rows locked by others, appended to a query.
macro_rules! skip_locked {
    () => {
        ""
    };
}

/// SQL clause that forces an index. Without statistics, SQLite's planner would choose a worse one.
macro_rules! by_index {
    ($name:literal) => {
        concat!(" INDEXED BY ", $name)
    };
}

/// Column of `dead_letters` that increases with each inserted row.
macro_rules! arrival {
    () => {
        "rowid"
    };
}

/// Right-hand side of an SQL condition that tests membership in a [`list_parameter`].
macro_rules! any_of {
    ($parameter:literal) => {
        concat!(" IN (SELECT value FROM json_each(", $parameter, "))")
    };
}

/// Builds a single list parameter for [`any_of`].
pub(crate) fn list_parameter(values: &[impl ToString]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    retro_store_sql::to_json(&values)
}

pub(crate) use {any_of, arrival, by_index, for_update, greatest, least, now_ms, skip_locked};
