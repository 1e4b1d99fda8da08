#![doc = include_str!("../README.md")]

mod arguments;
mod http;
mod output;
mod server;
mod stdio;
mod tools;

pub use http::{MCP_PATH, build_router, describe_api};
pub use server::MemoryServer;
pub use stdio::{ServeStdioError, serve_stdio};
