#![doc = include_str!("../README.md")]

mod answer;
mod context_cache;
mod gateway;
mod http;
mod intake;
mod rules;
#[cfg(test)]
mod testing;
mod tokens;

pub use answer::{
    ContextAnswer, ContextRequest, MemoryAnswer, MemoryReader, MemoryText, Recording, RulesAnswer,
};
pub use context_cache::ContextCacheWorker;
pub use gateway::{CONTEXT_TIMEOUT_MS, Gateway};
pub use http::{build_not_ready_router, build_router, describe_api};
pub use intake::{
    EventsAnswer, EventsRefused, ImportFacts, IngestService, ReceivedTrace, RefusedEvent, RunImporter,
};
pub use tokens::count_tokens;
