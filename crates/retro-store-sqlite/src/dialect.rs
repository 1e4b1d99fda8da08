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

pub(crate) use {for_update, greatest, least, now_ms, skip_locked};
