//! What the sources of `retro-store-sql/ports`, which both databases compile, find different here.
//!
//! Nothing is locked: a transaction that may write has the whole file to itself from its beginning.

pub(crate) use sqlx::{Sqlite as Database, SqliteConnection as Connection};

pub(crate) use crate::SqliteStore as Store;
pub(crate) use crate::damage::OnTable;

/// A text as a column takes it: any.
pub(crate) const fn shown(text: &str) -> &str {
    text
}

/// The database's clock as an SQL expression: Unix time in milliseconds. The same throughout one statement.
macro_rules! now_ms {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}

/// The function that returns the larger of its arguments.
macro_rules! greatest {
    () => {
        "max"
    };
}

/// The function that returns the smaller of its arguments.
macro_rules! least {
    () => {
        "min"
    };
}

/// Ends a question whose rows are kept from everybody else.
macro_rules! for_update {
    () => {
        ""
    };
}

/// Ends a question that passes over rows which somebody else keeps.
macro_rules! skip_locked {
    () => {
        ""
    };
}

/// Names the index of a table in a question whose planner, without statistics, would take a worse one.
macro_rules! by_index {
    ($name:literal) => {
        concat!(" INDEXED BY ", $name)
    };
}

/// The column of `dead_letters` that grows with every row.
macro_rules! arrival {
    () => {
        "rowid"
    };
}

/// Ends a condition: to be one of the values of [`list`], a parameter.
macro_rules! any_of {
    ($parameter:literal) => {
        concat!(" IN (SELECT value FROM json_each(", $parameter, "))")
    };
}

/// Values as one parameter, for [`any_of`].
pub(crate) fn list(values: &[impl ToString]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    retro_store_sql::json(&values)
}

pub(crate) use {any_of, arrival, by_index, for_update, greatest, least, now_ms, skip_locked};
