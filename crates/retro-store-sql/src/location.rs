//! Locates stored values for error messages, converts between columns and Rust types, and translates errors.

use std::fmt::Display;
use std::str::FromStr;

use jiff::Timestamp;
use retro_core::id::WorkflowKey;
use retro_store::{Result, StoreError};
use serde::de::DeserializeOwned;
use sqlx::error::DatabaseError;

/// Translates an error of the database into an error of the port. `table` names the table in the message; `passes`
/// returns true for a database error that describes a temporary condition rather than damaged data.
pub fn translate_error(
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
        _ => StoreError::Unavailable(format!("{table}: {error}")),
    }
}

/// Location of a stored value for error messages: `table.column` and the key of the row.
#[derive(Debug, Clone, Copy)]
pub struct Location<K> {
    column: &'static str,
    key: K,
}

/// Returns the location `table.column` of the row with this key.
pub const fn at<K: Display>(column: &'static str, key: K) -> Location<K> {
    Location { column, key }
}

impl<K: Display> Location<K> {
    /// Builds the error for a problem with the value at this location.
    pub fn damaged_error(&self, problem: impl Display) -> StoreError {
        StoreError::Damaged {
            place: format!("{} of {}", self.column, self.key),
            problem: problem.to_string(),
        }
    }

    /// Parses a JSON value. Fails on a damaged value.
    pub fn parse_json<T: DeserializeOwned>(&self, text: &str) -> Result<T> {
        serde_json::from_str(text).map_err(|error| self.damaged_error(error))
    }

    /// Parses the stored name of an enum variant.
    pub fn parse_enum<T: DeserializeOwned>(&self, word: &str) -> Result<T> {
        serde_json::from_value(word.into()).map_err(|error| self.damaged_error(error))
    }

    /// Parses a name, an id or a policy timestamp.
    pub fn parse<T: FromStr<Err: Display>>(&self, text: &str) -> Result<T> {
        text.parse().map_err(|error| self.damaged_error(error))
    }

    /// Converts an integer to an unsigned type. Fails when it is negative or too large.
    pub fn parse_unsigned<T: TryFrom<i64, Error: Display>>(&self, number: i64) -> Result<T> {
        T::try_from(number).map_err(|error| self.damaged_error(format!("{number}: {error}")))
    }

    /// Converts a time by the database's clock from Unix milliseconds.
    pub fn parse_millis(&self, millis: i64) -> Result<Timestamp> {
        Timestamp::from_millisecond(millis).map_err(|error| self.damaged_error(error))
    }

    /// Fails unless a statement wrote exactly as many rows as expected.
    pub fn check_rows_affected(&self, rows: u64, expected: usize) -> Result<()> {
        if rows == expected as u64 {
            Ok(())
        } else {
            Err(self.damaged_error(format!("{rows} rows were written instead of {expected}")))
        }
    }
}

/// Serializes plain data for a JSON column.
pub fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("stored values serialize to JSON")
}

/// Converts a number to a database integer. A number above the maximum becomes the maximum, but ordinals, epochs and
/// seconds stay far below 2^63.
pub fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Formats a policy timestamp with nine decimals, because texts of a fixed width sort in the order of time.
pub fn format_policy_time(moment: Timestamp) -> String {
    format!("{moment:.9}")
}

/// Parses the key of a workflow.
pub fn parse_workflow_key(tenant: &str, workflow: &str) -> Result<WorkflowKey> {
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
