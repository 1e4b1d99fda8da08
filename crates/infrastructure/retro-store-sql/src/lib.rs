#![doc = include_str!("../README.md")]

pub mod postgres;
mod rows;
#[allow(
    clippy::duplicate_mod,
    reason = "each database compiles the ports with its own dialect, so that their statements stand once"
)]
pub mod sqlite;

pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;

use rows::location::{at, format_policy_time, parse_workflow_key, to_i64, to_json, translate_error};
