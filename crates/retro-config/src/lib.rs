#![doc = include_str!("../README.md")]

pub mod config;
pub mod document;
pub mod keys;
pub mod layers;
mod problem;
pub mod secret;
mod secret_file;

pub use config::{Config, load};
pub use layers::{Loaded, Origin};
pub use problem::Problems;
pub use secret::{Secret, without_password};
