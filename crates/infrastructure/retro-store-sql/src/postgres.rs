//! The ports on a Postgres database.

mod bodies;
mod dialect;
mod errors;
mod open;
#[path = "ports/mod.rs"]
mod ports;

pub use open::{CONNECTIONS_MAX, LOCK_WAIT, PostgresStore, RECORDERS_MAX, describe_address, migrate};
