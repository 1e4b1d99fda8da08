#![doc = include_str!("../README.md")]

mod bridge;
mod http;
mod payload;
mod read;
mod run;
mod signature;
mod text;
mod trailer;
mod unmapped;

#[cfg(test)]
mod testing;

pub use bridge::{Bridge, Outlets, ROUTE, WEBHOOK_BYTES_MAX};
pub use http::router;
pub use read::{Fact, Left, Reading, Taken, read};
pub use signature::{Secrets, Speaker, Unsigned};
