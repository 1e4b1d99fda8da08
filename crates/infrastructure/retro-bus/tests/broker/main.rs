//! Tests the bus against a real nats-server.
#![expect(clippy::unwrap_used, reason = "clippy does not recognize shared test helpers as tests")]

mod agents;
mod attempts;
mod consume;
mod crash;
mod intake;
mod objects;
mod permissions;
mod publish;
mod relay;
mod secured;
mod server;
mod topology;
mod wire;
mod world;
