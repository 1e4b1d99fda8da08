//! Converts between columns and Rust types, and reports errors with the location of the value.

use std::fmt::Display;
use std::str::FromStr;

use jiff::Timestamp;
use retro_core::id::WorkflowKey;
use retro_store::{Result, StoreError};
use serde::de::DeserializeOwned;
use sqlx::error::DatabaseError;

/// Converts a sqlx error to a [`StoreError`]. `table` is named in the message; `passes` returns true for
/// database errors that are transient rather than a sign of damaged data.
pub(crate) fn translate_error(
    table: &str,
    error: &sqlx::Error,
    passes: impl Fn(&dyn DatabaseError) -> bool,
) -> StoreError {
    match error {
        sqlx::Error::Database(answer) if !passes(answer.as_ref()) => {
            StoreError::Damaged { place: table.to_owned(), problem: answer.to_string() }
        }
        sqlx::Error::ColumnDecode { index, source } => {
            StoreError::Damaged { place: format!("{table}, column {index}"), problem: source.to_string() }
        }
        sqlx::Error::RowNotFound
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::Decode(_)
        | sqlx::Error::Encode(_)
        | sqlx::Error::TypeNotFound { .. } => {
            StoreError::Damaged { place: table.to_owned(), problem: error.to_string() }
        }
        // All other errors concern the connection or the pool. Reporting them as damage would stop the
        // retries.
        _ => StoreError::Unavailable(format!("{table}: {error}")),
    }
}

/// Location of a stored value for error messages: table, column and row key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location<K> {
    column: &'static str,
    key: K,
}

/// Creates the location of a column (`table.column`, or only `table`) in the row with a key.
pub(crate) const fn at<K: Display>(column: &'static str, key: K) -> Location<K> {
    Location { column, key }
}

impl<K: Display> Location<K> {
    /// Creates a [`StoreError::Damaged`] for the value at this location.
    pub(crate) fn damaged_error(&self, problem: impl Display) -> StoreError {
        StoreError::Damaged {
            place: format!("{} of {}", self.column, self.key),
            problem: problem.to_string(),
        }
    }

    /// Parses a JSON value.
    pub(crate) fn parse_json<T: DeserializeOwned>(&self, text: &str) -> Result<T> {
        serde_json::from_str(text).map_err(|error| self.damaged_error(error))
    }

    /// Parses the serde name of an enum variant.
    pub(crate) fn parse_enum<T: DeserializeOwned>(&self, word: &str) -> Result<T> {
        serde_json::from_value(word.into()).map_err(|error| self.damaged_error(error))
    }

    /// Parses a value with [`FromStr`], such as a name, an id or a policy timestamp.
    pub(crate) fn parse<T: FromStr<Err: Display>>(&self, text: &str) -> Result<T> {
        text.parse().map_err(|error| self.damaged_error(error))
    }

    /// Converts an integer to an unsigned type. Fails if the integer is negative or too large.
    pub(crate) fn parse_unsigned<T: TryFrom<i64, Error: Display>>(&self, number: i64) -> Result<T> {
        T::try_from(number).map_err(|error| self.damaged_error(format!("{number}: {error}")))
    }

    /// Converts Unix milliseconds of the database clock to a timestamp.
    pub(crate) fn parse_millis(&self, millis: i64) -> Result<Timestamp> {
        Timestamp::from_millisecond(millis).map_err(|error| self.damaged_error(error))
    }

    /// Fails unless a statement affected exactly `expected` rows.
    pub(crate) fn check_rows_affected(&self, rows: u64, expected: usize) -> Result<()> {
        if rows == expected as u64 {
            Ok(())
        } else {
            Err(self.damaged_error(format!("{rows} rows were written instead of {expected}")))
        }
    }
}

/// Serializes a value for a JSON column.
pub(crate) fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("stored values serialize to JSON")
}

/// Converts a number to a database integer, saturating at `i64::MAX`. Ordinals, epochs and seconds stay far
/// below it.
pub(crate) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Formats a policy timestamp with nine decimals, so the strings sort chronologically.
pub(crate) fn format_policy_time(moment: Timestamp) -> String {
    format!("{moment:.9}")
}

/// Parses a workflow key from its two columns.
pub(crate) fn parse_workflow_key(tenant: &str, workflow: &str) -> Result<WorkflowKey> {
    let place = at("workflows", format!("{tenant}/{workflow}"));
    Ok(WorkflowKey { tenant: place.parse(tenant)?, workflow: place.parse(workflow)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_times_sort_as_text_and_parse_exactly() {
        let moments = ["2026-11-20T10:00:00Z", "2026-11-20T10:00:00.000000001Z", "2026-11-20T10:00:00.1Z"];
        let moments = moments.map(|text| text.parse::<Timestamp>().unwrap());
        let stored = moments.map(format_policy_time);
        assert!(stored.is_sorted(), "{stored:?}");
        assert_eq!(stored.map(|text| text.parse::<Timestamp>().unwrap()), moments);
    }
}
