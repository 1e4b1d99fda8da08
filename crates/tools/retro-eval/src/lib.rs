#![doc = include_str!("../README.md")]

pub mod broker;
pub mod closed_loop;
pub mod converted_run;
#[cfg(feature = "decisions")]
pub mod decisions;
pub mod http_client;
pub mod instance;
