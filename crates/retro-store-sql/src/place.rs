//! Errors: what the database answers, and what cannot be read, in the words of the port.

use std::fmt::Display;
use std::str::FromStr;

use jiff::Timestamp;
use retro_core::id::WorkflowKey;
use retro_store::{Result, StoreError};
use serde::de::DeserializeOwned;
use sqlx::error::DatabaseError;

/// An error of the database in the words of the port. `table` is what was worked on, for the person who reads it;
/// `passes` says whether an answer of the database speaks of a state that passes and not of what is stored.
pub fn translate(
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

/// A place in the database whose content is being read: `table.column` and the row's key.
#[derive(Debug, Clone, Copy)]
pub struct At<K> {
    column: &'static str,
    key: K,
}

/// The place `table.column` of the row with this key.
pub const fn at<K: Display>(column: &'static str, key: K) -> At<K> {
    At { column, key }
}

impl<K: Display> At<K> {
    /// The error that says what is wrong here.
    pub fn damaged(&self, problem: impl Display) -> StoreError {
        StoreError::Damaged {
            place: format!("{} of {}", self.column, self.key),
            problem: problem.to_string(),
        }
    }

    /// Reads JSON.
    pub fn json<T: DeserializeOwned>(&self, text: &str) -> Result<T> {
        serde_json::from_str(text).map_err(|error| self.damaged(error))
    }

    /// Reads one word of an enum.
    pub fn word<T: DeserializeOwned>(&self, word: &str) -> Result<T> {
        serde_json::from_value(word.into()).map_err(|error| self.damaged(error))
    }

    /// Reads a name, an id or a policy moment.
    pub fn parse<T: FromStr<Err: Display>>(&self, text: &str) -> Result<T> {
        text.parse().map_err(|error| self.damaged(error))
    }

    /// Reads a number that is never negative.
    pub fn unsigned<T: TryFrom<i64, Error: Display>>(&self, number: i64) -> Result<T> {
        T::try_from(number).map_err(|error| self.damaged(format!("{number}: {error}")))
    }

    /// Reads a moment of the database's clock, Unix milliseconds.
    pub fn millis(&self, millis: i64) -> Result<Timestamp> {
        Timestamp::from_millisecond(millis).map_err(|error| self.damaged(error))
    }

    /// Fails unless a statement touched as many rows as it had to.
    pub fn touched(&self, rows: u64, expected: usize) -> Result<()> {
        if rows == expected as u64 {
            Ok(())
        } else {
            Err(self.damaged(format!("{rows} rows were written instead of {expected}")))
        }
    }
}

/// JSON of plain data for a column.
pub fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("what is stored is plain data")
}

/// A number as a database keeps it. Ordinals, epochs and seconds stay far below 2^63.
pub fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A policy moment as stored: fixed width, so that text order is time order.
pub fn policy_time(moment: Timestamp) -> String {
    format!("{moment:.9}")
}

/// Reads the key of a workflow.
pub fn workflow_key(tenant: &str, workflow: &str) -> Result<WorkflowKey> {
    let place = at("workflows", format!("{tenant}/{workflow}"));
    Ok(WorkflowKey { tenant: place.parse(tenant)?, workflow: place.parse(workflow)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_time_sorts_as_text_and_comes_back_exactly() {
        let moments = ["2026-11-20T10:00:00Z", "2026-11-20T10:00:00.000000001Z", "2026-11-20T10:00:00.1Z"];
        let moments = moments.map(|text| text.parse::<Timestamp>().unwrap());
        let stored = moments.map(policy_time);
        assert!(stored.is_sorted(), "{stored:?}");
        assert_eq!(stored.map(|text| text.parse::<Timestamp>().unwrap()), moments);
    }
}
