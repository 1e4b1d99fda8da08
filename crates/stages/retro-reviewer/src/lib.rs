#![doc = include_str!("../README.md")]

mod claim;
mod heuristics;
mod model;
mod phrase;
mod play;
mod quoted;
mod reader;
mod review_batch;
mod review_event;
mod reviewer;
mod signs;
mod text;
mod topic;
mod vectors;
mod wording;

pub use claim::{NoJournal, sum_costs};
pub use heuristics::HeuristicReader;
pub use model::{ModelReader, ModelReaderSettings, readings_schema};
pub use play::{PlayedReview, play_review};
pub use reader::{ReadingJournal, ReadingTask, RemarkReader, ReviewReadings};
pub use reviewer::{Reviewer, ReviewerPorts};
