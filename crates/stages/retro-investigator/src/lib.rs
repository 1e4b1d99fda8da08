#![doc = include_str!("../README.md")]

mod agents_md;
mod brief;
pub mod engine;
pub mod heuristics;
mod job_log;
mod journal;
mod model;
mod play;
mod summarizer;
mod summary;
mod worker;

pub use brief::BodySources;
pub use engine::{Engine, HeuristicEngine, InvestigationTask};
pub use journal::InvestigationJournal;
pub use model::{ModelEngine, ModelSettings, answer_schema};
pub use play::{PlayedInvestigation, play_investigation};
pub use worker::{Worker, WorkerSettings};
