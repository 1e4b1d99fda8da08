#![doc = include_str!("../README.md")]

mod backlog;
pub mod backoff;
pub mod connect;
pub mod consume;
pub mod intake;
pub mod objects;
pub mod publish;
mod refusal;
pub mod relay;
pub mod server;
pub mod topology;

pub use connect::{Bus, BusConfig, BusError};
pub use consume::{Subscription, run_consumer};
pub use intake::EventIntake;
pub use objects::BodyStore;
pub use publish::{EventPublisher, NoticePublisher, OutgoingEvent};
pub use relay::run_relay;
pub use retro_events::{Durable, Role};
pub use server::{NatsServer, ServerConfig, ServerError};
pub use topology::{StreamSizes, Upkeep};
