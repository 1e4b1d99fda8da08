//! The bus against a real nats-server.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report, in what the tests share as well")]

mod attempts;
mod consume;
mod crash;
mod intake;
mod objects;
mod publish;
mod relay;
mod rights;
mod server;
mod topology;
mod wire;
mod world;
