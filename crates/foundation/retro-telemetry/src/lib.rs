#![doc = include_str!("../README.md")]

#[cfg(feature = "export")]
pub mod export;
pub mod metrics;
pub mod trace;
