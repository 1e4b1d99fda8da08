//! Tests SQLite.

mod conformance;
mod damage;
mod file;
mod samples;
