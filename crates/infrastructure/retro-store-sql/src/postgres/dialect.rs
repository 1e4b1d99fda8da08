//! Defines the Postgres dialect of the ports.

pub(crate) use sqlx::{PgConnection as Connection, Postgres as Database};

pub(crate) use super::PostgresStore as Store;
pub(crate) use super::errors::OnTable;

/// Set if write transactions run concurrently, so that each must lock rows before it reads the facts for a
/// decision.
pub(crate) const ROW_LOCKS: bool = true;

/// Takes the lock with a number until the transaction ends, for what has no row to lock. A transaction takes one of
/// them at most, so there are never more than connections.
pub(crate) async fn lock_number(connection: &mut Connection, number: i64) -> retro_store::Result<()> {
    const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
    let locked = sqlx::query(LOCK).bind(number).execute(connection).await;
    locked.on_table("pg_locks").map(|_| ())
}

/// Replaces each NUL with U+FFFD, because Postgres text columns cannot store NUL. Values that must be exact
/// are stored as JSON or as [`ExactText`] instead.
pub(crate) fn storable_text(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// Stored form of text that must be exact, NUL included.
pub(crate) type ExactText = Vec<u8>;

/// Converts text that must be exact, NUL included, to a parameter.
pub(crate) const fn exact_text(text: &str) -> &[u8] {
    text.as_bytes()
}

/// Converts the stored form of exact text to a string. Not lossy in practice: it was written from a string.
pub(crate) fn exact_string(text: ExactText) -> String {
    String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// SQL expression for the database time at the start of the statement, in Unix milliseconds. Constant within
/// a statement, so it can bound an index scan. Not `now()`, the start of the transaction, because the
/// transaction may have waited for its workflow's lock, and a lease starts when it is granted.
macro_rules! now_ms {
    () => {
        "floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint"
    };
}

/// SQL expression for the number up to which the changes of `context_changes` are complete: that before the oldest
/// transaction under way.
macro_rules! change_mark {
    () => {
        "(SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT) - 1)"
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

/// SQL clause that locks the selected rows (of the table with this alias) and skips rows locked by others,
/// appended to a query.
macro_rules! skip_locked {
    () => {
        " FOR UPDATE SKIP LOCKED"
    };
    ($alias:literal) => {
        concat!(" FOR UPDATE OF ", $alias, " SKIP LOCKED")
    };
}

/// SQL clause that forces an index. Empty, because the Postgres planner has statistics and chooses the index
/// itself.
macro_rules! by_index {
    ($name:literal) => {
        ""
    };
}

/// SQL condition for the rows of one workflow, or of all workflows if the parameter is NULL.
macro_rules! of_workflow {
    ($column:literal, $parameter:literal) => {
        concat!("(", $parameter, " IS NULL OR ", $column, " = ", $parameter, ")")
    };
}

/// Column of `dead_letters` and of `journal` that increases with each inserted row.
macro_rules! arrival {
    () => {
        "position"
    };
}

/// SQL suffix that makes an ORDER BY expression sort by bytes, as keys do in both databases.
macro_rules! by_bytes {
    () => {
        " COLLATE \"C\""
    };
}

/// SQL expression for a text field of a JSON document. Not for documents that may contain an escaped NUL,
/// which Postgres cannot take apart.
macro_rules! json_field {
    ($document:literal, $field:literal) => {
        concat!("(", $document, "::json ->> '", $field, "')")
    };
}

/// SQL condition that a number is in an array field of a JSON document.
macro_rules! json_array_contains {
    ($document:literal, $field:literal, $number:literal) => {
        concat!("(", $document, "::jsonb -> '", $field, "') @> to_jsonb(", $number, ")")
    };
}

/// Right-hand side of an SQL condition that tests membership in a list, bound as one parameter.
macro_rules! any_of {
    ($parameter:literal) => {
        concat!(" = ANY (", $parameter, ")")
    };
}

/// Right-hand side of an SQL condition that tests membership in the results of a query, which runs once, so a
/// query that locks rows locks no more than it returns.
macro_rules! any_selected {
    ($($query:expr),+) => {
        concat!(" = ANY (ARRAY(", $($query),+, "))")
    };
}

/// Builds a list of texts for [`any_of`].
pub(crate) fn list_parameter(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

/// Builds a list of numbers for [`any_of`].
pub(crate) fn number_list_parameter(values: impl IntoIterator<Item = i64>) -> Vec<i64> {
    values.into_iter().collect()
}

/// SQL expression for the bytes that a text column spells in hexadecimal digits, because bytes cannot be in
/// the rows of [`bind_rows`].
macro_rules! from_hex {
    ($column:literal) => {
        concat!("decode(", $column, ", 'hex')")
    };
}

/// SQL table of the rows bound by [`bind_rows`]: the alias, then each column after its parameter, then the
/// 1-based `place` of the row. The parameters must be the last of the statement.
///
/// Postgres binds an array a column. The driver declares the types of the arrays.
macro_rules! rows_table {
    ($alias:literal, $first:literal $first_column:literal $(, $parameter:literal $column:literal)*) => {
        concat!(
            "unnest(", $first $(, ", ", $parameter)*, ") WITH ORDINALITY AS ", $alias,
            " (", $first_column $(, ", ", $column)*, ", place)"
        )
    };
}

/// Binds rows for a [`rows_table`] to the last parameters of a query: the query, the rows, and the columns of a
/// row in the order of the table.
macro_rules! bind_rows {
    ($query:expr, $rows:expr, |$row:pat_param| [$($column:expr),+ $(,)?]) => {
        $query$(.bind(
            ($rows)
                .iter()
                .map(|row| {
                    #[allow(unused_variables, reason = "a column needs a part of the row")]
                    let $row = row;
                    $column
                })
                .collect::<Vec<_>>(),
        ))+
    };
}

/// SQL join that finds the rows of a table by an index, one lookup for each row on the left: the table, its
/// columns, and the condition with qualified names.
///
/// LATERAL with OFFSET 0 forces the lookups: the plan of a plain join, cached while the table was small, would
/// scan the whole table for every batch until the table is analysed.
macro_rules! lookup_join {
    ($table:literal, $columns:literal, $condition:expr) => {
        concat!(
            " CROSS JOIN LATERAL (SELECT ",
            $columns,
            " FROM ",
            $table,
            " WHERE ",
            $condition,
            " OFFSET 0) AS ",
            $table
        )
    };
}

pub(crate) use {
    any_of, any_selected, arrival, bind_rows, by_bytes, by_index, change_mark, for_update, from_hex,
    greatest, json_array_contains, json_field, least, lookup_join, now_ms, of_workflow, rows_table,
    skip_locked,
};
