//! Tests Postgres.

mod conformance;
mod damage;
mod database;
mod samples;
