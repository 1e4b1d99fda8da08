#![doc = include_str!("../README.md")]

pub mod atif;
pub mod consumer;
pub mod encoding;
pub mod envelope;
pub mod field;
pub mod github;
pub mod hosts;
pub mod permissions;
mod role;
pub mod run_completed;
pub mod stream;
pub mod subject;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use consumer::{
    BodyFetcher, Consumer, Delivery, GithubMessage, GithubPublisher, HandlerOutcome, INTAKE_EVENTS_MAX,
    IntakeError, IntakePublisher, ObjectError, ObjectStorage, PublishError, Publisher, Reconcilable,
    ValidatedEvent,
};
pub use role::{DurableConsumer, Role};
