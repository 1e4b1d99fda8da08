#![doc = include_str!("../README.md")]

mod agent_requests;
mod answer;
mod context_cache;
mod feedback;
mod gateway;
mod http;
mod intake;
mod lessons;
mod ranked_task;
mod rules;
mod task_embedder;
#[cfg(test)]
mod testing;
mod tokens;

pub use agent_requests::AgentResponder;
pub use answer::{
    ContextAnswer, ContextRequest, FOUND_MAX, FoundEntry, MemoryAnswer, MemoryReader, MemoryText, Recording,
    RulesAnswer, SearchAnswer, SearchRequest, TaskRanking,
};
pub use context_cache::ContextCacheWorker;
pub use feedback::{
    FeedbackAnswer, FeedbackFieldError, FeedbackRecording, FeedbackRequest, FeedbackSource, store_feedback,
};
pub use gateway::{CONTEXT_TIMEOUT_MS, FeedbackError, Gateway};
pub use http::{build_not_ready_router, build_router, describe_api};
pub use intake::{
    EventsAnswer, EventsRefused, ImportFacts, IngestService, ReceivedSpan, ReceivedTrace, ReceivedTraces,
    RefusedEvent, RunImporter, TraceSettings,
};
pub use lessons::{
    LessonAnswer, LessonOutcome, LessonRequest, LessonSaved, LessonSaver, answer_lesson, lessons_router,
};
pub use tokens::count_tokens;
