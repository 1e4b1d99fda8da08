//! What the sources of `retro-store-sql/ports`, which both databases compile, find different here.

pub(crate) use sqlx::{PgConnection as Connection, Postgres as Database};

pub(crate) use crate::PostgresStore as Store;
pub(crate) use crate::answer::{OnTable, shown};

/// The database's clock as an SQL expression: Unix time in milliseconds, when the statement came. The same throughout
/// one statement, so that it can bound an index; and not when the transaction began (`now()`), since a transaction may
/// have waited for the lock of its workflow, and a lease is counted from when it is given.
macro_rules! now_ms {
    () => {
        "floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint"
    };
}

/// The function that returns the larger of its arguments.
macro_rules! greatest {
    () => {
        "greatest"
    };
}

/// The function that returns the smaller of its arguments.
macro_rules! least {
    () => {
        "least"
    };
}

/// Ends a question whose rows are kept from everybody else.
macro_rules! for_update {
    () => {
        " FOR UPDATE"
    };
}

/// Ends a question that passes over rows which somebody else keeps.
macro_rules! skip_locked {
    () => {
        " FOR UPDATE SKIP LOCKED"
    };
}

/// Names the index of a table, for a planner that would take a worse one; this one has statistics.
macro_rules! by_index {
    ($name:literal) => {
        ""
    };
}

/// The column of `dead_letters` that grows with every row.
macro_rules! arrival {
    () => {
        "position"
    };
}

/// Ends a condition: to be one of the values of [`list`], a parameter.
macro_rules! any_of {
    ($parameter:literal) => {
        concat!(" = ANY (", $parameter, ")")
    };
}

/// Values as one parameter, for [`any_of`].
pub(crate) fn list(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

pub(crate) use {any_of, arrival, by_index, for_update, greatest, least, now_ms, skip_locked};
