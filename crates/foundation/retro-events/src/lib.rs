#![doc = include_str!("../README.md")]

pub mod agents;
pub mod atif;
mod delivery;
pub mod encoding;
pub mod envelope;
pub mod field;
pub mod github;
pub mod hosts;
pub mod permissions;
mod ports;
mod role;
pub mod run_completed;
pub mod stream;
pub mod subject;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use delivery::Delivery;
pub use ports::{
    BodyFetcher, GithubMessage, GithubPublisher, INTAKE_EVENTS_MAX, IntakeError, IntakePublisher, JobLog,
    JobLogFetcher, ObjectError, ObjectStorage, PublishError, Publisher, StreamProgress, ValidatedEvent,
};
pub use role::{DurableConsumer, Role};
