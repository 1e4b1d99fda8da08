#![doc = include_str!("../README.md")]

mod client;
mod error;
mod logs;
mod pull_request;

pub use client::{ApiBounds, GithubApi};
pub use error::ApiError;
pub use logs::{GithubLogs, JOBS_MAX};
pub use pull_request::{FetchedList, FetchedPullRequest};
