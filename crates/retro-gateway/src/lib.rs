#![doc = include_str!("../README.md")]

mod answer;
mod described;
mod gateway;
mod http;
mod intake;
mod rules;
#[cfg(test)]
mod testing;
mod tokens;

pub use answer::{ContextAnswer, ContextRequest, MemoryAnswer, MemoryText, Recording, RulesAnswer};
pub use gateway::{ANSWER_MS_MAX, Gateway};
pub use http::{description, router, waiting_router};
pub use intake::{EventsAnswer, EventsRefused, IngestService, RefusedEvent};
pub use retro_http::{Probes, Readiness, ServeError, listen, serve};
pub use tokens::count as count_tokens;
