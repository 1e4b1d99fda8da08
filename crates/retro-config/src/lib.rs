#![doc = include_str!("../README.md")]

pub mod config;
pub mod document;
pub mod edition;
mod embedder;
pub mod keys;
pub mod layers;
pub mod policy_book;
mod problem;
pub mod secret;
mod secret_file;

pub use config::{Config, load};
pub use edition::{Edition, Explained};
pub use embedder::Embedder;
pub use layers::{Loaded, Origin};
pub use policy_book::{Looked, PolicyBook};
pub use problem::Problems;
pub use secret::{Secret, without_password};
