//! Definitions that the shared sources in `retro-store-sql/ports` need and that differ between the databases.
//!
//! These definitions lock nothing: a transaction that may write has exclusive write access from its start.

pub(crate) use sqlx::{Sqlite as Database, SqliteConnection as Connection};

pub(crate) use crate::SqliteStore as Store;
pub(crate) use crate::convert::OnTable;

/// Returns a text as a column can store it: unchanged.
pub(crate) const fn storable_text(text: &str) -> &str {
    text
}

/// The database's clock as an SQL expression: Unix time in milliseconds, constant throughout one statement.
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

/// End of a query that locks its rows.
macro_rules! for_update {
    () => {
        ""
    };
}

/// End of a query that skips rows locked by others.
macro_rules! skip_locked {
    () => {
        ""
    };
}

/// Names the index for a query where the planner, without statistics, would choose a worse one.
macro_rules! by_index {
    ($name:literal) => {
        concat!(" INDEXED BY ", $name)
    };
}

/// Column of `dead_letters` that grows with every row.
macro_rules! arrival {
    () => {
        "rowid"
    };
}

/// End of a condition: the value is one of those in the parameter, which [`list_parameter`] builds.
macro_rules! any_of {
    ($parameter:literal) => {
        concat!(" IN (SELECT value FROM json_each(", $parameter, "))")
    };
}

/// Builds one parameter from several values, for [`any_of`].
pub(crate) fn list_parameter(values: &[impl ToString]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    retro_store_sql::to_json(&values)
}

pub(crate) use {any_of, arrival, by_index, for_update, greatest, least, now_ms, skip_locked};
