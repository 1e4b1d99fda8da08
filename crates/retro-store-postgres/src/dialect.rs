//! Definitions that the shared sources in `retro-store-sql/ports` need and that differ between the databases.

pub(crate) use sqlx::{PgConnection as Connection, Postgres as Database};

pub(crate) use crate::PostgresStore as Store;
pub(crate) use crate::convert::{OnTable, storable_text};

/// The database's clock as an SQL expression: Unix time in milliseconds when the statement arrived. It is
/// constant throughout one statement, so it can bound an index scan. It is not the start of the transaction
/// (`now()`), because a transaction may have waited for its workflow's lock, and a lease starts when it is
/// granted.
macro_rules! now_ms {
    () => {
        "floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint"
    };
}

/// SQL function that returns the larger of its arguments.
macro_rules! greatest {
    () => {
        "greatest"
    };
}

/// SQL function that returns the smaller of its arguments.
macro_rules! least {
    () => {
        "least"
    };
}

/// End of a query that locks its rows.
macro_rules! for_update {
    () => {
        " FOR UPDATE"
    };
}

/// End of a query that skips rows locked by others.
macro_rules! skip_locked {
    () => {
        " FOR UPDATE SKIP LOCKED"
    };
}

/// Names the index for a planner that would choose a worse one. Empty here: Postgres has statistics.
macro_rules! by_index {
    ($name:literal) => {
        ""
    };
}

/// Column of `dead_letters` that grows with every row.
macro_rules! arrival {
    () => {
        "position"
    };
}

/// End of a condition: the value is one of those in the parameter, which [`list_parameter`] builds.
macro_rules! any_of {
    ($parameter:literal) => {
        concat!(" = ANY (", $parameter, ")")
    };
}

/// Builds one parameter from several values, for [`any_of`].
pub(crate) fn list_parameter(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

pub(crate) use {any_of, arrival, by_index, for_update, greatest, least, now_ms, skip_locked};
