#![doc = include_str!("../README.md")]

mod agent_service;
pub mod backoff;
mod broker_calls;
pub mod connect;
mod connection_loss;
pub mod consume;
mod consumer_lag;
mod error_codes;
pub mod intake;
mod jetstream_requests;
pub mod objects;
mod outbox_wake;
mod permission_violations;
pub mod publish;
pub mod relay;
pub mod server;
pub mod stream_check;
pub mod topology;

pub use agent_service::serve_agents;
pub use connect::{Bus, BusConfig, BusError, ClientCertificate, ConnectionSecurity, CredentialFile, TlsMode};
pub use consume::{ACK_WAIT, ATTEMPTS_MAX, Subscription, run_consumer, run_reconciler};
pub use consumer_lag::{ConsumerLag, ConsumerProgress};
pub use intake::NatsIntakePublisher;
pub use objects::BodyStore;
pub use outbox_wake::{announce_outbox, listen_for_memory_changes, listen_for_outbox};
pub use publish::{EventPublisher, OutboxPublisher, OutgoingEvent, ReplayPublishError, ReplayPublisher};
pub use relay::run_relay;
pub use retro_events::{DurableConsumer, Role};
pub use server::{NatsServer, ServerConfig, ServerError, ensure_seed_file};
pub use stream_check::watch_streams;
pub use topology::{StreamSizes, TopologyMode};
