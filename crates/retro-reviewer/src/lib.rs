#![doc = include_str!("../README.md")]

mod heuristics;
mod phrase;
mod review_batch;
mod review_event;
mod reviewer;
mod signs;
mod text;
mod topic;
mod vectors;

use async_trait::async_trait;
use retro_core::review::{Remark, RemarkReading};

pub use heuristics::HeuristicReader;
pub use reviewer::{Reviewer, ReviewerPorts};

/// Classifies remarks. A reader may be wrong: its readings are screened and decided on, and never trusted.
#[async_trait]
pub trait RemarkReader: Send + Sync {
    /// Name and version, such as `heuristics-2`, as reports show it.
    fn name(&self) -> &str;

    /// Reads one remark. Never fails: a reader without a result returns noise with certainty 0 and the reason.
    async fn read_remark(&self, remark: &Remark) -> RemarkReading;
}
