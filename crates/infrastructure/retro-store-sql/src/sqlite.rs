//! The ports on one SQLite file.

mod bodies;
mod dialect;
mod errors;
mod open;
#[path = "ports/mod.rs"]
mod ports;
mod read_ahead;

pub use open::{BUSY_WAIT, READERS_MAX, SqliteStore, migrate};
