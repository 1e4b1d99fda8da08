#![doc = include_str!("../README.md")]

mod brief;
pub mod engine;
pub mod heuristics;
mod job_log;
mod summarizer;
mod summary;
mod worker;

pub use brief::BodySources;
pub use engine::{Engine, HeuristicEngine};
pub use worker::{Worker, WorkerSettings};
