//! Provides the definitions that the shared sources in `retro-store-sql/ports` need and that differ between the
//! databases.

pub(crate) use sqlx::{PgConnection as Connection, Postgres as Database};

pub(crate) use crate::PostgresStore as Store;
pub(crate) use crate::convert::{OnTable, storable_text};

/// SQL expression for the time by the database's clock when the statement arrived, in Unix milliseconds. It is
/// constant throughout one statement, so it can bound an index scan. It is not the start of the transaction
/// (`now()`), because a transaction may have waited for its workflow's lock, and a lease starts when it is granted.
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

/// SQL clause at the end of a query that locks the selected rows.
macro_rules! for_update {
    () => {
        " FOR UPDATE"
    };
}

/// SQL clause at the end of a query that skips rows locked by other transactions.
macro_rules! skip_locked {
    () => {
        " FOR UPDATE SKIP LOCKED"
    };
}

/// SQL clause that names the index for a query. It is empty here, because the planner of Postgres has statistics and
/// chooses the index itself.
macro_rules! by_index {
    ($name:literal) => {
        ""
    };
}

/// Column of `dead_letters` whose value is higher in every new row.
macro_rules! arrival {
    () => {
        "position"
    };
}

/// End of an SQL condition that a value is one of those in a parameter built by [`list_parameter`].
macro_rules! any_of {
    ($parameter:literal) => {
        concat!(" = ANY (", $parameter, ")")
    };
}

/// Builds a single parameter from several values, for use with [`any_of`].
pub(crate) fn list_parameter(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

pub(crate) use {any_of, arrival, by_index, for_update, greatest, least, now_ms, skip_locked};
