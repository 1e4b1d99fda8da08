#![doc = include_str!("../README.md")]

mod backlog;
pub mod backoff;
pub mod backstop;
pub mod connect;
pub mod consume;
pub mod intake;
pub mod objects;
pub mod publish;
mod refusal;
pub mod relay;
pub mod server;
mod step;
pub mod topology;

pub use backlog::Lag;
pub use backstop::watch_streams;
pub use connect::{Bus, BusConfig, BusError};
pub use consume::{ACK_WAIT, ATTEMPTS_MAX, Subscription, run_consumer, run_reconciler};
pub use intake::EventIntake;
pub use objects::BodyStore;
pub use publish::{EventPublisher, NoticePublisher, OutgoingEvent, ResendError, Resender};
pub use relay::run_relay;
pub use retro_events::{Durable, Role};
pub use server::{NatsServer, ServerConfig, ServerError};
pub use topology::{StreamSizes, Upkeep};
