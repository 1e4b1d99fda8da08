//! Tests SQLite.

mod conformance;
mod damage;
mod file;
mod plans;
mod samples;
