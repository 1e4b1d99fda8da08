#![doc = include_str!("../README.md")]

pub mod atif;
pub mod consumer;
pub mod encoding;
pub mod envelope;
pub mod field;
pub mod github;
pub mod hosts;
pub mod rights;
mod role;
pub mod run_completed;
pub mod stream;
pub mod subject;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use consumer::{
    Accountable, CheckedEvent, Consumer, Delivery, GithubIntake, GithubMessage, Https, INTAKE_EVENTS_MAX,
    Intake, IntakeError, ObjectError, Objects, PublishError, Publisher, Verdict,
};
pub use role::{Durable, Role};
