//! Defines the SQLite dialect of the ports.
//!
//! The locking clauses are empty and [`ROW_LOCKS`] is `false`, because a SQLite write transaction excludes all
//! other writers from its start.

pub(crate) use sqlx::{Sqlite as Database, SqliteConnection as Connection};

pub(crate) use super::SqliteStore as Store;
pub(crate) use super::errors::OnTable;

/// Set if write transactions run concurrently, so that each must lock rows before it reads the facts for a
/// decision.
pub(crate) const ROW_LOCKS: bool = false;

/// Takes no lock: the write transaction excludes all others.
pub(crate) async fn lock_number(_connection: &mut Connection, _number: i64) -> retro_store::Result<()> {
    Ok(())
}

/// Returns the text unchanged, because SQLite text columns accept any string.
pub(crate) const fn storable_text(text: &str) -> &str {
    text
}

/// Stored form of text that must be exact, NUL included.
pub(crate) type ExactText = String;

/// Converts text that must be exact, NUL included, to a parameter.
pub(crate) const fn exact_text(text: &str) -> &str {
    text
}

/// Converts the stored form of exact text to a string.
pub(crate) fn exact_string(text: ExactText) -> String {
    text
}

/// SQL expression for the database time in Unix milliseconds, constant within a statement.
macro_rules! now_ms {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}

/// SQL expression for the number up to which the changes of `context_changes` are complete: of one writer after the
/// other, the highest one.
macro_rules! change_mark {
    () => {
        "(SELECT coalesce(max(number), 0) FROM context_changes)"
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

/// SQL clause that locks the selected rows (of the table with this alias) and skips rows locked by others,
/// appended to a query.
macro_rules! skip_locked {
    ($($alias:literal)?) => {
        ""
    };
}

/// SQL clause that forces an index. Without statistics, SQLite's planner would choose a worse one.
macro_rules! by_index {
    ($name:literal) => {
        concat!(" INDEXED BY ", $name)
    };
}

/// SQL condition for the rows of one workflow, or of all workflows if the parameter is NULL.
///
/// A range, because the planner finds no index for `parameter IS NULL OR column = parameter`.
macro_rules! of_workflow {
    ($column:literal, $parameter:literal) => {
        concat!(
            $column,
            " >= coalesce(",
            $parameter,
            ", '') AND ",
            $column,
            " <= coalesce(",
            $parameter,
            ", char(0x10FFFF))"
        )
    };
}

/// Column of `dead_letters` and of `journal` that increases with each inserted row.
macro_rules! arrival {
    () => {
        "rowid"
    };
}

/// SQL suffix that makes an ORDER BY expression sort by bytes, as keys do in both databases.
macro_rules! by_bytes {
    () => {
        ""
    };
}

/// SQL expression for a text field of a JSON document. Not for documents that may contain an escaped NUL.
macro_rules! json_field {
    ($document:literal, $field:literal) => {
        concat!("(", $document, " ->> '", $field, "')")
    };
}

/// SQL condition that a number is in an array field of a JSON document.
macro_rules! json_array_contains {
    ($document:literal, $field:literal, $number:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM json_each(",
            $document,
            ", '$.",
            $field,
            "') AS member WHERE member.value = ",
            $number,
            ")"
        )
    };
}

/// Right-hand side of an SQL condition that tests membership in a list, bound as one parameter.
macro_rules! any_of {
    ($parameter:literal) => {
        concat!(" IN (SELECT value FROM json_each(", $parameter, "))")
    };
}

/// Right-hand side of an SQL condition that tests membership in the results of a query, which runs once.
macro_rules! any_selected {
    ($($query:expr),+) => {
        concat!(" IN (", $($query),+, ")")
    };
}

/// Builds a list of texts for [`any_of`].
pub(crate) fn list_parameter(values: &[impl ToString]) -> String {
    crate::to_json(&values.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// Builds a list of numbers for [`any_of`].
pub(crate) fn number_list_parameter(values: impl IntoIterator<Item = i64>) -> String {
    crate::to_json(&values.into_iter().collect::<Vec<_>>())
}

/// SQL expression for the bytes that a text column spells in hexadecimal digits, because bytes cannot be in
/// the rows of [`bind_rows`].
macro_rules! from_hex {
    ($column:literal) => {
        concat!("unhex(", $column, ")")
    };
}

/// SQL table of the rows bound by [`bind_rows`]: the alias, then each column after its parameter, then the
/// 1-based `place` of the row. The parameters must be the last of the statement.
///
/// SQLite binds only the first parameter, a JSON array of rows.
macro_rules! rows_table {
    ($alias:literal, $first:literal $first_column:literal $(, $parameter:literal $column:literal)*) => {
        rows_table!(
            @columns $alias, $first,
            [$first_column $($column)*]
            ["0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11"]
            []
        )
    };
    (@columns $alias:literal, $first:literal, [] [$($unused:literal)*] [$($done:literal)*]) => {
        concat!(
            // `jsonb_each`, because the rows of `json_each` are texts, and each column would parse its row again.
            "(SELECT key + 1 AS place", $($done,)* " FROM jsonb_each(", $first, ")) AS ", $alias
        )
    };
    (
        @columns $alias:literal, $first:literal,
        [$column:literal $($columns:literal)*] [$index:literal $($indexes:literal)*] [$($done:literal)*]
    ) => {
        rows_table!(
            @columns $alias, $first,
            [$($columns)*] [$($indexes)*] [$($done)* ", value ->> " $index " AS " $column]
        )
    };
}

/// Binds rows for a [`rows_table`] to the last parameters of a query: the query, the rows, and the columns of a
/// row in the order of the table.
macro_rules! bind_rows {
    ($query:expr, $rows:expr, |$row:pat_param| [$($column:expr),+ $(,)?]) => {
        $query.bind({
            let mut rows = $crate::rows::json_rows::JsonRows::default();
            for row in ($rows).iter() {
                let $row = row;
                rows.begin_row();
                $(rows.push_column(&$column);)+
            }
            rows.finish()
        })
    };
}

/// SQL join that finds the rows of a table by an index, one lookup for each row on the left: the table, its
/// columns, and the condition with qualified names.
///
/// CROSS JOIN fixes the join order: the planner, without statistics, would scan the table instead.
macro_rules! lookup_join {
    ($table:literal, $columns:literal, $condition:expr) => {
        concat!(" CROSS JOIN ", $table, " ON ", $condition)
    };
}

pub(crate) use {
    any_of, any_selected, arrival, bind_rows, by_bytes, by_index, change_mark, for_update, from_hex,
    greatest, json_array_contains, json_field, least, lookup_join, now_ms, of_workflow, rows_table,
    skip_locked,
};
