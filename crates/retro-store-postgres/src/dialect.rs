//! Defines the Postgres dialect for the shared sources in `retro-store-sql/ports`.

pub(crate) use sqlx::{PgConnection as Connection, Postgres as Database};

pub(crate) use crate::PostgresStore as Store;
pub(crate) use crate::convert::{OnTable, storable_text};

/// SQL expression for the database time at the start of the statement, in Unix milliseconds. Constant within
/// a statement, so it can bound an index scan. Not `now()`, the start of the transaction, because the
/// transaction may have waited for its workflow's lock, and a lease starts when it is granted.
macro_rules! now_ms {
    () => {
        "floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint"
    };
}

/// SQL function that returns the largest of its arguments.
macro_rules! greatest {
    () => {
        "greatest"
    };
}

/// SQL function that returns the smallest of its arguments.
macro_rules! least {
    () => {
        "least"
    };
}

/// SQL clause that locks the selected rows, appended to a query.
macro_rules! for_update {
    () => {
        " FOR UPDATE"
    };
}

/// SQL clause that locks the selected rows and skips rows locked by others, appended to a query.
macro_rules! skip_locked {
    () => {
        " FOR UPDATE SKIP LOCKED"
    };
}

/// SQL clause that forces an index. Empty, because the Postgres planner has statistics and chooses the index
/// itself.
macro_rules! by_index {
    ($name:literal) => {
        ""
    };
}

/// Column of `dead_letters` that increases with each inserted row.
macro_rules! arrival {
    () => {
        "position"
    };
}

/// Right-hand side of an SQL condition that tests membership in a [`list_parameter`].
macro_rules! any_of {
    ($parameter:literal) => {
        concat!(" = ANY (", $parameter, ")")
    };
}

/// Builds a single list parameter for [`any_of`].
pub(crate) fn list_parameter(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

pub(crate) use {any_of, arrival, by_index, for_update, greatest, least, now_ms, skip_locked};
