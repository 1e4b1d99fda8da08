#![doc = include_str!("../README.md")]

mod authority;
mod clock;
mod cluster;
mod collector;
mod embeddings;
mod github;
mod github_api;
mod in_memory;
mod model_endpoint;
mod nats;
mod port;
mod postgres;
mod users;

use std::time::Duration;

pub use authority::{TestAuthority, Validity};
pub use clock::MovableClock;
pub use cluster::NatsCluster;
pub use collector::{Collector, ReceivedLink, ReceivedMetric, ReceivedSpan};
pub use embeddings::{Concepts, EmbeddingServer, write_weights};
pub use github::sign_webhook;
pub use github_api::{FakeGithub, GITHUB_TOKEN, ReceivedRequest};
pub use in_memory::{InMemoryDeliveries, InMemoryOutbox};
pub use model_endpoint::{ModelEndpoint, ModelReply, REPLY_TOKENS, ReceivedPrompt};
pub use nats::TestNats;
pub use port::free_port;
pub use postgres::TestPostgres;
pub use users::{SecuredNats, test_password};

/// Maximum time that a test waits for something before it fails and reports what is missing: 300 s. This is a
/// safety net and not a measure of speed, because a busy machine can be tens of times slower than an idle
/// one.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(300);
