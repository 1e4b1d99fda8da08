#![doc = include_str!("../README.md")]

mod clock;
mod collector;
mod embeddings;
mod github;
mod memory;
mod nats;
mod port;
mod postgres;
mod users;

use std::time::Duration;

pub use clock::MovableClock;
pub use collector::{Collector, SeenLink, SeenMetric, SeenSpan};
pub use embeddings::{Concepts, Embeddings, write_weights};
pub use github::signature;
pub use memory::{MemoryDeliveries, MemoryOutbox};
pub use nats::TestNats;
pub use port::free_port;
pub use postgres::TestPostgres;
pub use users::{GuardedNats, password};

/// How long a test waits for what has to come, before it fails and says what is missing. A net for what never comes and no
/// measure of speed: a machine that is busy with something else may be tens of times slower than one of its own.
pub const PATIENCE: Duration = Duration::from_secs(300);
