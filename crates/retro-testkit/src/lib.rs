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

pub use clock::MovableClock;
pub use collector::{Collector, SeenLink, SeenMetric, SeenSpan};
pub use embeddings::{Concepts, Embeddings, write_weights};
pub use github::signature;
pub use memory::{MemoryDeliveries, MemoryOutbox};
pub use nats::TestNats;
pub use port::free_port;
pub use postgres::TestPostgres;
pub use users::{GuardedNats, password};
